//! A turn as the events of a stream, before any fault.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use zk_core::model::{ProviderError, Usage};

use super::{anthropic, chat, gemini, ollama, responses};
use crate::rules::{Dialect, Reasoning};
use crate::script::{Step, Turn};

/// One piece of a stream.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Event { bytes: Bytes, part: Part },
    Wait(Duration),
    Fail(Box<ProviderError>),
    Hang,
}

/// Part of an event in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Opening of the stream.
    Start,
    /// Content.
    Content,
    /// A piece of text, thinking or arguments.
    Delta,
    /// Reason why the answer ended.
    Finish,
    /// Close of the stream.
    Terminal,
}

/// Settings by which one turn is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling<'a> {
    pub(super) model: &'a str,
    pub(super) number: usize,
    /// None when the client did not ask for it, or a fault withholds it.
    pub(super) usage: Option<Usage>,
    pub(super) pace: Option<Duration>,
    pub(super) reasoning: Reasoning,
}

/// The turn as a stream.
pub(super) fn stream(dialect: Dialect, turn: &Turn, telling: Telling<'_>) -> Vec<Piece> {
    match dialect {
        Dialect::Anthropic => anthropic::stream(turn, telling),
        Dialect::Chat => chat::stream(turn, telling),
        Dialect::Responses => responses::stream(turn, telling, false),
        Dialect::Codex => responses::stream(turn, telling, true),
        Dialect::Gemini => gemini::stream(turn, telling),
        Dialect::Ollama => ollama::stream(turn, telling),
    }
}

/// The turn as one JSON body.
pub(super) fn whole(dialect: Dialect, turn: &Turn, telling: Telling<'_>) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::whole(turn, telling),
        Dialect::Chat => chat::whole(turn, telling),
        Dialect::Responses | Dialect::Codex => responses::whole(turn, telling),
        Dialect::Gemini => gemini::whole(turn, telling),
        Dialect::Ollama => ollama::whole(turn, telling),
    }
}

/// Collects the pieces of a stream.
pub(super) struct Pieces {
    pub(super) all: Vec<Piece>,
    pace: Option<Duration>,
}

impl Pieces {
    pub(super) fn new(pace: Option<Duration>) -> Self {
        Self { all: Vec::new(), pace }
    }

    pub(super) fn event(&mut self, part: Part, bytes: String) {
        self.all.push(Piece::Event { bytes: Bytes::from(bytes), part });
    }

    pub(super) fn delta(&mut self, bytes: String) {
        self.all.extend(self.pace.map(Piece::Wait));
        self.event(Part::Delta, bytes);
    }

    /// Pauses where the script says so; nothing follows a step that fails or hangs.
    pub(super) fn interrupt(&mut self, step: &Step) -> ControlFlow<()> {
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
