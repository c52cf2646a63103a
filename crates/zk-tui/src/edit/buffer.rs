mod layout;
mod marks;
mod vi;

use unicode_segmentation::UnicodeSegmentation;

use self::layout::Layout;
use self::marks::Marks;
use crate::inline::Caret;
use crate::row::{Row, Style};

/// Maximum number of lines of a paste that is shown in full rather than as a mark.
const MAX_UNFOLDED_LINES: usize = 10;

/// Maximum size in bytes of a paste that is shown in full: each key redraws all of it.
const MAX_UNFOLDED_BYTES: usize = 4096;

/// Maximum size of the undo history, in bytes.
const MAX_UNDO_BYTES: usize = 1024 * 1024;
/// Maximum number of texts in the kill ring.
const MAX_KILLS: usize = 20;
/// Maximum number of undo steps.
const MAX_UNDO_STEPS: usize = 200;

/// Editable text with a caret, edited by grapheme.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    text: String,
    /// Byte position of the caret, between two graphemes.
    caret: usize,
    undo: Vec<(String, usize)>,
    /// Whether the last edit inserted a character: consecutive ones are undone together.
    was_typing: bool,
    /// Kill ring: killed texts, newest last.
    killed: Vec<String>,
    /// Whether the last edit killed text, to which the next kill is appended.
    was_killing: bool,
    /// Last yank: its byte range, and the index of its text in the kill ring.
    yanked: Option<(usize, usize, usize)>,
    marks: Marks,
}

impl Buffer {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Text with every mark replaced by what it stands for.
    pub(crate) fn expanded(&self) -> String {
        self.marks.expand(&self.text)
    }

    /// Takes the text, with every mark replaced by what it stands for.
    pub(crate) fn take(&mut self) -> String {
        let text = self.expanded();
        let (killed, mut marks) = (std::mem::take(&mut self.killed), std::mem::take(&mut self.marks));
        // A text from the kill ring may contain a mark, so its paste is kept.
        marks.retain_used_in(&killed);
        *self = Self { killed, marks, ..Self::default() };
        text
    }

    pub(crate) fn set(&mut self, text: &str) {
        self.push_undo_step(false);
        self.text = without_control_characters(text);
        self.caret = self.text.len();
    }

    pub(crate) fn insert(&mut self, text: &str) {
        let is_word = text.chars().all(char::is_alphanumeric);
        if !(self.was_typing && is_word) {
            self.push_undo_step(false);
        }
        self.was_typing = is_word;
        let text = without_control_characters(text);
        self.text.insert_str(self.caret, &text);
        self.caret += text.len();
    }

    /// Inserts a paste; a long one is folded to a mark.
    pub(crate) fn paste(&mut self, text: &str) {
        let text = without_control_characters(text);
        let lines = text.lines().count();
        if lines <= MAX_UNFOLDED_LINES && text.len() <= MAX_UNFOLDED_BYTES {
            self.insert(&text);
            return;
        }
        let size =
            if lines > 1 { format!("{lines} lines") } else { format!("{} KB", text.len().div_ceil(1024)) };
        let mark = self.marks.add_paste(&size, text);
        self.insert(&mark);
    }

    /// Inserts the mark of an attachment, which is deleted as a whole.
    pub(crate) fn attach(&mut self, mark: &str) {
        self.insert(mark);
        self.insert(" ");
        self.marks.add_attachment(mark);
    }

    pub(crate) fn delete_before(&mut self) {
        let from = self.grapheme_before();
        self.remove(from, self.caret);
    }

    pub(crate) fn delete_after(&mut self) {
        let to = self.grapheme_after();
        self.remove(self.caret, to);
    }

    pub(crate) fn kill_word(&mut self) {
        self.kill(self.word_before(), self.caret);
    }

    pub(crate) fn kill_to_start(&mut self) {
        self.kill(self.line_start(), self.caret);
    }

    pub(crate) fn kill_to_end(&mut self) {
        let end = self.line_end();
        // At the end of a line, its line end is killed.
        self.kill(self.caret, if end == self.caret { self.grapheme_after() } else { end });
    }

    pub(crate) fn yank(&mut self) {
        self.yank_from(self.killed.len());
    }

    /// Replaces the text just yanked by the one killed before it.
    pub(crate) fn yank_older(&mut self) {
        let Some((from, to, at)) = self.yanked.take().filter(|(_, to, _)| *to == self.caret) else { return };
        self.remove(from, to);
        self.yank_from(if at == 0 { self.killed.len() } else { at });
    }

