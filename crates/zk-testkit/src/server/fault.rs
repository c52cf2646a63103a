use std::time::Duration;

/// Fault of one answer of a [`FakeServer`](super::FakeServer).
///
/// Counts of events are of events in the answer's stream, the first one included.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The connection closes after this many events, in the middle of the body.
    CutAfterEvents(usize),
    /// The connection closes after this many bytes of the body.
    CutAfterBytes(usize),
    /// The connection is reset (TCP RST) after this many events.
    ResetAfterEvents(usize),
    /// Nothing more is sent after this many events, and the connection stays open.
    HalfOpenAfterEvents(usize),
    /// The whole answer, one byte in each interval.
    Drip(Duration),
    /// The answer begins, and then there is only a sign of life in each interval, for ever.
    PingOnly(Duration),
    /// 429.
    RateLimited(RetryAfter),
    /// 503.
    Unavailable(RetryAfter),
    /// 529.
    Overloaded(RetryAfter),
    /// 500.
    ServerError,
    /// 200 and an error as a JSON body.
    ErrorBody200,
    /// An error event after this many events, then the end.
    ErrorEventAfter(usize),
    /// An event whose data is broken JSON after this many events; the rest follows.
    MalformedEvent(usize),
    /// Bytes that are no HTTP chunk after this many events, then the end of the connection.
    MalformedChunk(usize),
    /// The whole answer, with every character outside ASCII split over two writes.
    SplitUtf8,
    /// The event that says why the answer ended comes twice.
    DuplicateFinish,
    /// The answer does not say how many tokens it took.
    MissingUsage,
    /// One piece of text of this many bytes, instead of what the script says.
    GiantDelta(usize),
    /// The answer ends properly but for its last event.
    NoTerminal,
    /// A proxy's HTML page with this status.
    Html(u16),
    /// The request is read and never answered.
    NeverAnswers,
    /// 200, the content type of a stream, and no bytes.
    Empty200,
}

/// Form in which an answer says when to come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RetryAfter {
    /// Nothing is said.
    No,
    /// `retry-after` in whole seconds.
    Seconds(u64),
    /// `retry-after` in seconds with a fraction.
    Fraction(f64),
    /// `retry-after` as an HTTP date, this far from now.
    Date(Duration),
    /// `retry-after-ms`.
    Millis(f64),
}

impl Fault {
    /// Whether the client gets a complete answer all the same. Only then the script goes on: the turn of a
    /// failed answer is said again to the next request.
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
    /// Returns the time to wait; nothing if the answer does not say.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self::No => None,
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds)),
            Self::Fraction(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Self::Date(from_now) => Some(from_now),
            Self::Millis(millis) => Duration::try_from_secs_f64(millis / 1000.0).ok(),
        }
    }

    /// The header that says it.
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
