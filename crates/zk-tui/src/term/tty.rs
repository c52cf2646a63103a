use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

use super::safe::{SafeText, StdStream};

/// No character: the terminal does nothing of its own for a key that has this code.
const DISABLED: u8 = if cfg!(any(target_os = "linux", target_os = "android")) { 0 } else { 0xff };

/// A signal to a process of several threads may take a moment.
const SIGNAL_WAIT: Duration = Duration::from_millis(50);

/// The terminal of a conversation, and how it treats what is typed. Clones are the same terminal.
#[derive(Clone, Debug)]
pub struct Tty(Arc<State>);

#[derive(Debug)]
struct State {
    /// State of the terminal when zk began.
    usual: Termios,
    /// Whether it marks where a paste begins and ends when it is asked to.
    marks_pastes: bool,
    left: Mutex<bool>,
}

/// Asks a terminal to mark pastes, and not to.
const MARK_PASTES: &str = "\u{1b}[?2004h";
const LEAVE_PASTES: &str = "\u{1b}[?2004l";

impl Tty {
    /// The terminal on standard input, which marks pastes unless it is too simple for that.
    pub fn of_stdin(marks_pastes: bool) -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        Ok(Self(Arc::new(State { usual, marks_pastes, left: Mutex::new(false) })))
    }

    /// Gives keys one by one and unseen until the guard is dropped, while Ctrl-C stays a signal.
    pub(crate) fn keys(&self) -> io::Result<KeyMode> {
        let mut raw = self.0.usual.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Enter and Ctrl-J are two keys.
        raw.input_modes.remove(InputModes::ICRNL | InputModes::INLCR);
        // Ctrl-C would throw away what was typed before it.
        raw.local_modes.insert(LocalModes::NOFLSH);
        // Whoever reads the keys puts the terminal back before these have their effect.
        raw.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
        raw.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let makes_lines = self.0.usual.input_modes.contains(InputModes::ICRNL);
        let mut mode = KeyMode { tty: self.clone(), raw, typed_before: 0 };
        mode.set()?;
        if makes_lines {
            let waits = rustix::io::ioctl_fionread(io::stdin()).unwrap_or_default();
            mode.typed_before = usize::try_from(waits).unwrap_or(usize::MAX);
        }
        Ok(mode)
    }

    /// Puts the terminal back for good: the process ends.
    pub(crate) fn leave(&self) {
        let mut left = self.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = true;
        self.restore();
    }

    /// Puts the terminal back as it was.
    fn restore(&self) {
        self.mark_pastes(LEAVE_PASTES);
        self.apply(&self.0.usual);
    }

    fn mark_pastes(&self, how: &'static str) {
        if self.0.marks_pastes {
            // A terminal that is gone marks nothing.
            let _ = StdStream::Stdout.write(&SafeText::own(how));
        }
    }

    fn apply(&self, mode: &Termios) {
        // A terminal that is gone needs no repair.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
    }
}

/// A terminal that gives keys, until this is dropped.
pub(crate) struct KeyMode {
    tty: Tty,
    raw: Termios,
    /// Number of bytes that were typed before keys came one by one: in these Enter is the end of a line.
    pub typed_before: usize,
}

impl KeyMode {
    fn set(&self) -> io::Result<()> {
        let left = self.tty.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody may touch the terminal from the background.
        if *left || !is_in_foreground() {
            return Ok(());
        }
        tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?;
        self.tty.mark_pastes(MARK_PASTES);
        Ok(())
    }

    /// Makes good what a shell did to the terminal while zk was stopped. Gives whether keys are for zk now.
    pub(crate) fn mend(&self) -> bool {
        if !is_in_foreground() {
            return false;
        }
        let is_usual = |mode: Termios| mode.local_modes.contains(LocalModes::ICANON);
        !tcgetattr(io::stdin()).is_ok_and(is_usual) || self.set().is_ok()
    }

    /// Sends zk a signal that stops or ends it, with the terminal as a shell expects it.
    pub(crate) fn send(&self, signal: Signal) {
        self.tty.restore();
        let _ = kill_current_process_group(signal);
        std::thread::sleep(SIGNAL_WAIT);
        self.mend();
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        if is_in_foreground() {
            self.tty.restore();
        }
    }
}

fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}
