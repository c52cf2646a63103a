use zk_view::sanitise;

use crate::inline::{Caret, Size};
use crate::keys::{Direction, Key};
use crate::pick::fuzzy::best_matches;
use crate::row::{Row, Style};
use crate::text::{clip, columns, wrap};

/// Minimum width of the label column, with which the notes of most menus align.
const MIN_LABEL_COLUMNS: usize = 13;
/// Maximum width of the label column.
const MAX_LABEL_COLUMNS: usize = 28;
/// Minimum space in columns for a note beside its label.
const MIN_NOTE_COLUMNS: usize = 12;

/// Row of a menu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MenuRow {
    /// Label of the row.
    pub label: String,
    /// Remark on the row.
    pub note: String,
}

impl MenuRow {
    /// Creates a row.
    pub fn new(label: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label: label.into(), note: note.into() }
    }
}

/// Outcome of a key of a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuKey {
    /// The menu stays open.
    Open,
    /// Index of the chosen row.
    Chosen(usize),
    /// Cancelled; the menu closes.
    Left,
}

/// Menu of rows, chosen with arrows and Enter, optionally with a search.
///
/// ```
/// use zk_tui::{Direction, Key, Menu, MenuKey, MenuRow};
///
/// let mut menu = Menu::new("Which?", vec![MenuRow::new("one", ""), MenuRow::new("two", "")]);
/// assert_eq!(menu.press(&Key::Move { to: Direction::Down, word: false }), MenuKey::Open);
/// assert_eq!(menu.press(&Key::Enter), MenuKey::Chosen(1));
/// ```
#[derive(Clone, Debug)]
pub struct Menu {
    title: String,
    rows: Vec<MenuRow>,
    is_searched: bool,
    /// Description of Escape, if it is shown.
    escape: &'static str,
    query: String,
    /// Indexes of the rows that match the query.
    found: Vec<usize>,
    chosen: usize,
}

impl Menu {
    /// Creates a menu whose first row is marked.
    pub fn new(title: impl Into<String>, rows: Vec<MenuRow>) -> Self {
        let found = (0..rows.len()).collect();
        let (title, query) = (title.into(), String::new());
        Self { title, rows, is_searched: false, escape: "", query, found, chosen: 0 }
    }

    /// Shows the effect of Escape after the title, such as `goes back`.
    #[must_use]
    pub fn leaving(self, escape: &'static str) -> Self {
        Self { escape, ..self }
    }

    /// Lets letters choose among the rows.
    #[must_use]
    pub fn searched(self) -> Self {
        Self { is_searched: true, ..self }
    }

    /// Marks the row with this index.
    #[must_use]
    pub fn marking(mut self, at: usize) -> Self {
        self.chosen = at.min(self.found.len().saturating_sub(1));
        self
    }

    /// Replaces the remark on the row with this index.
    pub fn set_note(&mut self, at: usize, note: impl Into<String>) {
        if let Some(row) = self.rows.get_mut(at) {
            row.note = note.into();
        }
    }

