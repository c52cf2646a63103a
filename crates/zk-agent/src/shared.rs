use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use zk_core::model::{Message, RunId, Stats};

use crate::steer::Queues;

/// What a run shares with its handles, its gates and its sub-agents.
#[derive(Debug)]
pub(crate) struct RunShared {
    pub(crate) id: RunId,
    pub(crate) stop: CancellationToken,
    pub(crate) started: Instant,
    queues: Mutex<Queues>,
    stats: Mutex<Stats>,
    /// Calls so far, counted when their gate let them through: a budget inside a batch sees its siblings.
    counts: Mutex<BTreeMap<String, u32>>,
}

impl RunShared {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            id: RunId::fresh(),
            stop,
            started: Instant::now(),
            queues: Mutex::default(),
            stats: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub(crate) fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        lock(&self.stats)
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        lock(&self.counts)
    }

    pub(crate) fn count(&self, tool: &str) {
        *self.counts().entry(tool.to_owned()).or_default() += 1;
    }

    pub(crate) fn steer(&self, message: Arc<Message>) {
        self.queues().steer.push_back(message);
    }

    /// A message of the harness for after the batch: it interrupts nothing.
    pub(crate) fn nudge(&self, message: Arc<Message>) {
        self.queues().nudges.push(message);
    }

    pub(crate) fn has_steering(&self) -> bool {
        !self.queues().steer.is_empty()
    }

    pub(crate) fn saw_first_token(&self) {
        let elapsed = self.started.elapsed().as_millis() as u64;
        self.stats().first_token_ms.get_or_insert(elapsed);
    }

    /// The statistics as of now.
    pub(crate) fn snapshot(&self) -> Stats {
        let mut stats = self.stats().clone();
        stats.tool_calls = self.counts().clone();
        stats.duration_ms = self.started.elapsed().as_millis() as u64;
        stats
    }
}

/// Nothing that holds one of these locks can leave its value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
