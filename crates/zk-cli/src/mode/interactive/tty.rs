use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcsetattr,
};

/// No character: the terminal does nothing of its own for a key that has this code.
const DISABLED: u8 = if cfg!(any(target_os = "linux", target_os = "android")) { 0 } else { 0xff };

/// A signal to a process of several threads may take a moment.
const SETTLING: Duration = Duration::from_millis(50);

/// The terminal of a conversation, and how it treats what is typed. Clones are the same terminal.
#[derive(Clone)]
pub(crate) struct Tty(Arc<State>);

struct State {
    /// As it was when zk began.
    usual: Termios,
    left: Mutex<bool>,
}

impl Tty {
    pub(crate) fn of_stdin() -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        Ok(Self(Arc::new(State { usual, left: Mutex::new(false) })))
    }

    /// Gives keys one by one and unseen until the guard is dropped, while Ctrl-C stays a signal.
    pub(super) fn keys(&self) -> io::Result<KeyMode> {
        let mut raw = self.0.usual.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Ctrl-C would throw away what was typed before it.
        raw.local_modes.insert(LocalModes::NOFLSH);
        // Whoever reads the keys puts the terminal back before these have their effect.
        raw.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
        raw.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mode = KeyMode { tty: self.clone(), raw };
        mode.set()?;
        Ok(mode)
    }

    /// Throws away what was typed and not read.
    pub(super) fn forget_typed(&self) {
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }

    /// Puts the terminal back for good: the process ends.
    pub(crate) fn leave(&self) {
        let mut left = self.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = true;
        self.apply(&self.0.usual);
    }

    fn apply(&self, mode: &Termios) {
        // A terminal that is gone needs no repair.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
    }
}

/// A terminal that gives keys, until this is dropped.
pub(super) struct KeyMode {
    tty: Tty,
    raw: Termios,
}

impl KeyMode {
    fn set(&self) -> io::Result<()> {
        let left = self.tty.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody may touch the terminal from the background.
        if *left || !is_in_foreground() {
            return Ok(());
        }
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?)
    }

    /// Makes good what a shell did to the terminal while zk was stopped. Gives whether keys are for zk now.
    pub(super) fn mend(&self) -> bool {
        if !is_in_foreground() {
            return false;
        }
        let is_usual = |mode: Termios| mode.local_modes.contains(LocalModes::ICANON);
        !tcgetattr(io::stdin()).is_ok_and(is_usual) || self.set().is_ok()
    }

    /// Sends zk a signal that stops or ends it, with the terminal as a shell expects it.
    pub(super) fn send(&self, signal: Signal) {
        self.tty.apply(&self.tty.0.usual);
        let _ = kill_current_process_group(signal);
        std::thread::sleep(SETTLING);
        self.mend();
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        if is_in_foreground() {
            self.tty.apply(&self.tty.0.usual);
        }
    }
}

fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}