    /// Handles a key.
    pub fn press(&mut self, key: &Key) -> MenuKey {
        let last = self.found.len().saturating_sub(1);
        match key {
            Key::Enter => {
                return self.found.get(self.chosen).map_or(MenuKey::Open, |at| MenuKey::Chosen(*at));
            }
            Key::Escape if !self.query.is_empty() => self.set_query(String::new()),
            Key::Escape | Key::Ctrl('c' | 'd') => return MenuKey::Left,
            Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') | Key::BackTab => {
                self.chosen = if self.chosen == 0 { last } else { self.chosen - 1 };
            }
            Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') | Key::Tab => {
                self.chosen = if self.chosen == last { 0 } else { self.chosen + 1 };
            }
            Key::Move { to: Direction::PageUp | Direction::Home, .. } => self.chosen = 0,
            Key::Move { to: Direction::PageDown | Direction::End, .. } => self.chosen = last,
            Key::Back if self.is_searched => {
                let mut query = self.query.clone();
                query.pop();
                self.set_query(query);
            }
            Key::Ctrl('u' | 'w') if self.is_searched => self.set_query(String::new()),
            Key::Char(c) if self.is_searched => self.set_query(format!("{}{c}", self.query)),
            Key::Paste(text) if self.is_searched => {
                let first = text.lines().next().unwrap_or_default();
                self.set_query(format!("{}{first}", self.query));
            }
            _ => {}
        }
        MenuKey::Open
    }

    fn set_query(&mut self, query: String) {
        let names: Vec<String> = self.rows.iter().map(|row| format!("{} {}", row.label, row.note)).collect();
        self.found = best_matches(&query, &names, names.len());
        (self.query, self.chosen) = (query, 0);
    }

    /// Rows for a terminal of this size, and the caret of the search text.
    #[must_use]
    pub fn draw(&self, size: Size) -> (Vec<Row>, Option<Caret>) {
        let margin = Row::of(Style::PLAIN, "  ");
        let title = Row::of(Style::BOLD, &format!("{} ", self.title)).with(Style::DIM, &self.keys());
        let mut rows = wrap(&title, &margin, &margin, size.width);
        let mut caret = None;
        if self.is_searched {
            let row = Row::of(Style::CYAN, "  ⌕ ").with(Style::PLAIN, &sanitise(&self.query));
            caret = Some(Caret { row: rows.len(), column: row.columns() });
            rows.push(row);
        }
        let room = size.live_rows().saturating_sub(rows.len() + 1).max(1);
        // The label of a row without a note may be longer.
        let labels = self.rows.iter().filter(|row| !row.note.is_empty());
        let widest = labels.map(|row| columns(&row.label)).max().unwrap_or_default();
        let label = widest.clamp(MIN_LABEL_COLUMNS, MAX_LABEL_COLUMNS);
        let first = (self.chosen + 1).saturating_sub(room);
        for (place, at) in self.found.iter().enumerate().skip(first).take(room) {
            if let Some(row) = self.rows.get(*at) {
                rows.push(draw_row(row, place == self.chosen, label, size.width));
            }
        }
        let hidden = self.found.len().saturating_sub(room);
        let more = match (self.found.len(), hidden) {
            (0, _) => Some(format!("nothing fits `{}`: Esc shows all again", self.query)),
            (_, 0) => None,
            (all, _) => Some(format!("{} of {all}", self.chosen + 1)),
        };
        rows.extend(
            more.map(|more| Row::of(Style::DIM, &format!("  {}", clip(&sanitise(&more), size.width)))),
        );
        (rows, caret)
    }

    fn keys(&self) -> String {
        let letters = if self.is_searched { "letters search, " } else { "" };
        let escape = if self.escape.is_empty() { String::new() } else { format!(", Esc {}", self.escape) };
        format!("{letters}↑↓ choose, Enter{escape}")
    }

    /// Menu in numbered lines, for an answer by line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let number = |(at, row): (usize, &MenuRow)| match row.note.as_str() {
            "" => format!("{}. {}", at + 1, row.label),
            note => format!("{}. {}: {note}", at + 1, row.label),
        };
        std::iter::once(self.title.clone()).chain(self.rows.iter().enumerate().map(number)).collect()
    }

    /// Index of the row that a typed line names: by number, label, or a unique prefix of a label.
    #[must_use]
    pub fn named(&self, line: &str) -> Option<usize> {
        let line = line.trim();
        if let Ok(number) = line.parse::<usize>() {
            return number.checked_sub(1).filter(|at| *at < self.rows.len());
        }
        let line = line.to_lowercase();
        let labels: Vec<String> = self.rows.iter().map(|row| row.label.to_lowercase()).collect();
        if let Some(at) = labels.iter().position(|label| *label == line) {
            return Some(at);
        }
        let mut begin =
            labels.iter().enumerate().filter(|(_, label)| !line.is_empty() && label.starts_with(&line));
        let (at, _) = begin.next()?;
        begin.next().is_none().then_some(at)
    }
}