    /// Yanks the text with index `at` in the kill ring, or an older one.
    fn yank_from(&mut self, at: usize) {
        let Some(at) = at.checked_sub(1) else { return };
        let Some(text) = self.killed.get(at).cloned() else { return };
        let from = self.caret;
        self.insert(&text);
        self.yanked = Some((from, self.caret, at));
    }

    pub(crate) fn undo(&mut self) {
        if let Some((text, caret)) = self.undo.pop() {
            (self.text, self.caret, self.was_typing) = (text, caret, false);
        }
    }

    pub(crate) fn move_left(&mut self, word: bool) {
        self.move_to(if word { self.word_before() } else { self.grapheme_before() });
    }

    pub(crate) fn move_right(&mut self, word: bool) {
        self.move_to(if word { self.word_after() } else { self.grapheme_after() });
    }

    pub(crate) fn move_to_line_start(&mut self) {
        self.move_to(self.line_start());
    }

    pub(crate) fn move_to_line_end(&mut self) {
        self.move_to(self.line_end());
    }

    /// Moves one line up; returns false on the first.
    pub(crate) fn move_up(&mut self) -> bool {
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let above = self.text.get(..start - 1).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        self.move_to_column(above, self.column_in_line());
        true
    }

    /// Moves one line down; returns false on the last.
    pub(crate) fn move_down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        self.move_to_column(end + 1, self.column_in_line());
        true
    }

    /// Returns the text before the caret.
    pub(crate) fn before_caret(&self) -> &str {
        self.text.get(..self.caret).unwrap_or_default()
    }

    /// Replaces the text between `from` and the caret.
    pub(crate) fn replace_from(&mut self, from: usize, text: &str) {
        // A position within a mark is not a position in the text.
        if from > self.caret || !self.text.is_char_boundary(from) || self.start_of_mark(from) != from {
            return;
        }
        let text = &without_control_characters(text);
        self.push_undo_step(false);
        self.text.replace_range(from..self.caret, text);
        self.caret = from + text.len();
    }

    /// The rows of the text on a screen, behind `mark`, and the caret in them.
    pub(crate) fn rows(&self, mark: &str, width: usize) -> (Vec<Row>, Caret) {
        let head = Row::of(Style::BOLD, mark);
        let indent = head.columns();
        let (rows, mut caret) = Layout::new(width.saturating_sub(indent)).lay_out(&self.text, self.caret);
        caret.column += indent;
        let edge = Row::of(Style::PLAIN, &" ".repeat(indent));
        let edges = std::iter::once(head).chain(std::iter::repeat(edge));
        let rows = edges.zip(rows).map(|(mut row, spans)| {
            spans.into_iter().for_each(|span| row.push(span));
            row
        });
        (rows.collect(), caret)
    }

    fn push_undo_step(&mut self, typing: bool) {
        (self.was_killing, self.yanked) = (false, None);
        self.was_typing = typing;
        if self.undo.len() >= MAX_UNDO_STEPS {
            self.undo.remove(0);
        }
        self.undo.push((self.text.clone(), self.caret));
        let mut bytes: usize = self.undo.iter().map(|(text, _)| text.len()).sum();
        while bytes > MAX_UNDO_BYTES && self.undo.len() > 1 {
            bytes -= self.undo.remove(0).0.len();
        }
    }

    fn move_to(&mut self, to: usize) {
        (self.caret, self.was_typing) = (self.start_of_mark(to.min(self.text.len())), false);
        (self.was_killing, self.yanked) = (false, None);
    }

    fn move_to_column(&mut self, start: usize, column: usize) {
        let line = self.text.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
        let taken: usize = line.graphemes(true).take(column).map(str::len).sum();
        self.move_to(start + taken);
    }

    fn column_in_line(&self) -> usize {
        self.text.get(self.line_start()..self.caret).unwrap_or_default().graphemes(true).count()
    }

    fn kill(&mut self, from: usize, to: usize) {
        let Some(killed) = self.text.get(from..to).filter(|killed| !killed.is_empty()) else { return };
        let killed = killed.to_owned();
        let is_before = to == self.caret;
        match self.killed.last_mut().filter(|_| self.was_killing) {
            Some(last) if is_before => last.insert_str(0, &killed),
            Some(last) => last.push_str(&killed),
            None => self.killed.push(killed),
        }
        if self.killed.len() > MAX_KILLS {
            self.killed.remove(0);
        }
        self.remove(from, to);
        self.was_killing = true;
    }

    fn remove(&mut self, from: usize, to: usize) {
        if from < to && self.text.get(from..to).is_some() {
            self.push_undo_step(false);
            self.text.replace_range(from..to, "");
            self.caret = from;
        }
    }

    /// Start of the grapheme or mark before the caret.
    fn grapheme_before(&self) -> usize {
        let before = self.text.get(..self.caret).unwrap_or_default();
        let grapheme = || before.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
        self.mark_before().unwrap_or_else(grapheme)
    }

    fn grapheme_after(&self) -> usize {
        let after = self.text.get(self.caret..).unwrap_or_default();
        let grapheme = || self.caret + after.graphemes(true).next().map_or(0, str::len);
        self.mark_after().unwrap_or_else(grapheme)
    }

    fn word_before(&self) -> usize {
        let before = self.text.get(..self.caret).unwrap_or_default();
        let words = before.trim_end();
        let blank = words.char_indices().rev().find(|(_, c)| c.is_whitespace());
        self.start_of_mark(blank.map_or(0, |(at, c)| at + c.len_utf8()))
    }

    fn word_after(&self) -> usize {
        let after = self.text.get(self.caret..).unwrap_or_default();
        let blanks = after.len() - after.trim_start().len();
        let word = after.trim_start().find(char::is_whitespace).unwrap_or(after.trim_start().len());
        self.end_of_mark(self.caret + blanks + word)
    }

    fn line_start(&self) -> usize {
        self.text.get(..self.caret).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let after = self.text.get(self.caret..).unwrap_or_default();
        self.caret + after.find('\n').unwrap_or(after.len())
    }
}

