use zk_core::model::Display;
use zk_core::service::{Selection, TrustRequest, visible_diff, visible_lines};
use zk_view::sanitise;

use crate::markdown::Markdown;
use crate::row::{Row, Style};

/// Left edge of every row of the call itself. No text appears without it, so none can imitate an edge, a
/// choice or an answer.
pub(super) const CALL_EDGE: &str = "│ ";
/// Left edge of a row that continues the one above.
pub(super) const CONTINUED_EDGE: &str = "│↪";
/// Left edge of a section's heading that names its kind, such as JSON or preview. An argument's text never
/// has this edge.
pub(super) const HEADING_EDGE: &str = "├ ";
/// Indentation of arguments below their names.
const INDENT: &str = "  ";

/// Choices of a question about trust, each behind its letter.
const TRUST_CHOICES: [&str; 2] = ["y  Yes, trust it exactly as it is", "n  No, go on without it"];
/// Minimum number of visible body rows before the choices of a question about trust are shortened.
const MIN_TRUST_BODY_ROWS: usize = 3;

/// Rows of a question, by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// First row of the question.
    pub head: Row,
    /// Further rows of the question's text.
    pub lead: Vec<Row>,
    /// Everything that will run, each row no wider than the terminal.
    pub body: Vec<Row>,
    /// Choices that have rows of their own, with their rules.
    pub rules: Vec<Row>,
    /// All keys, on a terminal of any width.
    pub keys: Vec<Row>,
    /// Index of the body row at which the reasons start, if they are shown.
    pub why_at: Option<usize>,
    /// Whether its edges are heavy, for a dangerous call.
    pub is_heavy: bool,
}

impl Frame {
    /// Frame of a yes-or-no question.
    #[must_use]
    pub fn of_confirmation(text: &str, width: usize) -> Self {
        let mut body = Vec::new();
        visible_lines(text).iter().for_each(|line| wrap(CALL_EDGE, "", Style::PLAIN, line, width, &mut body));
        let keys = key_rows("└ [y]es · [n]o", width);
        Self { head: Row::of(Style::BOLD, "┌ Question"), body, keys, ..Self::default() }
    }

    /// Frame of a question about trust in a project, with its choices in words if `room` rows suffice.
    #[must_use]
    pub fn of_trust(asked: &TrustRequest, width: usize, room: usize, shows_why: bool) -> Self {
        let mut head = Vec::new();
        wrap_words("┌ ", Style::BOLD, &visible_lines(&asked.text).join(" "), width, &mut head);
        let mut body = Vec::new();
        let mut lines = |lines: &[String], style: Style| {
            for line in lines.iter().flat_map(|line| visible_lines(line)) {
                wrap(CALL_EDGE, INDENT, style, &line, width, &mut body);
            }
        };
        lines(&asked.items, Style::PLAIN);
        if shows_why {
            lines(&asked.details, Style::DIM);
        }
        let why_at = shows_why.then_some(body.len().saturating_sub(asked.details.len()));
        let details = if asked.details.is_empty() { "" } else { " · ? exactly what" };
        let mut rules = Vec::new();
        for (edge, text) in [HEADING_EDGE, CALL_EDGE].iter().zip(TRUST_CHOICES) {
            wrap_words(edge, Style::PLAIN, text, width, &mut rules);
        }
        let mut keys = key_rows(&format!("└ ↑↓ and Enter, or a letter{details}"), width);
        let shown = body.len().min(MIN_TRUST_BODY_ROWS) + 1;
        if head.len() + shown + rules.len() + keys.len() > room {
            rules.clear();
            keys = key_rows(&format!("└ [y]es · [n]o{details}"), width);
        }
        let mut head = head.into_iter();
        let first = head.next().unwrap_or_default();
        Self { head: first, lead: head.collect(), body, rules, keys, why_at, ..Self::default() }
    }

    /// Frame of a question answered by a line.
    #[must_use]
    pub fn of_input(text: &str, options: &[String], width: usize) -> Self {
        let mut frame = Self::of_confirmation(text, width);
        for (option, number) in options.iter().zip(1..) {
            for (at, line) in visible_lines(option).iter().enumerate() {
                let number = if at == 0 { format!("{number} ") } else { "  ".to_owned() };
                wrap(CALL_EDGE, INDENT, Style::PLAIN, &format!("{number}{line}"), width, &mut frame.body);
            }
        }
        let keys = if options.is_empty() { "└ Type a line" } else { "└ Type a number, or n for none" };
        frame.keys = key_rows(&format!("{keys} · Enter answers"), width);
        frame
    }

