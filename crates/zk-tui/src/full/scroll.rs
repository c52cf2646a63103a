use zk_view::View;

use super::log::{Drawer, Log};
use crate::app::Mask;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style, Tone};
use crate::view::{Detail, Renderers, key_table};

/// Position in a log: an entry and one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) entry: usize,
    pub(super) row: usize,
}

/// Outcome of a key of a pager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagerKey {
    /// The key was for the pager.
    Done,
    /// Closes the pager.
    Leave,
    /// Text to copy, and the message afterwards.
    Copy { text: String, done: &'static str },
}

/// Scrollable view of a conversation. It follows the end until the person scrolls.
#[derive(Debug)]
pub(crate) struct Pager {
    pub(super) drawer: Drawer,
    width: usize,
    pub(super) height: usize,
    detail: Detail,
    mask: Mask,
    renderers: Renderers,
    /// First visible row; `None` while it follows the end.
    pub(super) top: Option<Position>,
    /// Selected rows: the start, and the present end.
    pub(super) selected: Option<(Position, Position)>,
    /// Search text that is being typed.
    typing: Option<String>,
    /// Last search text.
    words: String,
    /// Message about the last key, such as the outcome of a search.
    pub(super) note: Option<String>,
    /// Whether the table of keys is shown until the next key.
    shows_keys: bool,
}

/// Number of rows for one notch of the wheel.
const WHEEL_ROWS: usize = 3;

/// Table of the pager's keys.
const KEYS: [(&str, &str); 12] = [
    ("q Esc Ctrl-C Ctrl-T", "back to the conversation"),
    ("↑ ↓ k j", "a row up or down"),
    ("PgUp PgDn b Space", "a page up or down"),
    ("Ctrl-U", "half a page up"),
    ("Home End g G", "to the beginning or the end"),
    ("[ ]", "to the prompt above or below"),
    ("/", "search upwards"),
    ("n N", "the next hit above, or below"),
    ("e", "more of each block, or less"),
    ("v", "select lines, which y copies"),
    ("y", "copy the answer in sight"),
    ("Ctrl-Z", "stop zk itself; `fg` goes on"),
];

impl Pager {
    pub(crate) fn new(width: usize, mask: Mask, renderers: Renderers) -> Self {
        let detail = Detail::Short;
        Self {
            drawer: Drawer::new(width, detail, mask, renderers.clone()),
            renderers,
            mask,
            width,
            height: 1,
            detail,
            top: None,
            selected: None,
            typing: None,
            words: String::new(),
            note: None,
            shows_keys: false,
        }
    }

    pub(crate) fn set_width(&mut self, width: usize) {
        if width != self.width {
            self.width = width;
            self.reset_drawing();
        }
    }

    /// Sets the number of visible rows, before the first drawing.
    pub(crate) fn set_height(&mut self, height: usize) {
        self.height = height.max(1);
    }

    /// Shows a message until the next key.
    pub(crate) fn show_message(&mut self, text: &str) {
        self.note = Some(text.to_owned());
    }

    fn reset_drawing(&mut self) {
        self.drawer = Drawer::new(self.width, self.detail, self.mask, self.renderers.clone());
        self.selected = None;
        // The rows of the entry changed, but it always has a first row.
        if let Some(top) = &mut self.top {
            top.row = 0;
        }
    }

