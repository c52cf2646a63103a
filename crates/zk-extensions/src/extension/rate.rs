use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Rate limit: a maximum number of times within a period.
pub(crate) struct Rate {
    most: usize,
    within: Duration,
    times: Mutex<VecDeque<Instant>>,
}

impl Rate {
    pub(crate) fn new(most: usize, within: Duration) -> Self {
        Self { most, within, times: Mutex::default() }
    }

    /// Whether the limit permits another time now, which is then counted.
    pub(crate) fn allows(&self) -> bool {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while times.front().is_some_and(|time| now.duration_since(*time) > self.within) {
            times.pop_front();
        }
        let is_allowed = times.len() < self.most;
        if is_allowed {
            times.push_back(now);
        }
        is_allowed
    }
}