    /// Frame of a selection in plain lines: preview, question, and options with descriptions.
    #[must_use]
    pub fn of_selection(asked: &Selection, width: usize) -> Self {
        let mut options = Vec::new();
        for (at, option) in asked.options.iter().enumerate() {
            match asked.descriptions.get(at).filter(|text| !text.trim().is_empty()) {
                Some(text) => options.push(format!("{option}: {text}")),
                None => options.push(option.clone()),
            }
        }
        let mut frame = Self::of_input(&asked.text, &options, width);
        let mut body = Vec::new();
        match &asked.preview {
            Some(Display::Markdown { text, .. }) => {
                let inner = width.saturating_sub(3).max(8);
                for row in Markdown::rows_of(&sanitise(text), inner) {
                    body.push(Row::of(Style::PLAIN, &format!("{CALL_EDGE}{}", row.text())));
                }
            }
            Some(Display::Diff { diff, .. }) => {
                let lines = visible_diff(diff);
                lines.iter().for_each(|line| wrap(CALL_EDGE, "", Style::PLAIN, line, width, &mut body));
            }
            _ => {}
        }
        if !body.is_empty() {
            body.push(Row::of(Style::PLAIN, CALL_EDGE.trim_end()));
            body.append(&mut frame.body);
            frame.body = body;
        }
        if asked.accepts_words {
            let keys = match asked.options.is_empty() {
                true => "└ Type your answer, or n for none",
                false => "└ Type a number, your own answer, or n for none",
            };
            frame.keys = key_rows(&format!("{keys} · Enter answers"), width);
        }
        frame
    }

    /// Rows that fit in `room` with the body from row `from` on, and the start of the next page if there is
    /// one. Hidden rows are counted; `above` is the key for those above.
    #[must_use]
    pub fn page(&self, from: usize, room: usize, above: &str) -> (Vec<Row>, Option<usize>) {
        self.page_with_rows(from, room, above, (&self.rules, &self.keys))
    }

    /// Variant of [`page`](Self::page) with other rows instead of the choices and keys.
    pub(super) fn page_with_rows(
        &self,
        from: usize,
        room: usize,
        above: &str,
        (rules, keys): (&[Row], &[Row]),
    ) -> (Vec<Row>, Option<usize>) {
        let room = self.body_room_with(room, keys.len());
        let next = from + room;
        let left = self.body.len().saturating_sub(next);
        let mut rows = vec![self.head.clone()];
        rows.extend(self.lead.iter().cloned());
        rows.extend(self.body.iter().skip(from).take(room).cloned());
        let mut counts = Vec::new();
        if left > 0 {
            let rows_left = if left == 1 { "1 more row".to_owned() } else { format!("{left} more rows") };
            counts.push(format!("{rows_left} below: space shows them"));
        }
        if from > 0 {
            counts.push(format!("{from} above{above}"));
        }
        if !counts.is_empty() {
            rows.push(Row::of(Style::YELLOW, &format!("├  {}", counts.join(" · "))));
        }
        rows.extend(rules.iter().cloned());
        rows.extend(keys.iter().cloned());
        (self.edged(rows), (left > 0).then_some(next))
    }

    /// Rows of the body that fit in `room`.
    pub(super) fn body_room(&self, room: usize) -> usize {
        self.body_room_with(room, self.keys.len())
    }

    fn body_room_with(&self, room: usize, keys: usize) -> usize {
        let around = 1 + self.lead.len() + self.rules.len() + keys;
        let whole = room.saturating_sub(around);
        if self.body.len() <= whole {
            return whole.max(1);
        }
        // One row counts the omitted rows.
        whole.saturating_sub(1).max(1)
    }
}

/// The rows of the keys, broken between two of them.
pub(super) fn key_rows(keys: &str, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for key in keys.split_inclusive(" · ") {
        let taken: usize = row.chars().chain(key.trim_end().chars()).count();
        if !row.is_empty() && taken > width {
            rows.push(std::mem::replace(&mut row, "  ".to_owned()));
        }
        row.push_str(key);
    }
    rows.push(row);
    rows.iter().map(|row| Row::of(Style::BOLD, row)).collect()
}