fn draw_row(row: &MenuRow, is_chosen: bool, label_columns: usize, width: usize) -> Row {
    let style = if is_chosen { Style { bold: true, ..Style::CYAN } } else { Style::PLAIN };
    let mark = if is_chosen { "  › " } else { "    " };
    let label = clip(&sanitise(&row.label), width.saturating_sub(4).max(1));
    let drawn = Row::of(style, mark).with(style, &label);
    let pad = label_columns.saturating_sub(columns(&label)) + 2;
    let room = width.saturating_sub(drawn.columns() + pad);
    if row.note.is_empty() || room < MIN_NOTE_COLUMNS {
        return drawn;
    }
    drawn.with(Style::PLAIN, &" ".repeat(pad)).with(Style::DIM, &clip(&sanitise(&row.note), room))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu() -> Menu {
        let row = |label: &str, note: &str| MenuRow::new(label, note);
        Menu::new(
            "zk needs a model.",
            vec![row("Anthropic", "paste an API key"), row("OpenAI", "sign in"), row("Ollama", "")],
        )
    }

    fn text(menu: &Menu, width: usize, height: usize) -> Vec<String> {
        menu.draw(Size::new(width, height)).0.iter().map(Row::text).collect()
    }

    #[test]
    fn the_marked_row_goes_round_with_the_arrows_and_enter_takes_it() {
        let (mut menu, down) = (menu(), Key::Move { to: Direction::Down, word: false });
        let up = Key::Move { to: Direction::Up, word: false };
        assert_eq!(menu.press(&up), MenuKey::Open);
        assert_eq!(menu.press(&Key::Enter), MenuKey::Chosen(2));
        menu.press(&down);
        menu.press(&down);
        assert_eq!(text(&menu, 60, 24)[2], "  › OpenAI         sign in");
        assert_eq!(menu.press(&Key::Enter), MenuKey::Chosen(1));
        assert_eq!(menu.press(&Key::Char('x')), MenuKey::Open);
        assert_eq!(menu.press(&Key::Escape), MenuKey::Left);
    }

    #[test]
    fn letters_search_where_the_menu_is_searched_and_escape_shows_all_again() {
        let mut menu = menu().searched();
        "oll".chars().for_each(|c| _ = menu.press(&Key::Char(c)));
        assert_eq!(text(&menu, 60, 24)[1..], ["  ⌕ oll", "  › Ollama"]);
        assert_eq!(menu.press(&Key::Enter), MenuKey::Chosen(2));
        menu.press(&Key::Char('q'));
        assert_eq!(text(&menu, 60, 24)[2..], ["  nothing fits `ollq`: Esc shows all again"]);
        assert_eq!(menu.press(&Key::Enter), MenuKey::Open);
        assert_eq!(menu.press(&Key::Escape), MenuKey::Open);
        assert_eq!(text(&menu, 60, 24).len(), 5);
    }

    #[test]
    fn a_menu_fits_a_small_terminal_and_shows_the_marked_row() {
        let menu = menu().marking(2);
        for (width, height) in [(20, 5), (60, 12), (80, 24)] {
            let rows = text(&menu, width, height);
            assert!(rows.len() <= Size::new(width, height).live_rows(), "{rows:?}");
            assert!(rows.iter().any(|row| row.contains("› Ollama")), "{width}x{height}: {rows:?}");
        }
    }

    #[test]
    fn a_line_names_a_row_by_its_number_or_its_label() {
        let menu = menu();
        assert_eq!(menu.lines()[1], "1. Anthropic: paste an API key");
        for (line, at) in
            [("2", Some(1)), ("openai", Some(1)), (" an ", Some(0)), ("o", None), ("4", None), ("", None)]
        {
            assert_eq!(menu.named(line), at, "{line}");
        }
    }
}
