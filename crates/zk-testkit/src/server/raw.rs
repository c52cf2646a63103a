//! Raw responses, for protocols that the server does not know.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::reply::{Act, Reply};

/// Pause between two pieces, so that the client reads them separately.
const BETWEEN: Duration = Duration::from_millis(1);

/// Raw response to a request for any path.
///
/// ```
/// use zk_testkit::{FakeServer, RawReply};
///
/// let busy = RawReply::new("{\"error\": \"busy\"}").status(503).content_type("application/json");
/// let server = FakeServer::raw_replies([busy, RawReply::new("one\ntwo\n").cut_at([2, 4])]).unwrap();
/// assert!(server.requests().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct RawReply {
    status: u16,
    content_type: String,
    body: Bytes,
    cuts: Vec<usize>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    Cut,
    Hang,
}

impl RawReply {
    /// Status 200 and this body, in one piece.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            content_type: "text/event-stream".to_owned(),
            body: Bytes::from(body.into()),
            cuts: Vec::new(),
            end: End::Whole,
        }
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets the `content-type`; `text/event-stream` by default.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Sends the body in pieces that end at these offsets, given in any order.
    #[must_use]
    pub fn cut_at(mut self, cuts: impl IntoIterator<Item = usize>) -> Self {
        self.cuts.extend(cuts);
        self.cuts.sort_unstable();
        self
    }

    /// Breaks the connection after the body.
    #[must_use]
    pub fn broken_off(mut self) -> Self {
        self.end = End::Cut;
        self
    }

    /// Stays silent after the body, and leaves the connection open.
    #[must_use]
    pub fn then_silence(mut self) -> Self {
        self.end = End::Hang;
        self
    }

    pub(super) fn reply(&self) -> Reply {
        let mut acts = VecDeque::new();
        let mut rest = self.body.clone();
        let mut sent = 0;
        for cut in &self.cuts {
            let piece = rest.split_to(cut.saturating_sub(sent).min(rest.len()));
            sent += piece.len();
            if !piece.is_empty() {
                acts.extend([Act::Send(piece), Act::Wait(BETWEEN)]);
            }
        }
        acts.push_back(Act::Send(rest));
        match self.end {
            End::Whole => {}
            End::Cut => acts.push_back(Act::Cut),
            End::Hang => acts.push_back(Act::Hang),
        }
        Reply { status: self.status, headers: vec![("content-type", self.content_type.clone())], acts }
    }
}
