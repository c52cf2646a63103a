use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Process, RunControl};

use super::{Job, Jobs};
use crate::shell::output::Output;

/// A command of a call, for as long as the call waits for it.
#[derive(Debug)]
pub(crate) struct Foreground {
    number: u64,
    all: Arc<Mutex<BTreeMap<u64, CancellationToken>>>,
    /// Cancelled when the person puts the command in the background.
    pub(crate) leave: CancellationToken,
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// Command that moved to the background, and its state so far.
pub(crate) struct Leaving {
    pub(crate) command: String,
    pub(crate) process: Box<dyn Process>,
    /// Output so far, all of which the model got.
    pub(crate) output: Output,
    pub(crate) began: Instant,
    /// Time limit of the command, counted from its start.
    pub(crate) limit: Option<Duration>,
}

impl Jobs {
    /// Puts the commands that calls wait for in the background, as jobs: the calls are over at once. Returns how many there
    /// were.
    #[must_use]
    pub fn put_in_background(&self) -> usize {
        let foreground = self.foreground.lock().unwrap_or_else(PoisonError::into_inner);
        foreground.values().for_each(CancellationToken::cancel);
        foreground.len()
    }

    /// Registers a command that can be moved to the background until the guard is dropped.
    pub(crate) fn register_foreground(&self) -> Foreground {
        let (all, leave) = (self.foreground.clone(), CancellationToken::new());
        let mut running = all.lock().unwrap_or_else(PoisonError::into_inner);
        let number = running.last_key_value().map_or(0, |(last, _)| last + 1);
        running.insert(number, leave.clone());
        drop(running);
        Foreground { number, all, leave }
    }

    /// Makes a job of a command that was in the foreground.
    pub(crate) fn add_foreground_job(&self, leaving: Leaving, run: Option<Arc<dyn RunControl>>) -> Arc<Job> {
        let Leaving { command, process, output, began, limit } = leaving;
        let deadline = limit.and_then(|limit| began.checked_add(limit));
        let (job, killed) = Job::from_foreground(self.next_id(), command, output, began);
        self.watch(job, process, killed, deadline, run)
    }
}