/// Removes control characters other than tabs and line ends.
fn without_control_characters(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Buffer {
        let mut buffer = Buffer::default();
        text.chars().for_each(|c| buffer.insert(&c.to_string()));
        buffer
    }

    #[test]
    fn a_grapheme_is_deleted_whole() {
        for (text, left) in [("ae\u{301}", "a"), ("x👩\u{200d}🚀", "x"), ("漢字", "漢"), ("", "")] {
            let mut buffer = typed(text);
            buffer.delete_before();
            assert_eq!(buffer.text(), left);
        }
    }

    #[test]
    fn what_was_killed_can_be_put_elsewhere_and_undone() {
        let mut buffer = typed("one two");
        buffer.kill_word();
        buffer.move_to_line_start();
        buffer.yank();
        assert_eq!(buffer.text(), "twoone ");
        buffer.undo();
        buffer.undo();
        assert_eq!(buffer.text(), "one two");
    }

    #[test]
    fn a_long_paste_is_one_mark_and_is_submitted_whole() {
        let lines: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let mut buffer = typed("see ");
        buffer.paste(&lines);
        assert_eq!(buffer.text(), "see [paste 1: 30 lines]");
        assert_eq!(buffer.expanded(), format!("see {lines}"));
        buffer.delete_before();
        assert_eq!(buffer.text(), "see ");
        buffer.paste("two\nlines\u{1b}[2J");
        assert_eq!(buffer.take(), "see two\nlines[2J");
    }

    #[test]
    fn a_mark_is_one_unit_for_every_move_and_cut() {
        let lines: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let mark = "[paste 1: 30 lines]";
        let pasted = || {
            let mut buffer = typed("see ");
            buffer.paste(&lines);
            buffer
        };
        let mut buffer = pasted();
        buffer.kill_word();
        assert_eq!(buffer.text(), "see ");
        buffer.yank();
        assert_eq!(buffer.expanded(), format!("see {lines}"));
        buffer.move_left(true);
        assert_eq!(buffer.before_caret(), "see ");
        buffer.move_right(true);
        assert_eq!(buffer.before_caret(), format!("see {mark}"));
        buffer.move_left(true);
        assert_eq!(buffer.words_ahead(1, false), mark.len());
        buffer.kill_grapheme();
        assert_eq!(buffer.text(), "see ");
        // Line movements treat a column within a mark as the mark's beginning.
        let mut buffer = pasted();
        buffer.insert("\n123456789");
        assert!(buffer.move_up());
        assert_eq!(buffer.before_caret(), "see ");
        let mut buffer = typed("!cat ");
        buffer.paste(&lines);
        let word = buffer.text().rfind(' ').unwrap() + 1;
        buffer.replace_from(word, "lines.txt ");
        assert_eq!(buffer.expanded(), format!("!cat {lines}"), "a completion does not break it");
        let mut buffer = typed("a b ");
        buffer.attach("[image 1]");
        (0..2).for_each(|_| buffer.move_left(true));
        buffer.move_right(true);
        buffer.kill_word();
        assert_eq!(buffer.text(), "a  [image 1] ");
    }

    #[test]
    fn a_yanked_mark_still_stands_for_its_paste() {
        let paste = |name: &str| (0..30).map(|n| format!("{name} {n}\n")).collect::<String>();
        let mut buffer = Buffer::default();
        buffer.paste(&paste("old"));
        buffer.kill_word();
        assert_eq!(buffer.take(), "");
        buffer.paste(&paste("new"));
        assert_eq!(buffer.text(), "[paste 2: 30 lines]");
        buffer.yank();
        assert_eq!(buffer.take(), paste("new") + &paste("old"));
    }

    #[test]
    fn the_caret_stands_where_the_terminal_puts_the_next_character() {
        let at = |buffer: &Buffer, width| buffer.rows("› ", width).1;
        assert_eq!(at(&typed("漢字"), 20), Caret { row: 0, column: 6 });
        assert_eq!(at(&typed("ab\ncd"), 20), Caret { row: 1, column: 4 });
        assert_eq!(at(&typed("abcd"), 6), Caret { row: 1, column: 2 });
        let mut buffer = typed("abcdef");
        buffer.move_to_line_start();
        assert_eq!(at(&buffer, 5), Caret { row: 0, column: 2 });
        assert_eq!(buffer.rows("› ", 5).0.len(), 2);
        for width in 1..8 {
            let (rows, _) = typed("漢a字b").rows("› ", width);
            assert!(rows.len() < 6);
        }
    }

    #[test]
    fn words_stay_whole_unless_longer_than_a_row() {
        let shown = |text: &str, width| {
            let (rows, caret) = typed(text).rows("› ", width);
            (rows.iter().map(|row| row.text().trim_end().to_owned()).collect::<Vec<_>>(), caret)
        };
        let (rows, caret) = shown("run the test suite on a terminal", 20);
        assert_eq!(rows, ["› run the test suite", "  on a terminal"]);
        assert_eq!(caret, Caret { row: 1, column: 15 });
        assert_eq!(
            shown("open a_name_of_many_letters", 12).0,
            ["› open", "  a_name_of_", "  many_lette", "  rs"]
        );
        assert_eq!(
            shown("see 漢字漢字漢", 10).0,
            ["› see 漢字", "  漢字漢"],
            "scripts without blanks break anywhere"
        );
        // The blank at the end of a full row is not drawn, and the next word starts a new row.
        let (rows, caret) = shown("abcd ", 6);
        assert_eq!((rows, caret), (vec!["› abcd".to_owned(), String::new()], Caret { row: 1, column: 2 }));
        assert_eq!(shown("abcd efg", 6).0, ["› abcd", "  efg"]);
        for (width, text) in
            (1..12).flat_map(|width| ["a bc def ghij 漢 k", "  x  ", "\n\n a"].map(|text| (width, text)))
        {
            let mut buffer = typed(text);
            buffer.move_to_line_start();
            loop {
                let (rows, caret) = buffer.rows("› ", width);
                assert!(caret.row < rows.len(), "{text:?} at {width}");
                let before = buffer.before_caret().len();
                buffer.move_right(false);
                if buffer.before_caret().len() == before {
                    break;
                }
            }
        }
    }

    #[test]
    fn the_caret_moves_by_lines_and_keeps_its_column() {
        let mut buffer = typed("first\nab\nthird");
        assert!(buffer.move_up());
        assert_eq!(buffer.text().split_at(buffer.caret).0, "first\nab");
        assert!(buffer.move_up());
        assert_eq!(buffer.caret, 2);
        assert!(!buffer.move_up());
        assert!(buffer.move_down() && buffer.move_down() && !buffer.move_down());
    }

    #[test]
    fn what_is_killed_in_one_go_comes_back_whole_and_older_ones_in_turn() {
        let mut buffer = typed("one two three");
        buffer.kill_word();
        buffer.kill_word();
        assert_eq!(buffer.text(), "one ");
        buffer.insert("x");
        buffer.kill_to_start();
        buffer.yank();
        assert_eq!(buffer.text(), "one x");
        buffer.yank_older();
        assert_eq!(buffer.text(), "two three");
        buffer.yank_older();
        assert_eq!(buffer.text(), "one x");
        buffer.move_left(false);
        buffer.yank_older();
        assert_eq!(buffer.text(), "one x", "only right after a yank");
    }
}
