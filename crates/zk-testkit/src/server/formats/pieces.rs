//! Pieces of a stream, in any format.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use zk_core::model::{ProviderError, Usage};

use crate::rules::Reasoning;
use crate::script::Step;

/// Piece of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Event { bytes: Bytes, part: Part },
    Wait(Duration),
    Fail(Box<ProviderError>),
    Hang,
}

/// Role of an event in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Beginning of the stream.
    Start,
    /// Event with content that is no delta.
    Content,
    /// Delta of text, thinking or arguments.
    Delta,
    /// Event with the stop reason.
    Finish,
    /// End of the stream.
    Terminal,
}

/// Parameters of the rendering of a turn as a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendering<'a> {
    pub(crate) model: &'a str,
    pub(crate) number: usize,
    /// Usage to report; `None` if the client did not ask for it, or a fault withholds it.
    pub(crate) usage: Option<Usage>,
    pub(crate) pace: Option<Duration>,
    pub(crate) reasoning: Reasoning,
}

/// Collector of a stream's pieces.
pub(crate) struct Pieces {
    pub(crate) all: Vec<Piece>,
    pace: Option<Duration>,
}

impl Pieces {
    pub(crate) fn new(pace: Option<Duration>) -> Self {
        Self { all: Vec::new(), pace }
    }

    pub(crate) fn event(&mut self, part: Part, bytes: String) {
        self.all.push(Piece::Event { bytes: Bytes::from(bytes), part });
    }

    pub(crate) fn delta(&mut self, bytes: String) {
        self.all.extend(self.pace.map(Piece::Wait));
        self.event(Part::Delta, bytes);
    }

    /// Adds a scripted pause; breaks at a step that fails or hangs.
    pub(crate) fn interrupt(&mut self, step: &Step) -> ControlFlow<()> {
        let (piece, flow) = match step {
            Step::Delay(pause) => (Piece::Wait(*pause), ControlFlow::Continue(())),
            Step::Fail(error) => (Piece::Fail(error.clone()), ControlFlow::Break(())),
            Step::Hang => (Piece::Hang, ControlFlow::Break(())),
            Step::Text(_)
            | Step::Thinking { .. }
            | Step::Redacted(_)
            | Step::Call { .. }
            | Step::Usage(_)
            | Step::Stop(_) => return ControlFlow::Continue(()),
        };
        self.all.push(piece);
        flow
    }
}
