use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

use super::safe::{SafeText, StdStream};

/// Value of a special character in the terminal's modes that disables it.
const DISABLED: u8 = if cfg!(any(target_os = "linux", target_os = "android")) { 0 } else { 0xff };

/// A signal to a process of several threads may take a moment.
const SIGNAL_WAIT: Duration = Duration::from_millis(50);

/// Terminal of a conversation and its input modes. Clones share the terminal.
#[derive(Clone, Debug)]
pub struct Tty(Arc<State>);

#[derive(Debug)]
struct State {
    /// Modes of the terminal when zk started.
    usual: Termios,
    /// Whether the terminal supports bracketed paste.
    marks_pastes: bool,
    left: Mutex<bool>,
}

/// Enables and disables bracketed paste.
const MARK_PASTES: &str = "\u{1b}[?2004h";
const LEAVE_PASTES: &str = "\u{1b}[?2004l";

impl Tty {
    /// Terminal on standard input, with bracketed paste unless it is too simple.
    pub fn of_stdin(marks_pastes: bool) -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        Ok(Self(Arc::new(State { usual, marks_pastes, left: Mutex::new(false) })))
    }

    /// Enters a mode in which keys are read one by one without echo, until the guard is dropped. Ctrl-C stays a
    /// signal.
    pub(crate) fn read_keys(&self) -> io::Result<KeyMode> {
        let mut raw = self.0.usual.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Enter and Ctrl-J are two keys.
        raw.input_modes.remove(InputModes::ICRNL | InputModes::INLCR);
        // Ctrl-C would discard input typed before it.
        raw.local_modes.insert(LocalModes::NOFLSH);
        // Ctrl-Z and Ctrl-\ are read as keys: the reader of the keys sends the signals itself, after it has
        // restored the terminal.
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

    /// Restores the terminal for good, at the end of the process.
    pub(crate) fn restore_for_good(&self) {
        let mut left = self.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = true;
        self.restore();
    }

    /// Restores the modes of the terminal.
    fn restore(&self) {
        self.write_paste_mode(LEAVE_PASTES);
        self.apply_modes(&self.0.usual);
    }

    fn write_paste_mode(&self, how: &'static str) {
        if self.0.marks_pastes {
            // A disconnected terminal has no modes.
            let _ = StdStream::Stdout.write(&SafeText::own(how));
        }
    }

    fn apply_modes(&self, mode: &Termios) {
        // A disconnected terminal has no modes to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
    }
}

/// Guard of the mode in which keys are read one by one.
pub(crate) struct KeyMode {
    tty: Tty,
    raw: Termios,
    /// Number of bytes typed before this mode, in which Enter is a line end.
    pub typed_before: usize,
}

impl KeyMode {
    fn set(&self) -> io::Result<()> {
        let left = self.tty.0.left.lock().unwrap_or_else(PoisonError::into_inner);
        // A background process must not change the modes of the terminal.
        if *left || !is_in_foreground() {
            return Ok(());
        }
        tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?;
        self.tty.write_paste_mode(MARK_PASTES);
        Ok(())
    }

    /// Sets the mode again if a shell changed it while zk was stopped. Returns false if zk is in the
    /// background.
    pub(crate) fn set_mode_again(&self) -> bool {
        if !is_in_foreground() {
            return false;
        }
        let is_usual = |mode: Termios| mode.local_modes.contains(LocalModes::ICANON);
        !tcgetattr(io::stdin()).is_ok_and(is_usual) || self.set().is_ok()
    }

    /// Sends zk a stop or end signal, with the terminal restored.
    pub(crate) fn send(&self, signal: Signal) {
        self.tty.restore();
        let _ = kill_current_process_group(signal);
        std::thread::sleep(SIGNAL_WAIT);
        self.set_mode_again();
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
