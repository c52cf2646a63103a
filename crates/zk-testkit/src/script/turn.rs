use std::time::Duration;

use serde_json::Value;
use zk_core::model::{CallId, ErrorKind, Phase, ProviderError, StopReason, Usage};

/// Response of a scripted model.
///
/// Unless set otherwise, a turn stops with [`StopReason::ToolUse`] if it has calls and with
/// [`StopReason::EndTurn`] if not, and its usage is zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    pub(crate) steps: Vec<Step>,
}

/// Step of a [`Turn`].
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Text block in these pieces.
    Text(Vec<String>),
    /// A thinking block.
    Thinking {
        /// Pieces of its text.
        chunks: Vec<String>,
        /// Signature of the provider, if any.
        signature: Option<String>,
    },
    /// A redacted thinking block with this payload.
    Redacted(String),
    /// A tool call.
    Call {
        /// Id of the call; `call_1`, `call_2` … if absent.
        id: Option<CallId>,
        /// Name of the tool.
        name: String,
        /// Pieces of the arguments, which need not be valid JSON.
        args: Vec<String>,
    },
    /// Reported usage.
    Usage(Usage),
    /// Reason for the end of the response.
    Stop(StopReason),
    /// A pause.
    Delay(Duration),
    /// Failure of the response.
    Fail(Box<ProviderError>),
    /// Silence from here on, with an open connection.
    Hang,
}

impl Turn {
    /// Empty response.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text block, streamed word by word.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.step(Step::Text(text.split_inclusive(' ').map(str::to_owned).collect()))
    }

    /// Adds a text block, streamed in these pieces.
    #[must_use]
    pub fn chunks<T: Into<String>>(self, chunks: impl IntoIterator<Item = T>) -> Self {
        self.step(Step::Text(chunks.into_iter().map(Into::into).collect()))
    }

    /// Adds a thinking block without a signature, streamed word by word.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        let text = text.into();
        let chunks = text.split_inclusive(' ').map(str::to_owned).collect();
        self.step(Step::Thinking { chunks, signature: None })
    }

    /// Adds a thinking block with a signature.
    #[must_use]
    pub fn signed_thinking(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let text = text.into();
        let chunks = text.split_inclusive(' ').map(str::to_owned).collect();
        self.step(Step::Thinking { chunks, signature: Some(signature.into()) })
    }

    /// Adds a redacted thinking block.
    #[must_use]
    pub fn redacted(self, payload: impl Into<String>) -> Self {
        self.step(Step::Redacted(payload.into()))
    }

    /// Adds a tool call.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a script reads best with `json!` in the call")]
    pub fn call(self, name: impl Into<String>, args: Value) -> Self {
        let args = pieces(&args.to_string(), 24);
        self.step(Step::Call { id: None, name: name.into(), args })
    }

    /// Adds a tool call with this id.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a script reads best with `json!` in the call")]
    pub fn call_as(self, id: impl Into<CallId>, name: impl Into<String>, args: Value) -> Self {
        let args = pieces(&args.to_string(), 24);
        self.step(Step::Call { id: Some(id.into()), name: name.into(), args })
    }

    /// Adds a tool call whose arguments are sent unchanged, whether or not they are complete JSON.
    #[must_use]
    pub fn raw_call(self, name: impl Into<String>, args: impl AsRef<str>) -> Self {
        let args = pieces(args.as_ref(), 24);
        self.step(Step::Call { id: None, name: name.into(), args })
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop(self, reason: StopReason) -> Self {
        self.step(Step::Stop(reason))
    }

    /// Reports these tokens, even if the response fails afterwards.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        self.step(Step::Usage(usage))
    }

    /// Adds a pause.
    #[must_use]
    pub fn delay(self, pause: Duration) -> Self {
        self.step(Step::Delay(pause))
    }

    /// Fails here; as the first step, before the response begins.
    #[must_use]
    pub fn error(self, kind: ErrorKind, message: impl Into<String>) -> Self {
        self.fail(ProviderError::new(kind, "", "", Phase::Stream, message))
    }

    /// Fails as [`Turn::error`] does, with a complete error. An empty provider or model name is filled in.
    #[must_use]
    pub fn fail(self, error: ProviderError) -> Self {
        self.step(Step::Fail(Box::new(error)))
    }

    /// Stays silent until the run is stopped.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Stop reason of the response.
    pub(crate) fn stop_reason(&self) -> StopReason {
        let said = self.steps.iter().rev().find_map(|step| match step {
            Step::Stop(reason) => Some(reason.clone()),
            Step::Text(_)
            | Step::Thinking { .. }
            | Step::Redacted(_)
            | Step::Call { .. }
            | Step::Usage(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => None,
        });
        let calls = self.steps.iter().any(|step| matches!(step, Step::Call { .. }));
        said.unwrap_or(if calls { StopReason::ToolUse } else { StopReason::EndTurn })
    }

    /// Usage that the response reports.
    pub(crate) fn total_usage(&self) -> Usage {
        let said = self.steps.iter().rev().find_map(|step| match step {
            Step::Usage(usage) => Some(*usage),
            Step::Text(_)
            | Step::Thinking { .. }
            | Step::Redacted(_)
            | Step::Call { .. }
            | Step::Stop(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => None,
        });
        said.unwrap_or_default()
    }
}

/// Splits `text` into pieces of `size` characters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut piece = String::new();
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at % size == 0 {
            all.push(std::mem::take(&mut piece));
        }
        piece.push(c);
    }
    if !piece.is_empty() {
        all.push(piece);
    }
    all
}
