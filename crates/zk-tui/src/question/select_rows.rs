use zk_core::model::Display;
use zk_core::service::{Selection, visible_diff, visible_lines};
use zk_view::sanitise;

use super::frame::{CALL_EDGE, clip, key_rows, wrap, wrap_words};
use crate::markdown::Markdown;
use crate::row::{Row, Style};
use crate::text::columns;
use crate::view::diff::diff_of_files;

/// Maximum width of an option with its description beside it.
const MAX_OPTION_COLUMNS: usize = 32;

/// Maximum number of rows for the first line of a question; the rest is scrolled with the preview.
const HEAD_ROWS: usize = 3;

/// Minimum number of visible rows of the preview.
const MIN_PREVIEW_ROWS: usize = 2;

/// Rows of a selection, by part.
pub(super) struct SelectRows<'a> {
    pub(super) asked: &'a Selection,
    pub(super) who: Option<&'a str>,
    pub(super) preview: &'a [Row],
    pub(super) from: usize,
    pub(super) mark: Option<usize>,
    pub(super) is_typing: bool,
    pub(super) is_mistyped: bool,
}

/// The rows of the first line of a question.
fn head_rows(asked: &Selection, who: Option<&str>, width: usize) -> Vec<Row> {
    let who = who.map_or(String::new(), |who| format!("{}: ", visible_lines(who).join(" ")));
    let question = visible_lines(&asked.text).into_iter().next().unwrap_or_default();
    let mut rows = Vec::new();
    wrap_words("┌ ", Style::BOLD, &format!("{who}{question}"), width, &mut rows);
    rows
}

/// Rows of the preview, and the rest of the question's text.
pub(super) fn preview_rows(asked: &Selection, who: Option<&str>, width: usize) -> Vec<Row> {
    let inner = width.saturating_sub(3).max(8);
    let framed = |row: Row| {
        let mut whole = Row::of(Style::DIM, CALL_EDGE);
        whole.append(&row);
        whole
    };
    let mut rows: Vec<Row> = match &asked.preview {
        Some(Display::Markdown { text, .. }) => {
            Markdown::rows_of(&sanitise(text), inner).into_iter().map(framed).collect()
        }
        Some(Display::Diff { diff, .. }) => {
            let lines = visible_diff(diff);
            let split = |row: Row| crate::text::soft_split(&row, inner);
            diff_of_files(lines.iter().map(String::as_str)).into_iter().flat_map(split).map(framed).collect()
        }
        _ => Vec::new(),
    };
    let more = head_rows(asked, who, width).into_iter().skip(HEAD_ROWS);
    rows.splice(..0, more);
    let lines = visible_lines(&asked.text);
    lines.iter().skip(1).for_each(|line| wrap(CALL_EDGE, "", Style::PLAIN, line, width, &mut rows));
    rows
}

