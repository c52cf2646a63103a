//! A terminal in memory.

use zk_tui::Size;

fn cells(count: usize) -> std::num::NonZeroU16 {
    u16::try_from(count).unwrap().try_into().unwrap()
}

/// Emulated terminal with earlier content.
pub(crate) struct Emulator(vt100::Parser);

pub(crate) const BEFORE: &str = "$ ls";

impl Emulator {
    pub(crate) fn resize(&mut self, size: Size) {
        self.0.screen_mut().set_size(cells(size.height), cells(size.width));
    }

    /// Whether a row of the screen continues in the next one.
    pub(crate) fn is_wrapped(&self, row: u16) -> bool {
        self.0.screen().row_wrapped(row)
    }

    pub(crate) fn new(size: Size) -> Self {
        let mut parser = vt100::Parser::new(cells(size.height), cells(size.width), 100_000);
        parser.process(format!("{BEFORE}\r\n").as_bytes());
        Self(parser)
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.0.process(bytes.as_bytes());
    }

    pub(crate) fn all_rows(&mut self) -> Vec<String> {
        let screen = self.0.screen_mut();
        let width = screen.size().1.get();
        let hidden = screen.scrollback_len();
        let mut rows = Vec::new();
        for back in (1..=hidden).rev() {
            screen.set_scrollback(back);
            rows.extend(screen.rows(0, width).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, width));
        while rows.last().is_some_and(|row| row.trim().is_empty()) {
            rows.pop();
        }
        rows
    }

    /// Returns the text on the screen now.
    pub(crate) fn screen(&self) -> String {
        self.0.screen().contents()
    }

    /// Text of the cursor's row.
    pub(crate) fn cursor_row(&self) -> String {
        let screen = self.0.screen();
        screen.rows(0, screen.size().1.get()).nth(self.cursor().0).unwrap_or_default()
    }

    pub(crate) fn cursor(&self) -> (usize, usize) {
        let (row, column) = self.0.screen().cursor_position();
        (row.into(), column.into())
    }
}

impl Emulator {
    /// Fails if any state but text and styles differs from a new terminal.
    pub(crate) fn check_untouched(&self, why: &str) {
        let screen = self.0.screen();
        let modes = (screen.alternate_screen(), screen.application_keypad(), screen.application_cursor());
        assert_eq!(modes, (false, false, false), "{why:?}");
        assert!(!screen.bracketed_paste() && !screen.hide_cursor(), "{why:?}");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None, "{why:?}");
    }
}
