use std::io;
use std::sync::Arc;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::write_all;

/// Sequences that switch off what programs may have left on: mouse reports, pastes, focus reports, and a hidden
/// cursor.
const TIDY: &[u8] = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?25h";

/// Raw mode of the terminal on standard input, in which every byte passes unchanged. Clones share the terminal,
/// which is restored with the last one.
#[derive(Clone, Debug)]
pub(crate) struct RawMode(Arc<State>);

#[derive(Debug)]
struct State {
    usual: Termios,
}

impl RawMode {
    /// Reads the current modes of the terminal on standard input.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        Ok(Self(Arc::new(State { usual: tcgetattr(io::stdin())? })))
    }

    /// Enters raw mode.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let mut raw = self.0.usual.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
    }

    /// Restores the terminal.
    pub(crate) fn leave(&self) {
        self.0.leave();
    }
}

impl State {
    fn leave(&self) {
        // A disconnected terminal needs no restore.
        let _ = write_all(io::stdout(), TIDY);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.usual);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.leave();
    }
}
