#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;
use zk_auth::http::is_loopback;
use zk_core::model::{ErrorKind, Phase};

use crate::wire::error::WireError;

/// Limits to how long a response may keep its reader waiting. No clock runs over the whole response: a long
/// answer is not a stuck one.
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
    /// Time from sending the request to the first event that says something. It has to cover a long prompt
    /// and thinking that is not shown.
    pub first_event: Duration,
    /// Time between two pieces of data, of whatever kind: keep-alives count.
    pub liveness: Duration,
    /// Time between two events that say something: keep-alives do not count.
    pub progress: Duration,
    /// Time after an answer that is complete but for its end mark; then it counts as ended.
    pub ending: Duration,
}

impl Clocks {
    /// For a service on the network: 15 minutes to the first event, 2 minutes of silence, 10 minutes without
    /// progress.
    #[must_use]
    pub const fn remote() -> Self {
        Self {
            first_event: Duration::from_secs(900),
            liveness: Duration::from_secs(120),
            progress: Duration::from_secs(600),
            ending: Duration::from_secs(5),
        }
    }

    /// For a server on this machine, which may read a long prompt on a slow processor without a sign of life:
    /// 1 hour to the first event, 20 minutes of silence, 30 minutes without progress.
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
    /// The usual ones for a base URL: those of a server on this machine or of a service on the network.
    #[must_use]
    pub fn at(base_url: &str) -> Self {
        let is_here = Url::parse(base_url).is_ok_and(|url| is_loopback(&url));
        if is_here { Self::local() } else { Self::remote() }
    }
}

/// The clocks of one response, running.
#[derive(Debug)]
pub(crate) struct Watchdog {
    clocks: Clocks,
    started: Instant,
    last_byte: Option<Instant>,
    last_event: Option<Instant>,
    /// Time at which the answer was found to be complete but for its end mark.
    completed: Option<Instant>,
    /// Time at which the reader last had what it waited for.
    answered: Option<Instant>,
    /// Time at which the silence was last announced.
    announced: Option<Instant>,
}

/// Silence before its first announcement; then there is one every second.
const QUIET: Duration = Duration::from_secs(3);

/// Time for which nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleReport {
    /// Time without an event that says something, and how long that may be.
    pub(crate) silent: (Duration, Duration),
    /// Time without any data; once some has come, there is a limit to that, too.
    pub(crate) no_data: (Duration, Option<Duration>),
}

/// Clock that ran out.
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

    /// Something arrived.
    pub(crate) fn byte(&mut self) {
        self.last_byte = Some(Instant::now());
        self.answered = self.last_byte;
    }

    /// The reader waits again. What it did in between is not the provider's time: the clocks stood still.
    pub(crate) fn wait(&mut self) {
        let Some(idle) = self.answered.take().map(|answered| answered.elapsed()) else { return };
        self.started += idle;
        for time in [&mut self.last_byte, &mut self.last_event, &mut self.completed].into_iter().flatten() {
            *time += idle;
        }
    }

    /// Notes that what arrived last says something.
    pub(crate) fn event(&mut self) {
        self.last_event = self.last_byte;
    }

    /// Whether an event has said something yet.
    pub(crate) fn phase(&self) -> Phase {
        match (self.last_byte, self.last_event) {
            (_, Some(_)) => Phase::Stream,
            (_, None) => Phase::FirstEvent,
        }
    }

    /// Returns when the next clock runs out, and which. A keep-alive behind a complete answer is not its end
    /// mark, and puts nothing off.
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

    /// Returns when it is time to tell how long nothing has come.
    pub(crate) fn next_notice(&self) -> Instant {
        let begun = self.last_event.unwrap_or(self.started);
        let announced = self.announced.map(|at| at.saturating_duration_since(begun));
        begun + announced.map_or(QUIET, |after| QUIET.max(Duration::from_secs(after.as_secs() + 1)))
    }

    /// Length of the silence, which is announced now.
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

    /// The failure of a response whose `clock` ran out.
    pub(crate) fn stalled(&self, clock: Clock) -> WireError {
        let message = match clock {
            Clock::FirstEvent => format!("no event within {}", words(self.clocks.first_event)),
            Clock::Liveness => format!("no data for {}", words(self.clocks.liveness)),
            Clock::Progress => format!("data but no progress for {}", words(self.clocks.progress)),
            Clock::Ending => format!("no end for {}", words(self.clocks.ending)),
        };
        WireError::new(ErrorKind::Stalled, format!("{message} (the {clock} clock)"))
            .hint("Try again; if the model is only slow, give its provider's `clocks` more time")
    }
}

fn words(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", duration.as_secs_f64())
    }
}
