use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_core::service::Clock;

/// Simulated wall clock that stands still until a test moves it.
///
/// Timers are tokio's; dates come from a [`Clock`]. In a test that pauses tokio's time
/// (`#[tokio::test(start_paused = true)]`), [`SimClock::with_timers`] couples the two: the date advances with
/// the timers, whether `tokio::time::advance` moves them or the runtime does because all tasks wait.
/// [`SimClock::advance`] moves only the date, as when a laptop slept or its clock was set.
///
/// Clones share the date.
///
/// ```
/// use std::time::Duration;
/// use zk_core::service::Clock;
/// use zk_testkit::SimClock;
///
/// let clock = SimClock::new();
/// let before = clock.now();
/// assert_eq!(clock.now(), before);
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now(), before + Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct SimClock {
    date: Arc<Mutex<SystemTime>>,
    began: Option<Instant>,
}

impl SimClock {
    /// Clock at midnight of 1 January 2026, UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600))
    }

    /// Clock at `date`.
    #[must_use]
    pub fn at(date: SystemTime) -> Self {
        Self { date: Arc::new(Mutex::new(date)), began: None }
    }

    /// Makes the date advance with tokio's timers from now on.
    #[must_use]
    pub fn with_timers(mut self) -> Self {
        self.began = Some(Instant::now());
        self
    }

    /// Advances the date without the timers.
    pub fn advance(&self, by: Duration) {
        *self.date() += by;
    }

    /// Sets the date, which may be earlier.
    pub fn set(&self, date: SystemTime) {
        let ticked = self.elapsed_timer_time();
        *self.date() = date - ticked;
    }

    fn elapsed_timer_time(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn date(&self) -> MutexGuard<'_, SystemTime> {
        self.date.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now(&self) -> SystemTime {
        *self.date() + self.elapsed_timer_time()
    }
}
