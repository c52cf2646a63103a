use std::time::Duration;

/// Fault of one response of a [`FakeServer`](super::FakeServer).
///
/// Counts of events refer to the response's stream, from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Closes the connection in the middle of the body, after this many events.
    CutAfterEvents(usize),
    /// Closes the connection after this many bytes of the body.
    CutAfterBytes(usize),
    /// Resets the connection (TCP RST) after this many events.
    ResetAfterEvents(usize),
    /// Sends nothing more after this many events, and leaves the connection open.
    HalfOpenAfterEvents(usize),
    /// Sends the whole response, one byte per interval.
    Drip(Duration),
    /// Begins the response, then sends only a keep-alive per interval, for ever.
    PingOnly(Duration),
    /// Status 429.
    RateLimited(RetryAfter),
    /// Status 503.
    Unavailable(RetryAfter),
    /// Status 529.
    Overloaded(RetryAfter),
    /// Status 500.
    ServerError,
    /// Status 200 with an error as JSON body.
    ErrorBody200,
    /// Sends an error event after this many events, and ends.
    ErrorEventAfter(usize),
    /// Sends an event with broken JSON after this many events; the rest follows.
    MalformedEvent(usize),
    /// Sends bytes that are no HTTP chunk after this many events, and closes the connection.
    MalformedChunk(usize),
    /// Sends the whole response, with each non-ASCII character split over two writes.
    SplitUtf8,
    /// Sends the event with the stop reason twice.
    DuplicateFinish,
    /// Reports no usage.
    MissingUsage,
    /// Sends one piece of text with this many bytes, in place of the script's.
    GiantDelta(usize),
    /// Ends properly, but without the last event.
    NoTerminal,
    /// Sends a proxy's HTML page with this status.
    Html(u16),
    /// Reads the request and never responds.
    NeverAnswers,
    /// Status 200 with the content type of a stream and an empty body.
    Empty200,
}

/// Form in which a response asks the client to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RetryAfter {
    /// No wait is requested.
    No,
    /// `retry-after` in whole seconds.
    Seconds(u64),
    /// `retry-after` in seconds with a fraction.
    Fraction(f64),
    /// `retry-after` as an HTTP date, this far in the future.
    Date(Duration),
    /// `retry-after-ms`.
    Millis(f64),
}

impl Fault {
    /// Whether the client gets a complete response in spite of the fault. If not, the next request gets the
    /// same turn of the script again.
    #[must_use]
    pub fn completes(&self) -> bool {
        match self {
            Self::Drip(_)
            | Self::SplitUtf8
            | Self::DuplicateFinish
            | Self::MissingUsage
            | Self::GiantDelta(_) => true,
            Self::CutAfterEvents(_)
            | Self::CutAfterBytes(_)
            | Self::ResetAfterEvents(_)
            | Self::HalfOpenAfterEvents(_)
            | Self::PingOnly(_)
            | Self::RateLimited(_)
            | Self::Unavailable(_)
            | Self::Overloaded(_)
            | Self::ServerError
            | Self::ErrorBody200
            | Self::ErrorEventAfter(_)
            | Self::MalformedEvent(_)
            | Self::MalformedChunk(_)
            | Self::NoTerminal
            | Self::Html(_)
            | Self::NeverAnswers
            | Self::Empty200 => false,
        }
    }
}

impl RetryAfter {
    /// Time to wait; `None` if the response does not say.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self::No => None,
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds)),
            Self::Fraction(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Self::Date(from_now) => Some(from_now),
            Self::Millis(millis) => Duration::try_from_secs_f64(millis / 1000.0).ok(),
        }
    }

    /// Header with the time to wait.
    pub(super) fn header(self) -> Option<(&'static str, String)> {
        match self {
            Self::No => None,
            Self::Seconds(seconds) => Some(("retry-after", seconds.to_string())),
            Self::Fraction(seconds) => Some(("retry-after", seconds.to_string())),
            Self::Date(from_now) => {
                Some(("retry-after", httpdate::fmt_http_date(std::time::SystemTime::now() + from_now)))
            }
            Self::Millis(millis) => Some(("retry-after-ms", millis.to_string())),
        }
    }
}
