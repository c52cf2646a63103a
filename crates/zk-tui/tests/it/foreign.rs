//! A terminal that others wrote: it breaks its lines anew, and answers what it is asked.

use std::sync::{Arc, Mutex};

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use zk_tui::Size;

/// Replies that the terminal writes to the program.
#[derive(Clone, Default)]
struct Replies(Arc<Mutex<String>>);

impl EventListener for Replies {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(text) = event {
            self.0.lock().unwrap().push_str(&text);
        }
    }
}

struct Cells(Size);

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.0.height
    }

    fn screen_lines(&self) -> usize {
        self.0.height
    }

    fn columns(&self) -> usize {
        self.0.width
    }
}

pub(crate) struct Foreign {
    term: Term<Replies>,
    parser: Processor,
    replies: Replies,
    modes: TermMode,
}

impl Foreign {
    pub(crate) fn new(size: Size) -> Self {
        let replies = Replies::default();
        let config = Config { scrolling_history: 100_000, kitty_keyboard: true, ..Config::default() };
        let term = Term::new(config, &Cells(size), replies.clone());
        let modes = *term.mode();
        Self { term, parser: Processor::new(), replies, modes }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.parser.advance(&mut self.term, bytes.as_bytes());
    }

    /// Takes the replies since the last call.
    pub(crate) fn take_replies(&self) -> String {
        std::mem::take(&mut self.replies.0.lock().unwrap())
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.term.resize(Cells(size));
    }

    /// All lines as written, without trailing empty cells.
    pub(crate) fn text(&self) -> String {
        self.text_from(self.term.grid().topmost_line().0)
    }

    /// As [`Foreign::text`], from a line on: 0 is the first one of the screen.
    pub(crate) fn text_from(&self, first: i32) -> String {
        let grid = self.term.grid();
        let (mut text, mut line) = (String::new(), String::new());
        for row in first..=grid.bottommost_line().0 {
            let cells = &grid[Line(row)];
            let mut goes_on = false;
            for column in 0..grid.columns() {
                let cell = &cells[Column(column)];
                goes_on = cell.flags.contains(Flags::WRAPLINE);
                if !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                    line.push(cell.c);
                    line.extend(cell.zerowidth().unwrap_or_default());
                }
            }
            if !goes_on {
                text.push_str(line.trim_end());
                text.push('\n');
                line.clear();
            }
        }
        text.trim_end().to_owned()
    }

    /// Whether every mode is that of a new terminal.
    pub(crate) fn is_untouched(&self) -> bool {
        *self.term.mode() == self.modes
    }

    /// Fails if a mode differs from a new terminal.
    pub(crate) fn check_untouched(&self) {
        assert!(self.is_untouched(), "{:?} is not {:?}", self.term.mode(), self.modes);
    }
}
