//! Copying of bytes between the terminal of zk and the terminal of the shell.

mod gate;
mod input;
mod output;
mod raw_mode;
mod waiting;

pub(crate) use gate::OutputGate;
pub(crate) use input::{Input, REPORT_KEY, REPORT_WAIT, run_input};
pub(crate) use output::run_output;
pub(crate) use raw_mode::RawMode;
pub(crate) use waiting::edits_line;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::Notify;

use crate::line::Line;
use crate::marks::TerminalModes;
use crate::record::Recorder;

/// Longest single wait for a terminal that takes no bytes; below one second.
const MAX_POLL_TIME: Duration = Duration::from_millis(50);

/// Event of the shell's terminal, for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PumpEvent {
    /// The person calls the agent.
    Called,
    /// The terminal of zk is gone.
    Gone,
    /// The shell shows no prompt for a long time after its start.
    NoPrompt,
    /// All output of the shell was read.
    Ended,
}

/// State that the pumps, the conversation and the tools share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    line: Mutex<Line>,
    /// Signals every mark.
    marked: Condvar,
    /// Signals every mark to asynchronous waiters.
    pub(crate) changed: Notify,
    recorder: Mutex<Recorder>,
    modes: Mutex<TerminalModes>,
    /// Process id of the shell; 0 before its start.
    shell: AtomicU32,
}

impl Shared {
    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn modes(&self) -> MutexGuard<'_, TerminalModes> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Process id of the shell; 0 before its start.
    pub(crate) fn shell(&self) -> u32 {
        self.shell.load(Ordering::SeqCst)
    }

    pub(crate) fn set_shell(&self, pid: u32) {
        self.shell.store(pid, Ordering::SeqCst);
    }

    fn wake_waiters(&self) {
        self.marked.notify_all();
        self.changed.notify_waiters();
    }
}

/// Writes all bytes to a terminal that does not block; an error of kind `TimedOut` after the time limit.
pub(crate) fn write_within(to: impl AsFd, bytes: &[u8], limit: Duration) -> io::Result<()> {
    write_until(to.as_fd(), bytes, Some(Instant::now() + limit))
}

/// Writes all bytes to a terminal, however long it takes.
pub(crate) fn write_all(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    write_until(to.as_fd(), bytes, None)
}

fn write_until(to: BorrowedFd<'_>, bytes: &[u8], end: Option<Instant>) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if left == Some(Duration::ZERO) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let wait = left.map(|left| {
                    let left = left.min(MAX_POLL_TIME);
                    Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) }
                });
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], wait.as_ref());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// State that the pumps, the conversation and the tools share, behind one pointer.
pub(crate) type SharedState = Arc<Shared>;

/// Waits until `is_so` holds, checked after each mark; false after the time limit.
pub(crate) async fn wait_for(shared: &Shared, limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        loop {
            let changed = shared.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}
