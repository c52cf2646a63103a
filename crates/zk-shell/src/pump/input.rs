use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc::UnboundedSender;

use super::{PumpEvent, SharedState, edits_line, write_all};
use crate::line::{CallKeys, Phase, Press};

/// Read buffer for typed keys, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// Time limit for the shell to report whether its line is empty.
pub(crate) const REPORT_WAIT: Duration = Duration::from_secs(1);

/// Hidden key that makes the shell report the length of its line.
pub(crate) const REPORT_KEY: &[u8] = b"\x1b[1007177u";

/// Owner of the terminal's input: shell, conversation, or nobody after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Shell,
    Conversation,
    Nobody,
}

/// Switch of the terminal's input between the shell and the conversation.
#[derive(Debug)]
pub(crate) struct Input {
    owner: Mutex<Owner>,
    changed: Condvar,
    /// Stream that wakes the reading thread.
    wake: UnixStream,
    woken: UnixStream,
}

impl Input {
    pub(crate) fn new() -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        Ok(Self { owner: Mutex::new(Owner::Shell), changed: Condvar::new(), wake, woken })
    }

    /// Gives the input to the shell.
    pub(crate) fn give_to_shell(&self) {
        self.set_owner(Owner::Shell);
    }

    /// Gives the input to the conversation.
    pub(crate) fn give_to_conversation(&self) {
        self.set_owner(Owner::Conversation);
    }

    /// Closes the input, which ends the reading thread.
    pub(crate) fn close(&self) {
        self.set_owner(Owner::Nobody);
    }

    fn set_owner(&self, owner: Owner) {
        *self.owner() = owner;
        self.changed.notify_all();
        // The write fails only if the reading thread has ended.
        let _ = (&self.wake).write(&[0]);
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the shell has the input; false if the input was closed.
    fn wait_for_shell(&self) -> bool {
        let owner = self.owner();
        let waits = |owner: &mut Owner| *owner == Owner::Conversation;
        let owner = self.changed.wait_while(owner, waits).unwrap_or_else(PoisonError::into_inner);
        *owner == Owner::Shell
    }
}

/// Forwards the person's keys to the shell, on this thread, until the input is closed or the terminal is gone.
pub(crate) fn run_input(
    input: &Input,
    terminal: &File,
    shared: &SharedState,
    keys: CallKeys,
    events: &UnboundedSender<PumpEvent>,
) {
    let stdin = io::stdin();
    let mut buffer = vec![0; READ_BYTES];
    while input.wait_for_shell() {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&input.woken, PollFlags::IN)];
        let polled = poll(&mut fds, None);
        let [typed, woken] = fds.map(|fd| fd.revents());
        if !woken.is_empty() {
            while matches!((&input.woken).read(&mut buffer), Ok(1..)) {}
            continue;
        }
        if polled.is_err() || typed.is_empty() {
            continue;
        }
        let read = match rustix::io::read(&stdin, &mut buffer) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Ok(0) | Err(_) => {
                // The receiver is gone if the session has ended.
                let _ = events.send(PumpEvent::Gone);
                return;
            }
            Ok(read) => read,
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        let is_full_screen = shared.modes().is_alternate;
        let press = shared.line().press(bytes, keys, is_full_screen);
        let is_call = match press {
            Press::Call => true,
            Press::CallIfEmpty => is_line_empty(terminal, shared),
            // Line editors switch bracketed pastes on, and off before a command, which may read key by key itself.
            Press::CallIfWaiting => shared.modes().brackets_pastes && edits_line(terminal, shared.shell()),
            Press::Forward => false,
        };
        if is_call {
            *input.owner() = Owner::Conversation;
            let _ = events.send(PumpEvent::Called);
            continue;
        }
        shared.line().record_typed(bytes);
        // A shell that is ending reads nothing, so an error is ignored.
        let _ = write_all(terminal, bytes);
    }
}

/// Asks the shell whether its line is empty; false for a shell that does not answer in time, since it may have text in
/// it.
fn is_line_empty(terminal: &File, shared: &SharedState) -> bool {
    shared.line().reported = None;
    if write_all(terminal, REPORT_KEY).is_err() {
        return false;
    }
    let end = Instant::now() + REPORT_WAIT;
    let mut line = shared.line();
    loop {
        if let Some(len) = line.reported {
            // Text that was typed before the prompt may have begun a line that goes on.
            return len == 0 && matches!(line.phase, Phase::Ready { .. });
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        line = shared.marked.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}