/// Upper bound of a character's width: non-ASCII may be two columns wide on some terminal.
fn columns(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// Appends `line` in rows that fit, each behind its edge.
pub(super) fn wrap(edge: &str, indent: &str, style: Style, line: &str, width: usize, rows: &mut Vec<Row>) {
    wrap_row(edge, indent, &Row::of(style, line), width, rows);
}

/// Variant of [`wrap`] for a line of several styles.
pub(super) fn wrap_row(edge: &str, indent: &str, line: &Row, width: usize, rows: &mut Vec<Row>) {
    // After a full row the terminal would continue without an edge.
    let room = width.saturating_sub(2 + indent.len() + 1).max(8);
    let text = line.text();
    let (mut edge, mut from, mut taken) = (edge, 0, 0);
    let mut push = |edge: &str, from, to| {
        let mut row = Row::of(line.style(), &format!("{edge}{indent}"));
        row.append(&line.cut(from, to));
        rows.push(row);
    };
    for (at, c) in text.char_indices() {
        if taken + columns(c) > room {
            push(edge, from, at);
            (from, taken, edge) = (at, 0, CONTINUED_EDGE);
        }
        taken += columns(c);
    }
    push(edge, from, text.len());
}

/// Variant of [`wrap`] that breaks at blanks, for the program's own prose.
pub(super) fn wrap_words(edge: &str, style: Style, line: &str, width: usize, rows: &mut Vec<Row>) {
    wrap_indented(edge, "", style, line, width, rows);
}

/// Variant of [`wrap_words`] with an indentation.
pub(super) fn wrap_indented(
    edge: &str,
    indent: &str,
    style: Style,
    line: &str,
    width: usize,
    rows: &mut Vec<Row>,
) {
    let room = width.saturating_sub(3 + indent.len()).max(8);
    let mut edge = edge;
    let mut row = String::new();
    for word in line.split_inclusive(' ') {
        let taken: usize = row.chars().chain(word.trim_end().chars()).map(columns).sum();
        if taken > room && !row.is_empty() {
            // The space at a break is not drawn.
            wrap(edge, indent, style, std::mem::take(&mut row).trim_end(), width, rows);
            edge = CONTINUED_EDGE;
        }
        row.push_str(word);
    }
    wrap(edge, indent, style, &row, width, rows);
}

/// The beginning of a text that fits in a row.
pub(super) fn clip(text: &str, width: usize) -> String {
    let mut left = width.saturating_sub(3);
    let whole: usize = text.chars().map(columns).sum();
    if whole <= left {
        return text.to_owned();
    }
    let fits = |c: &char| {
        let fits = columns(*c) <= left;
        left = left.saturating_sub(columns(*c));
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_at_blanks_without_an_empty_row_at_any_width() {
        let words = "always allows exactly this call in /a/project, in later sessions too, but nowhere else";
        for width in 12..100 {
            let mut rows = Vec::new();
            wrap_words("├ ", Style::DIM, words, width, &mut rows);
            let texts: Vec<String> = rows.iter().map(Row::text).collect();
            let is_blank = |text: &String| text.trim_start_matches(['├', '│', '↪']).trim().is_empty();
            assert!(!texts.iter().any(is_blank), "{width}: {texts:?}");
            let letters = |text: &str| text.replace(['├', '│', '↪', ' '], "");
            assert_eq!(letters(&texts.concat()), letters(words), "{width}");
        }
    }

    #[test]
    fn every_row_is_reachable_and_what_is_not_shown_is_counted() {
        let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let frame = Frame::of_confirmation(&text, 80);
        let (mut from, mut seen, mut pages) = (Some(0), Vec::new(), 0);
        while let Some(at) = from {
            let (rows, next) = frame.page(at, 23, "");
            assert!(rows.len() <= 24, "{}", rows.len());
            let count: String = rows.iter().map(|row| format!("{}\n", row.text())).collect();
            let left = frame.body.len() - next.unwrap_or(frame.body.len());
            assert_eq!(count.contains(&format!("├  {left} more row")), left > 0, "{count}");
            seen.extend(rows.into_iter().filter(|row| row.text().starts_with('│')));
            (from, pages) = (next, pages + 1);
        }
        assert_eq!(seen, frame.body);
        assert!(pages > 3);
    }
}
