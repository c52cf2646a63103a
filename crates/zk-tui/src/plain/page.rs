use super::Screen;
use crate::markdown::Markdown;
use crate::row::{Looks, Row, Style};
use crate::term::{Modes, Reader, SafeText};

/// Columns of a page for a program.
const PAGE_COLUMNS: usize = 100;

/// Control sequences that move the cursor to the first row and clear the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

impl Screen {
    /// Writes a page in Markdown: drawn as wide as the terminal, or as plain text for a program.
    pub fn write_page(&mut self, markdown: &str) {
        let is_terminal = self.output_reader() == Reader::Terminal;
        let width = if is_terminal { Modes::size().width } else { PAGE_COLUMNS };
        let mut page = Markdown::new(width);
        page.push(markdown);
        page.finish();
        for row in page.take_ready() {
            self.write_row(&row);
        }
    }

    /// Begins a picture in the place of everything that is on the terminal; does nothing for a program.
    pub fn clear(&mut self) {
        if self.output_reader() == Reader::Terminal {
            self.write_permanent(&SafeText::own(CLEAR));
        }
    }

    fn write_row(&mut self, row: &Row) {
        match self.theme() {
            Some(theme) => {
                let row = SafeText::row(row, Looks { theme, links: false });
                self.write_permanent(&row.append(&SafeText::own("\n")));
            }
            None => self.line(Style::PLAIN, row.text().trim_end()),
        }
    }
}
