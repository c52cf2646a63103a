use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::safe::SafeText;

#[cfg(test)]
mod tests;

/// Maximum size of pending output in bytes, beyond which adding blocks.
const MAX_PENDING_BYTES: usize = 1 << 20;

/// Minimum interval between two writes. Faster events are written together, since a write and a wake-up for
/// each cost more than the events.
const MIN_WRITE_INTERVAL: Duration = Duration::from_micros(500);

/// Standard output behind a thread: adding copies into a buffer, and everything added during a write goes out
/// with the next one.
///
/// A slow reader blocks the run beyond `MAX_PENDING_BYTES`; a closed pipe breaks the output, which then
/// discards everything.
#[derive(Clone)]
pub struct Output(Arc<Shared>);

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    /// Signal that there is new output, or that the output is closed.
    filled: Condvar,
    /// The buffer was taken, or the output broke.
    taken: Condvar,
    on_broken: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    writing: bool,
    closed: bool,
    /// Whether writers no longer wait for the reader, since the run is to end.
    no_waiting: bool,
    broken: Option<WriteFailure>,
}

/// Reason for a failed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The reader closed the pipe.
    Pipe,
    /// System error.
    Failed(String),
}

impl Output {
    /// Opens standard output; `on_broken` is called once if it fails.
    ///
    /// # Errors
    /// When its file cannot be duplicated, or no thread starts.
    pub fn stdout(on_broken: impl Fn() + Send + Sync + 'static) -> std::io::Result<Self> {
        let file = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        let watched = (kind.is_fifo() || kind.is_socket()).then(|| file.try_clone()).transpose()?;
        let output = Self::with_sink(file, on_broken)?;
        if let Some(pipe) = watched {
            let shared = output.0.clone();
            std::thread::Builder::new().name("reader".to_owned()).stack_size(64 * 1024).spawn(move || {
                if wait_until_abandoned(&pipe) {
                    shared.fail(WriteFailure::Pipe);
                }
            })?;
        }
        Ok(output)
    }

    fn with_sink(
        mut sink: impl Write + Send + 'static,
        on_broken: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            filled: Condvar::new(),
            taken: Condvar::new(),
            on_broken: Box::new(on_broken),
        });
        let writer = shared.clone();
        std::thread::Builder::new()
            .name("output".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || writer.write_pending(&mut sink))?;
        Ok(Self(shared))
    }

    /// Appends the output of `fill`, which runs under a lock and must only append.
    pub fn add(&self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        while state.pending.len() >= MAX_PENDING_BYTES && state.broken.is_none() && !state.no_waiting {
            state = self.0.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.broken.is_some() {
            return;
        }
        let idle = state.pending.is_empty() && !state.writing;
        fill(&mut state.pending);
        let wake = idle || state.pending.len() >= MAX_PENDING_BYTES;
        drop(state);
        if wake {
            self.0.filled.notify_one();
        }
    }

    /// Adds a text, as lines.
    pub fn text(&self, text: &SafeText) {
        self.add(|out| {
            out.extend_from_slice(text.as_str().as_bytes());
            if !text.as_str().ends_with('\n') {
                out.push(b'\n');
            }
        });
    }

    /// Stops waiting for the reader, so that a stopped run can end.
    pub fn stop_waiting(&self) {
        self.0.lock().no_waiting = true;
        self.0.taken.notify_all();
    }

    /// Closes the output and writes the rest within `limit`; returns the failure, if any.
    pub fn finish(&self, limit: Duration) -> Option<WriteFailure> {
        self.0.lock().closed = true;
        self.flush(limit)
    }

    /// Waits within `limit` until everything is written; returns the failure, if any.
    pub fn flush(&self, limit: Duration) -> Option<WriteFailure> {
        self.0.filled.notify_one();
        let unwritten =
            |state: &mut State| state.broken.is_none() && (state.writing || !state.pending.is_empty());
        let (state, _) = self
            .0
            .taken
            .wait_timeout_while(self.0.lock(), limit, unwritten)
            .unwrap_or_else(PoisonError::into_inner);
        state.broken.clone()
    }
}

/// Waits until the reader of a pipe has closed it, which a run without output would notice late. Returns false
/// if that cannot be detected.
fn wait_until_abandoned(pipe: &File) -> bool {
    loop {
        // `poll` always reports errors and hang-ups.
        let mut fds = [PollFd::new(pipe, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if fds.iter().any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP)) => {
                return true;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the first failure: drops the pending output and stops the run.
    fn fail(&self, failure: WriteFailure) {
        {
            let mut state = self.lock();
            if state.broken.is_some() {
                return;
            }
            state.broken = Some(failure);
            state.pending = Vec::new();
            state.writing = false;
            self.taken.notify_all();
        }
        (self.on_broken)();
    }

    fn write_pending(&self, sink: &mut impl Write) {
        let mut batch = Vec::new();
        let mut written: Option<Instant> = None;
        loop {
            {
                let mut state = self.lock();
                state.writing = false;
                if state.pending.is_empty() {
                    self.taken.notify_all();
                }
                while state.pending.is_empty() {
                    if state.closed {
                        return;
                    }
                    state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if let Some(rest) = written.and_then(|at| MIN_WRITE_INTERVAL.checked_sub(at.elapsed())) {
                    let more = |state: &mut State| !state.closed && state.pending.len() < MAX_PENDING_BYTES;
                    let waited = self.filled.wait_timeout_while(state, rest, more);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                std::mem::swap(&mut batch, &mut state.pending);
                state.writing = true;
                self.taken.notify_all();
            }
            if let Err(error) = sink.write_all(&batch).and_then(|()| sink.flush()) {
                self.fail(match error.kind() {
                    ErrorKind::BrokenPipe => WriteFailure::Pipe,
                    _ => WriteFailure::Failed(error.to_string()),
                });
                return;
            }
            batch.clear();
            written = Some(Instant::now());
        }
    }
}
