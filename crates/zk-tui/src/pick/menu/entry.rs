use crate::inline::{Caret, Size};
use crate::keys::Key;
use crate::row::{Row, Style};
use crate::text::{columns, graphemes, wrap};

/// Maximum length of a typed line in characters, above that of any key or address.
const MAX_ENTRY_CHARS: usize = 16 * 1024;

/// Outcome of a key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKey {
    /// The line is being typed.
    Open,
    /// The line was ended with Enter.
    Typed(String),
    /// Cancelled; the entry closes.
    Left,
}

/// Text entry for one line; hidden for a secret.
///
/// ```
/// use zk_tui::{Entry, EntryKey, Key};
///
/// let mut entry = Entry::hidden("Key for groq");
/// entry.press(&Key::Paste("gsk-1\n".to_owned()));
/// assert!(!format!("{entry:?}").contains("gsk"));
/// assert_eq!(entry.press(&Key::Enter), EntryKey::Typed("gsk-1".to_owned()));
/// ```
pub struct Entry {
    title: String,
    text: String,
    is_hidden: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("title", &self.title).finish_non_exhaustive()
    }
}

impl Entry {
    /// Creates a visible entry.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), text: String::new(), is_hidden: false }
    }

    /// Creates an entry whose text is never drawn.
    pub fn hidden(title: impl Into<String>) -> Self {
        Self { is_hidden: true, ..Self::new(title) }
    }

    /// The text above the line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Handles a key. A paste never submits the line, and only its first line counts.
    pub fn press(&mut self, key: &Key) -> EntryKey {
        match key {
            Key::Enter => return EntryKey::Typed(std::mem::take(&mut self.text)),
            Key::Escape | Key::Ctrl('c' | 'd') => return EntryKey::Left,
            Key::Char(c) => self.push(&c.to_string()),
            Key::Paste(text) => self.push(text.trim_start().lines().next().unwrap_or_default()),
            Key::Back => {
                let last = graphemes(&self.text).last().map_or(0, |(last, _)| last.len());
                self.text.truncate(self.text.len().saturating_sub(last));
            }
            Key::Ctrl('u' | 'w') => self.text.clear(),
            _ => {}
        }
        EntryKey::Open
    }

    fn push(&mut self, more: &str) {
        let room = MAX_ENTRY_CHARS.saturating_sub(self.text.chars().count());
        self.text.extend(more.chars().take(room));
    }

    /// The rows on a terminal of this size, and the caret.
    #[must_use]
    pub fn draw(&self, size: Size) -> (Vec<Row>, Option<Caret>) {
        let margin = Row::of(Style::PLAIN, "  ");
        let mut rows = wrap(&Row::of(Style::BOLD, &self.title), &margin, &margin, size.width);
        let room = size.width.saturating_sub(5).max(1);
        let shown =
            if self.is_hidden { "•".repeat(graphemes(&self.text).count()) } else { self.text.clone() };
        let row = Row::of(Style::CYAN, "  › ").with(Style::PLAIN, visible_end(&shown, room));
        let caret = Caret { row: rows.len(), column: row.columns() };
        rows.push(row);
        (rows, Some(caret))
    }
}

/// End of a text, as many columns as fit.
fn visible_end(text: &str, room: usize) -> &str {
    let mut taken = columns(text);
    let mut from = 0;
    for (grapheme, wide) in graphemes(text) {
        if taken <= room {
            break;
        }
        taken -= wide;
        from += grapheme.len();
    }
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(entry: &Entry) -> Vec<String> {
        entry.draw(Size::new(40, 12)).0.iter().map(Row::text).collect()
    }

    #[test]
    fn a_hidden_text_is_drawn_as_dots_and_can_be_corrected() {
        let mut entry = Entry::hidden("Key for anthropic");
        "sk-tx".chars().for_each(|c| _ = entry.press(&Key::Char(c)));
        entry.press(&Key::Back);
        assert_eq!(rows(&entry), ["  Key for anthropic", "  › ••••"]);
        assert_eq!(entry.press(&Key::Enter), EntryKey::Typed("sk-t".to_owned()));
        assert_eq!(entry.press(&Key::Escape), EntryKey::Left);
    }

    #[test]
    fn a_paste_of_several_lines_is_its_first_and_waits_for_enter() {
        let mut entry = Entry::new("Code");
        assert_eq!(entry.press(&Key::Paste("\nabc\r\ndef\n".to_owned())), EntryKey::Open);
        assert_eq!(rows(&entry)[1], "  › abc");
        entry.press(&Key::Ctrl('u'));
        "0123456789".repeat(5).chars().for_each(|c| _ = entry.press(&Key::Char(c)));
        assert_eq!(rows(&entry)[1].chars().count(), 39, "the end stays in sight");
    }
}
