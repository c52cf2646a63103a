use crate::text::{columns, graphemes};

/// Distance in columns from the end of a line in which a word is held back until complete. A longer word is
/// broken by the terminal.
const HELD_COLUMNS: usize = 24;
/// List markers, after which the further lines of an item are indented.
const ITEM_MARKS: [&str; 2] = ["- ", "* "];

/// Word wrapping for a streamed answer. Written text is never changed: only a word near the end of a line is
/// held back. Code and tables are not wrapped.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Column of the cursor in the terminal's line.
    column: usize,
    /// First characters of the current line, by which code, tables and list items are recognised.
    start: String,
    is_code: bool,
    /// Word that is held back until it is complete.
    held: Option<String>,
}

impl Flow {
    /// Text to write for a piece of the answer at `width` columns.
    pub(super) fn push(&mut self, piece: &str, width: usize) -> String {
        let mut out = String::with_capacity(piece.len());
        for (grapheme, wide) in graphemes(piece) {
            match grapheme {
                "\n" | "\r\n" => {
                    self.write_held_word(&mut out, width);
                    if self.start.trim_start().starts_with("```") {
                        self.is_code = !self.is_code;
                    }
                    (self.column, self.start) = (0, String::new());
                    out.push('\n');
                }
                " " => {
                    self.write_held_word(&mut out, width);
                    self.record_line_start(grapheme);
                    // A space after a full line would start the next line.
                    if self.column < width || !self.is_prose() {
                        out.push(' ');
                        self.column += 1;
                    }
                    let is_near = self.column + HELD_COLUMNS > width;
                    self.held = (is_near && self.is_prose()).then(String::new);
                }
                other => {
                    self.record_line_start(other);
                    match &mut self.held {
                        Some(word) => word.push_str(other),
                        None => {
                            out.push_str(other);
                            self.column += wide;
                        }
                    }
                }
            }
        }
        out
    }

    /// Held-back text at the end of the answer.
    pub(super) fn finish(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.write_held_word(&mut out, width);
        *self = Self::default();
        out
    }

    fn write_held_word(&mut self, out: &mut String, width: usize) {
        let Some(word) = self.held.take().filter(|word| !word.is_empty()) else { return };
        let wide = columns(&word);
        if self.column + wide > width {
            let hang = self.hanging_indent().min(width / 2);
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', hang));
            self.column = hang;
        }
        out.push_str(&word);
        self.column += wide;
    }

    fn record_line_start(&mut self, grapheme: &str) {
        if self.start.len() < 16 {
            self.start.push_str(grapheme);
        }
    }

    fn is_prose(&self) -> bool {
        !self.is_code && !self.start.starts_with("    ") && !self.start.trim_start().starts_with(['|', '`'])
    }

    fn hanging_indent(&self) -> usize {
        let text = self.start.trim_start();
        let indent = self.start.len() - text.len();
        let digits = text.chars().take_while(char::is_ascii_digit).count();
        if ITEM_MARKS.iter().any(|mark| text.starts_with(mark)) {
            indent + 2
        } else if digits > 0 && text.get(digits..).is_some_and(|rest| rest.starts_with(". ")) {
            indent + digits + 2
        } else {
            indent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(pieces: &[&str], width: usize) -> String {
        let mut flow = Flow::default();
        let mut out: String = pieces.iter().map(|piece| flow.push(piece, width)).collect();
        out.push_str(&flow.finish(width));
        out
    }

    #[test]
    fn an_answer_is_broken_at_words_however_it_arrives() {
        let text = "The discount is applied twice, once in the cart and once more in the total.\n- an item that is longer than \
                    the line it stands on";
        let expected = "The discount is applied twice,\nonce in the cart and once more\nin the total.\n- an item that is longer \
                        than\n  the line it stands on";
        let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [vec![text], letters] {
            let shown = flow(&pieces, 30);
            assert_eq!(lines(&shown), expected);
        }
    }

    #[test]
    fn code_tables_and_long_words_stay_whole() {
        for text in [
            "```\nlet total = cart.iter().map(|item| item.price).sum::<u64>();\n```\n",
            "| a column | another column | and one more |\n",
            "    let total = cart.iter().map(|item| item.price).sum();\n",
        ] {
            assert_eq!(flow(&[text], 30), text);
        }
        let address = "see https://example.com/a/path/that/is/longer/than/a/line here";
        assert!(flow(&[address], 30).contains("https://example.com/a/path/that/is/longer/than/a/line"));
    }

    #[test]
    fn a_word_far_from_the_end_of_the_line_is_written_as_it_comes() {
        let mut flow = Flow::default();
        assert_eq!(flow.push("Half a wo", 80), "Half a wo");
    }
}
