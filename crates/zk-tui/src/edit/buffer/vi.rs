use super::Buffer;

/// Movements and edits that only the vi key bindings use.
impl Buffer {
    /// Moves left within the line.
    pub(crate) fn left_in_line(&mut self) {
        if self.caret > self.line_start() {
            self.move_left(false);
        }
    }

    /// Moves to the start of the text.
    pub(crate) fn go_to_start(&mut self) {
        self.move_to(0);
    }

    pub(crate) fn go_to_end(&mut self) {
        self.move_to(self.text.len());
    }

    /// Moves to the start of the next word.
    pub(crate) fn go_to_next_word(&mut self) {
        self.move_to(self.caret + self.words_ahead(1, true));
    }

    /// Number of bytes from the caret to the end of the nth word, or to the start of the next one.
    pub(crate) fn words_ahead(&self, words: usize, with_blanks: bool) -> usize {
        let mut at = self.caret;
        for word in 1..=words {
            let after = self.text.get(at..).unwrap_or_default();
            let blanks = if word == 1 { 0 } else { after.len() - after.trim_start().len() };
            let rest = after.get(blanks..).unwrap_or_default();
            at = self.end_of_mark(at + blanks + rest.find(char::is_whitespace).unwrap_or(rest.len()));
        }
        let after = self.text.get(at..).unwrap_or_default();
        let blanks = after.len() - after.trim_start().len();
        at + if with_blanks { blanks } else { 0 } - self.caret
    }

    /// Kills bytes after the caret.
    pub(crate) fn kill_ahead(&mut self, bytes: usize) {
        self.kill(self.caret, self.caret + bytes);
    }

    pub(crate) fn kill_grapheme(&mut self) {
        let to = self.grapheme_after().min(self.line_end());
        self.kill(self.caret, to);
    }

    /// Kills the rest of the line, without its line end.
    pub(crate) fn kill_to_line_end(&mut self) {
        self.kill(self.caret, self.line_end());
    }

    /// Kills the line, with its line end unless `keeps_end`.
    pub(crate) fn kill_line(&mut self, keeps_end: bool) {
        let (mut from, mut to) = (self.line_start(), self.line_end());
        if !keeps_end && to < self.text.len() {
            to += 1;
        } else if !keeps_end && from > 0 {
            from -= 1;
        }
        self.caret = from;
        self.kill(from, to);
        if !keeps_end {
            self.move_to_line_start();
        }
    }
}
