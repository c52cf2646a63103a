use std::num::NonZeroU16;

use vt100::Parser;

/// Size limit of a full-screen program's kept output, in bytes; beyond it the older half is dropped.
const MAX_DRAWN_BYTES: usize = 512 * 1024;

/// Output of a full-screen program since it switched to the alternate screen, from which the current screen is
/// rendered. It is kept only while the program draws, and is part of no record.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveScreen {
    drawn: Vec<u8>,
    is_cut: bool,
}

impl LiveScreen {
    /// Adds output of the program, in bounded memory.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let newest = bytes.get(bytes.len().saturating_sub(MAX_DRAWN_BYTES / 2)..).unwrap_or_default();
        self.is_cut |= newest.len() < bytes.len();
        if self.drawn.len() + newest.len() > MAX_DRAWN_BYTES {
            let half = self.drawn.len() / 2;
            // Drops up to the next escape sequence, so that none is cut.
            let from = memchr::memchr(0x1b, self.drawn.get(half..).unwrap_or_default());
            self.drawn.drain(..from.map_or(self.drawn.len(), |at| half + at));
            self.is_cut = true;
        }
        self.drawn.extend_from_slice(newest);
    }

    /// Whether older parts of the drawing were dropped, so that rows may be missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Rows of the screen from the top, without blanks at their ends.
    pub(crate) fn rows(&self, (columns, rows): (u16, u16)) -> Vec<String> {
        let size = |cells: u16, usual: NonZeroU16| NonZeroU16::new(cells).unwrap_or(usual);
        let (rows, columns) = (size(rows, Parser::DEFAULT_ROWS), size(columns, Parser::DEFAULT_COLS));
        let mut parser = Parser::new(rows, columns, 0);
        parser.process(&self.drawn);
        let screen = parser.screen();
        let mut lines: Vec<String> =
            screen.rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_the_rows_that_the_terminal_shows_and_bounded_memory() {
        let mut screen = LiveScreen::default();
        screen.push(b"$ vi\r\n\x1b[?1049h\x1b[2J\x1b[1;1Hone\x1b[3;1Hold\x1b[3;1H\x1b[Kthree  \x1b[5;2H~");
        assert_eq!(screen.rows((20, 6)), ["one", "", "three", "", " ~"]);
        assert!(!screen.is_cut());
        for n in 0..100_000 {
            screen.push(format!("\x1b[{};1Hrow {n}\x1b[K", n % 5 + 1).as_bytes());
        }
        assert!(screen.is_cut() && screen.drawn.len() <= MAX_DRAWN_BYTES);
        assert_eq!(screen.rows((20, 6))[..2], ["row 99995", "row 99996"]);
        screen.push(&vec![b'x'; 3 * MAX_DRAWN_BYTES]);
        assert!(screen.drawn.len() <= MAX_DRAWN_BYTES);
    }
}