impl SelectRows<'_> {
    /// The rows for a screen that has `room` for them.
    pub(super) fn draw(&self, width: usize, room: usize) -> Vec<Row> {
        let (mut rows, options, left, keys) = self.layout(width, room);
        rows.extend(self.preview(left));
        rows.extend(options);
        rows.extend(keys);
        rows
    }

    /// Number of visible rows of the preview.
    pub(super) fn preview_height(&self, width: usize, room: usize) -> usize {
        self.layout(width, room).2.saturating_sub(1).max(1)
    }

    /// Layout: rows above, rows of the options, height of the preview between them, and rows of the keys. The
    /// keys have a short form if not all options would fit otherwise.
    fn layout(&self, width: usize, room: usize) -> (Vec<Row>, Vec<Row>, usize, Vec<Row>) {
        let mut rows = head_rows(self.asked, self.who, width);
        rows.truncate(HEAD_ROWS);
        let wanted = self.preview.len().min(MIN_PREVIEW_ROWS);
        let left = |keys: &[Row]| room.saturating_sub(rows.len() + keys.len());
        let mut keys = self.keys(width, false);
        if self.options(width, usize::MAX).len() > left(&keys).saturating_sub(wanted) {
            keys = self.keys(width, true);
        }
        let left = left(&keys);
        let mut options = self.options(width, left.saturating_sub(wanted).max(1));
        if self.mark.is_some() && wanted > 1 && options.iter().any(|row| row.text().ends_with('…')) {
            // The marked option is shown whole, at the cost of the preview.
            options = self.options(width, left.saturating_sub(1).max(1));
        }
        let between = left.saturating_sub(options.len());
        (rows, options, between, keys)
    }

    /// Whether the preview has room for nothing but the number of its rows.
    pub(super) fn hides_preview(&self, width: usize, room: usize) -> bool {
        self.preview.len() > 1 && self.layout(width, room).2 < MIN_PREVIEW_ROWS
    }

    /// Visible rows of the preview.
    fn preview(&self, room: usize) -> Vec<Row> {
        if self.preview.len() <= room || room == 0 {
            return self.preview.iter().take(room).cloned().collect();
        }
        let shown = room.saturating_sub(1);
        let from = self.from.min(self.preview.len().saturating_sub(shown));
        let mut rows: Vec<Row> = self.preview.iter().skip(from).take(shown).cloned().collect();
        let (above, below) = (from, self.preview.len() - from - shown.min(self.preview.len() - from));
        let text = match (above, below) {
            (0, below) => format!("├ {below} more rows: Page Down"),
            (above, 0) => format!("├ {above} rows are above: Page Up"),
            (above, below) => format!("├ {above} rows are above, {below} below: Page Up, Page Down"),
        };
        rows.push(Row::of(Style::YELLOW, &text));
        rows
    }

    /// Rows of the options: with descriptions if they fit, and only those around the mark if the options do not
    /// fit either.
    fn options(&self, width: usize, room: usize) -> Vec<Row> {
        let options: Vec<String> =
            self.asked.options.iter().map(|option| visible_lines(option).join(" ")).collect();
        let wide =
            options.iter().map(|option| columns(option)).max().unwrap_or_default().min(MAX_OPTION_COLUMNS);
        let head = |at: usize, option: &str| {
            let is_marked = self.mark == Some(at);
            let (sign, style) = if is_marked { ("› ", Style::BOLD) } else { ("  ", Style::PLAIN) };
            Row::of(Style::DIM, CALL_EDGE).with(style, &format!("{sign}{}  {option}", at + 1))
        };
        let description = |at: usize| {
            let text = self.asked.descriptions.get(at).map(|text| visible_lines(text).join(" "));
            text.filter(|text| !text.trim().is_empty())
        };
        let mut rows = Vec::new();
        for (at, option) in options.iter().enumerate() {
            let row = head(at, option);
            let style = if self.mark == Some(at) { Style::BOLD } else { Style::PLAIN };
            let Some(text) = description(at) else {
                rows.extend(wrapped(row, style, at, width));
                continue;
            };
            let pad = " ".repeat(2 + wide.saturating_sub(columns(option)));
            let beside = row.clone().with(Style::DIM, &format!("{pad}{text}"));
            if beside.columns() < width {
                rows.push(beside);
            } else {
                rows.extend(wrapped(row, style, at, width));
                wrap_words(CALL_EDGE, Style::DIM, &format!("     {text}"), width, &mut rows);
            }
        }
        if rows.len() <= room {
            return rows;
        }
        let short = |(at, option): (usize, &String)| head(at, &clip(option, width.saturating_sub(7)));
        let rows: Vec<Row> = options.iter().enumerate().map(short).collect();
        if let Some((at, option)) = self.mark.and_then(|at| Some((at, options.get(at)?))) {
            // The marked option is shown whole.
            let whole = wrapped(head(at, option), Style::BOLD, at, width);
            if rows.len() + whole.len() <= room + 1 {
                let (before, after) = (rows.iter().take(at), rows.iter().skip(at + 1));
                return before.cloned().chain(whole).chain(after.cloned()).collect();
            }
        }
        if rows.len() <= room {
            return rows;
        }
        let shown = room.saturating_sub(1).max(1);
        let from = self.mark.unwrap_or(0).saturating_sub(shown / 2).min(rows.len().saturating_sub(shown));
        let hidden = rows.len() - shown;
        let mut part: Vec<Row> = rows.into_iter().skip(from).take(shown).collect();
        if room > 1 {
            part.push(Row::of(Style::DIM, &format!("{CALL_EDGE}  … {hidden} more: ↑↓")));
        }
        part
    }

    fn keys(&self, width: usize, is_short: bool) -> Vec<Row> {
        let count = self.asked.options.len();
        let keys = match (count, self.asked.accepts_words) {
            (1.., true) if is_short => "↑↓ Enter · digit · or type · Esc declines",
            (1.., false) if is_short => "↑↓ Enter · digit · n or Esc: none",
            (0, _) => "type your answer · Enter sends it · Esc declines",
            (_, true) => "↑↓ and Enter, a digit, or type your own answer · Esc declines",
            (_, false) => "↑↓ and Enter, or a digit · n or Esc: none of them",
        };
        let text = match (self.is_typing, self.is_mistyped) {
            (true, _) => format!("└ Alt-Q answers: {keys}"),
            (false, true) if count > 0 && self.asked.accepts_words => {
                "└ ↑↓ first, then Enter · a digit · or type your own answer".to_owned()
            }
            (false, true) if count > 0 => format!("└ Type a number from 1 to {count}, or n for none of them"),
            (false, _) => format!("└ {keys}"),
        };
        key_rows(&text, width)
    }
}

/// Rows of an option, wrapped.
fn wrapped(row: Row, style: Style, at: usize, width: usize) -> Vec<Row> {
    let text = row.text();
    let indent = columns(CALL_EDGE) + 4 + (at + 1).to_string().len();
    if row.columns() < width {
        return vec![row];
    }
    let rest = Row::of(Style::DIM, &format!("{CALL_EDGE}{}", " ".repeat(indent.saturating_sub(2))));
    let first = Row::of(Style::DIM, CALL_EDGE);
    let line = text.strip_prefix(CALL_EDGE).unwrap_or(&text).to_owned();
    crate::text::wrap(&Row::of(style, &line), &first, &rest, width.saturating_sub(1))
}
