#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;
use zk_auth::http::is_loopback;
use zk_core::model::{ErrorKind, Phase};

use crate::wire::error::WireError;

/// Time limits for parts of a response. There is no limit on the whole response, because a long answer is not
/// a stuck one.
///
/// ```
/// use std::time::Duration;
/// use zk_providers::Clocks;
///
/// let clocks = Clocks { liveness: Duration::from_secs(30), ..Clocks::remote() };
/// assert!(clocks.first_event < Clocks::local().first_event);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Limit from sending the request to the first event with content. Has to cover a long prompt and hidden
    /// thinking.
    pub first_event: Duration,
    /// Limit between two pieces of data of any kind, keep-alives included.
    pub liveness: Duration,
    /// Limit between two events with content; keep-alives do not count.
    pub progress: Duration,
    /// Wait for the end mark of a complete answer, after which the answer counts as ended.
    pub ending: Duration,
}

impl Clocks {
    /// Limits for a service on the network: 15 minutes to the first event, 2 minutes without data, 10 minutes
    /// without progress.
    #[must_use]
    pub const fn remote() -> Self {
        Self {
            first_event: Duration::from_secs(900),
            liveness: Duration::from_secs(120),
            progress: Duration::from_secs(600),
            ending: Duration::from_secs(5),
        }
    }

    /// Limits for a server on this machine, which may process a long prompt on a slow CPU without a sign of
    /// life: 1 hour to the first event, 20 minutes without data, 30 minutes without progress.
    #[must_use]
    pub const fn local() -> Self {
        Self {
            first_event: Duration::from_secs(3600),
            liveness: Duration::from_secs(1200),
            progress: Duration::from_secs(1800),
            ending: Duration::from_secs(5),
        }
    }
}

impl Clocks {
    /// Returns the default limits for a base URL, on this machine or on the network.
    #[must_use]
    pub fn at(base_url: &str) -> Self {
        let is_here = Url::parse(base_url).is_ok_and(|url| is_loopback(&url));
        if is_here { Self::local() } else { Self::remote() }
    }
}

/// Running clocks of one response.
#[derive(Debug)]
pub(crate) struct Watchdog {
    clocks: Clocks,
    started: Instant,
    last_byte: Option<Instant>,
    last_event: Option<Instant>,
    /// Time at which the answer became complete except for its end mark.
    completed: Option<Instant>,
    /// Time at which the reader last got an event.
    answered: Option<Instant>,
    /// Time of the last announcement of an idle stream.
    announced: Option<Instant>,
}

/// Idle time before the first announcement; further ones follow every second.
const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Idle times of a response with their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleReport {
    /// Time since the last event with content, and its limit.
    pub(crate) silent: (Duration, Duration),
    /// Time since the last data, and its limit once some has come.
    pub(crate) no_data: (Duration, Option<Duration>),
}

/// Kind of clock that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    FirstEvent,
    Liveness,
    Progress,
    Ending,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstEvent => "first-event",
            Self::Liveness => "liveness",
            Self::Progress => "progress",
            Self::Ending => "ending",
        })
    }
}

impl Watchdog {
    pub(crate) fn new(clocks: Clocks, started: Instant) -> Self {
        Self {
            clocks,
            started,
            last_byte: None,
            last_event: None,
            completed: None,
            answered: None,
            announced: None,
        }
    }

    /// Records that data arrived.
    pub(crate) fn record_data(&mut self) {
        self.last_byte = Some(Instant::now());
        self.answered = self.last_byte;
    }

    /// Records that the reader waits again. The clocks did not run while it was busy.
    pub(crate) fn start_wait(&mut self) {
        let Some(idle) = self.answered.take().map(|answered| answered.elapsed()) else { return };
        self.started += idle;
        for time in [&mut self.last_byte, &mut self.last_event, &mut self.completed].into_iter().flatten() {
            *time += idle;
        }
    }

    /// Records that the last data was an event with content.
    pub(crate) fn record_content(&mut self) {
        self.last_event = self.last_byte;
    }

    /// Returns the phase of the response: whether an event with content has come.
    pub(crate) fn phase(&self) -> Phase {
        match (self.last_byte, self.last_event) {
            (_, Some(_)) => Phase::Stream,
            (_, None) => Phase::FirstEvent,
        }
    }

    /// Returns the next clock to expire, and its time. Keep-alives after a complete answer do not delay the
    /// deadline.
    pub(crate) fn deadline(&mut self, complete: bool) -> (Instant, Clock) {
        if complete && let Some(last) = self.last_byte {
            let completed = *self.completed.get_or_insert(last);
            let last = self.last_event.map_or(completed, |event| event.max(completed));
            return (last + self.clocks.ending, Clock::Ending);
        }
        let waiting = match self.last_event {
            Some(last) => (last + self.clocks.progress, Clock::Progress),
            None => (self.started + self.clocks.first_event, Clock::FirstEvent),
        };
        match self.last_byte.map(|last| (last + self.clocks.liveness, Clock::Liveness)) {
            Some(alive) if alive.0 < waiting.0 => alive,
            Some(_) | None => waiting,
        }
    }

    /// Returns the time of the next announcement of an idle stream.
    pub(crate) fn next_notice(&self) -> Instant {
        let begun = self.last_event.unwrap_or(self.started);
        let announced = self.announced.map(|at| at.saturating_duration_since(begun));
        begun
            + announced.map_or(FIRST_NOTICE_AFTER, |after| {
                FIRST_NOTICE_AFTER.max(Duration::from_secs(after.as_secs() + 1))
            })
    }

    /// Returns the idle times, for an announcement now.
    pub(crate) fn report_idle(&mut self) -> IdleReport {
        let now = Instant::now();
        self.announced = Some(now);
        let silent = now.saturating_duration_since(self.last_event.unwrap_or(self.started));
        let limit = if self.last_event.is_some() { self.clocks.progress } else { self.clocks.first_event };
        let no_data = match self.last_byte {
            Some(last) => (now.saturating_duration_since(last), Some(self.clocks.liveness)),
            None => (silent, None),
        };
        IdleReport { silent: (silent, limit), no_data }
    }

    /// Creates the error for a response whose `clock` expired.
    pub(crate) fn stalled(&self, clock: Clock) -> WireError {
        let message = match clock {
            Clock::FirstEvent => format!("no event within {}", format_duration(self.clocks.first_event)),
            Clock::Liveness => format!("no data for {}", format_duration(self.clocks.liveness)),
            Clock::Progress => format!("data but no progress for {}", format_duration(self.clocks.progress)),
            Clock::Ending => format!("no end for {}", format_duration(self.clocks.ending)),
        };
        WireError::new(ErrorKind::Stalled, format!("{message} (the {clock} clock)"))
            .hint("Try again; if the model is only slow, give its provider's `clocks` more time")
    }
}

fn format_duration(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", duration.as_secs_f64())
    }
}