    /// Whether the pager follows the end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.top.is_none()
    }

    /// Scrolls to the end and follows it.
    pub(crate) fn follow_end(&mut self) {
        self.top = None;
    }

    /// Visible rows, at most `height`.
    pub(crate) fn rows(&mut self, height: usize, log: &Log, view: &View) -> Vec<Row> {
        self.height = height.max(1);
        if self.shows_keys {
            let keys: Vec<_> = KEYS.iter().map(|(keys, what)| ((*keys).to_owned(), *what)).collect();
            return key_table(&keys, self.width, height);
        }
        let top = match self.top {
            Some(top) => top,
            None => self.last_top(log, view),
        };
        let mut rows = Vec::new();
        let (mut entry, mut from) = (top.entry, top.row);
        while rows.len() < height && entry < log.len() {
            let drawn = self.drawer.rows(entry, log, view);
            let in_sight = drawn.rows_from(from).take(height - rows.len());
            rows.extend(in_sight.map(|(row, drawn)| self.marked_if_selected(Position { entry, row }, drawn)));
            (entry, from) = (entry + 1, 0);
        }
        if !self.words.is_empty() {
            rows = rows.into_iter().map(|row| mark_matches(row, &self.words)).collect();
        }
        rows
    }

    /// Last row of the pager, with its keys or a message.
    pub(crate) fn last_row(&self, more: Option<&str>) -> Row {
        if let Some(words) = &self.typing {
            return Row::of(Style::BOLD, "/").with(Style::PLAIN, words);
        }
        if let Some(hint) = self.selection_hint() {
            return hint;
        }
        let mut row = Row::default();
        for text in more.into_iter().chain(self.note.as_deref()) {
            row = row.with(Style::YELLOW, text).with(Style::DIM, " · ");
        }
        let place = if self.is_at_end() { "end" } else { "above the end" };
        let detail = match self.detail {
            Detail::Short => "e more",
            Detail::All => "e less",
        };
        row.with(
            Style::DIM,
            &format!("q returns · ? keys · / search · [ ] prompts · {detail} · v select · y copy · {place}"),
        )
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: &Key, log: &Log, view: &View) -> PagerKey {
        self.note = None;
        if let Key::Wheel { up } = key {
            self.turn_wheel(*up, log, view);
            return PagerKey::Done;
        }
        if std::mem::take(&mut self.shows_keys) && *key == Key::Char('?') {
            return PagerKey::Done;
        }
        if let Some(words) = &mut self.typing {
            match key {
                Key::Char(c) => words.push(*c),
                Key::Paste(text) => words.push_str(text.lines().next().unwrap_or_default()),
                Key::Back => drop(words.pop()),
                Key::Enter => {
                    self.words = self.typing.take().unwrap_or_default();
                    self.search(true, log, view);
                }
                Key::Escape | Key::Ctrl('c') => self.typing = None,
                _ => {}
            }
            return PagerKey::Done;
        }
        if self.selected.is_some() {
            return self.press_selecting(key, log, view);
        }
        let page = self.height.saturating_sub(1).max(1);
        match key {
            Key::Escape | Key::Char('q') | Key::Ctrl('t' | 'c' | 'd') => return PagerKey::Leave,
            Key::Move { to: Direction::Up, .. } | Key::Char('k') | Key::Ctrl('p') => {
                self.scroll_up(1, log, view)
            }
            Key::Move { to: Direction::Down, .. } | Key::Char('j') | Key::Ctrl('n') | Key::Enter => {
                self.scroll_down(1, log, view);
            }
            Key::Move { to: Direction::PageUp, .. } | Key::Char('b') | Key::Ctrl('b') => {
                self.scroll_up(page, log, view);
            }
            Key::Move { to: Direction::PageDown, .. } | Key::Char(' ' | 'f') | Key::Ctrl('f') => {
                self.scroll_down(page, log, view);
            }
            Key::Ctrl('u') => self.scroll_up(page / 2, log, view),
            Key::Move { to: Direction::Home, .. } | Key::Char('g') => {
                self.top = Some(Position { entry: 0, row: 0 });
                self.scroll_down(0, log, view);
            }
            Key::Move { to: Direction::End, .. } | Key::Char('G') => self.follow_end(),
            Key::Char('[') => self.jump_to_prompt(true, log, view),
            Key::Char(']') => self.jump_to_prompt(false, log, view),
            Key::Char('/') => self.typing = Some(String::new()),
            Key::Char('n') => self.search(true, log, view),
            Key::Char('N') => self.search(false, log, view),
            Key::Char('e') => {
                self.detail = match self.detail {
                    Detail::Short => Detail::All,
                    Detail::All => Detail::Short,
                };
                self.reset_drawing();
            }
            Key::Char('?') => self.shows_keys = true,
            Key::Char('v') => self.begin_selecting(log, view),
            Key::Char('y') => {
                let bottom = self.last_visible_entry(log, view);
                if let Some(text) = log.answer_before(bottom, view) {
                    return PagerKey::Copy { text, done: "the answer is copied" };
                }
                self.note = Some("there is no answer to copy".to_owned());
            }
            _ => {}
        }
        PagerKey::Done
    }

    /// Scrolls by one notch of the wheel.
    pub(crate) fn turn_wheel(&mut self, up: bool, log: &Log, view: &View) {
        match up {
            true => self.scroll_up(WHEEL_ROWS, log, view),
            false => self.scroll_down(WHEEL_ROWS, log, view),
        }
    }

    /// Scrolls up by rows.
    pub(crate) fn scroll_up(&mut self, rows: usize, log: &Log, view: &View) {
        let mut position = self.top.unwrap_or_else(|| self.last_top(log, view));
        let mut left = rows;
        while left > 0 {
            if position.row >= left {
                position.row -= left;
                break;
            }
            left -= position.row;
            let Some(entry) = position.entry.checked_sub(1) else {
                position.row = 0;
                break;
            };
            position = Position { entry, row: self.drawer.rows(entry, log, view).len() };
        }
        self.set_top(position, log, view);
    }

    /// Scrolls down by rows.
    pub(crate) fn scroll_down(&mut self, rows: usize, log: &Log, view: &View) {
        let Some(mut position) = self.top else { return };
        let mut left = rows;
        while position.entry < log.len() {
            let here = self.drawer.rows(position.entry, log, view).len();
            if position.row + left < here {
                position.row += left;
                break;
            }
            left -= here.saturating_sub(position.row);
            position = Position { entry: position.entry + 1, row: 0 };
            if left == 0 {
                break;
            }
        }
        self.set_top(position, log, view);
    }

    pub(super) fn set_top(&mut self, position: Position, log: &Log, view: &View) {
        self.top = (position < self.last_top(log, view)).then_some(position);
    }

    /// First visible row when the end is visible.
    pub(super) fn last_top(&mut self, log: &Log, view: &View) -> Position {
        let mut left = self.height;
        for entry in (0..log.len()).rev() {
            let here = self.drawer.rows(entry, log, view).len();
            if here >= left {
                return Position { entry, row: here - left };
            }
            left -= here;
        }
        Position { entry: 0, row: 0 }
    }

    /// Last visible entry.
    fn last_visible_entry(&mut self, log: &Log, view: &View) -> usize {
        let Some(top) = self.top else { return log.len().saturating_sub(1) };
        let mut left = self.height + top.row;
        for entry in top.entry..log.len() {
            let here = self.drawer.rows(entry, log, view).len();
            if here >= left {
                return entry;
            }
            left -= here;
        }
        log.len().saturating_sub(1)
    }

    fn jump_to_prompt(&mut self, back: bool, log: &Log, view: &View) {
        let top = self.top.unwrap_or_else(|| self.last_top(log, view));
        let is_prompt = |at: &usize| log.is_prompt(*at, view);
        let found = if back {
            let last = if top.row > 1 { top.entry + 1 } else { top.entry };
            (0..last).rev().find(is_prompt)
        } else {
            (top.entry + 1..log.len()).find(is_prompt)
        };
        match found {
            // The blank row above a prompt is not part of it.
            Some(entry) => {
                let first = self.drawer.rows(entry, log, view).get(0).is_some_and(Row::is_blank);
                self.set_top(Position { entry, row: usize::from(first) }, log, view);
            }
            None if back => self.note = Some("no prompt above".to_owned()),
            None => self.follow_end(),
        }
    }

    /// Scrolls to the next row above or below that contains the search text.
    fn search(&mut self, back: bool, log: &Log, view: &View) {
        if self.words.is_empty() {
            self.note = Some("type / and what to look for".to_owned());
            return;
        }
        let words = self.words.to_lowercase();
        let top = self.top.unwrap_or_else(|| {
            let mut last = self.last_top(log, view);
            last.row += self.height;
            last
        });
        let entries: Box<dyn Iterator<Item = usize>> = if back {
            Box::new((0..=top.entry.min(log.len().saturating_sub(1))).rev())
        } else {
            Box::new(top.entry..log.len())
        };
        // While following the end, the search also finds visible rows.
        let is_at_end = self.top.is_none();
        let last = log.len().saturating_sub(1);
        let entries: Box<dyn Iterator<Item = usize>> =
            if back && is_at_end { Box::new((0..=last).rev()) } else { entries };
        for entry in entries {
            let rows = self.drawer.rows(entry, log, view);
            let holds = |row: &Row| row.text().to_lowercase().contains(&words);
            let is_wanted = |at: usize| match (is_at_end, entry == top.entry, back) {
                (true, _, true) | (_, false, _) => true,
                (_, true, true) => at < top.row,
                (_, true, false) => at > top.row,
            };
            let is_hit = |at: &usize| is_wanted(*at) && rows.get(*at).is_some_and(holds);
            let mut places = 0..rows.len();
            let hit = if back { places.rfind(is_hit) } else { places.find(is_hit) };
            if let Some(row) = hit {
                // A match near the end is visible without scrolling; the next search starts from it.
                self.top = Some(Position { entry, row });
                return;
            }
        }
        self.note = Some(format!("`{}` is not {}", self.words, if back { "above" } else { "below" }));
    }
}

/// Row with the matches of a search marked.
fn mark_matches(row: Row, words: &str) -> Row {
    let text = row.text();
    // Conversion to lower case may change byte lengths; then no match is marked.
    let (lower, words) = (text.to_lowercase(), words.to_lowercase());
    if lower.len() != text.len() || !lower.contains(&words) {
        return row;
    }
    let mut out = Row::default();
    let mark = Style { tone: Tone::Yellow, bold: true, underline: true, ..Style::PLAIN };
    let mut from = 0;
    for (at, hit) in lower.match_indices(&words) {
        out.append(&row.cut(from, at));
        out = out.with(mark, text.get(at..at + hit.len()).unwrap_or_default());
        from = at + hit.len();
    }
    out.append(&row.cut(from, text.len()));
    out
}
