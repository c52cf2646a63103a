use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{ModelRef, Phase, ThinkingRequest, TurnId};
use crate::service::{RetryNotice, ToolChoice};

/// The parameters of the request about to be made. Handlers patch them, for this turn only.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderRequest {
    /// The model.
    pub model: ModelRef,
    /// The reasoning asked for.
    pub thinking: ThinkingRequest,
    /// Output limit in tokens.
    pub max_tokens: u32,
    /// Tool that the model has to call.
    pub tool_choice: ToolChoice,
}

/// An answer to [`ProviderRequest`]: what is set is changed.
#[derive(Clone, Debug, Default)]
pub struct RequestPatch {
    /// The reasoning.
    pub thinking: Option<ThinkingRequest>,
    /// The output limit.
    pub max_tokens: Option<u32>,
    /// The tool choice.
    pub tool_choice: Option<ToolChoice>,
    /// The model that answers this turn: one that its provider knows, by its id or a part of it such as `sonnet`. One that
    /// nobody knows is left out and announced as [`PartLeftOut`](super::PartLeftOut).
    pub model: Option<ModelRef>,
}

impl Event for ProviderRequest {
    const NAME: &'static str = "provider:request";
    type Reply = RequestPatch;
    type Mode = Fold;
}

impl Absorb for ProviderRequest {
    fn absorb(&mut self, reply: RequestPatch, _: &Source) -> ControlFlow<()> {
        if let Some(thinking) = reply.thinking {
            self.thinking = thinking;
        }
        if let Some(max_tokens) = reply.max_tokens {
            self.max_tokens = max_tokens;
        }
        if let Some(tool_choice) = reply.tool_choice {
            self.tool_choice = tool_choice;
        }
        if let Some(model) = reply.model {
            self.model = model;
        }
        ControlFlow::Continue(())
    }
}

/// The JSON body about to be sent, in the provider's own shape. A handler answers with the body to send
/// instead. Without listeners the body is never built as a value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderPayload {
    /// The model.
    pub model: ModelRef,
    /// The body so far.
    pub payload: Value,
}

impl Event for ProviderPayload {
    const NAME: &'static str = "provider:payload";
    type Reply = Value;
    type Mode = Fold;
}

impl Absorb for ProviderPayload {
    fn absorb(&mut self, reply: Value, _: &Source) -> ControlFlow<()> {
        self.payload = reply;
        ControlFlow::Continue(())
    }
}

/// The head of a response arrived.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderResponse {
    /// The model.
    pub model: ModelRef,
    /// The HTTP status.
    pub status: u16,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The rate-limit headers, by lower-case name.
    pub limits: Vec<(String, String)>,
    /// Milliseconds since the request was started.
    pub elapsed_ms: u64,
}
notify!(ProviderResponse, "provider:response");

/// Report of a provider on what it did beside answering.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderReport {
    /// The turn.
    pub turn_id: TurnId,
    /// The model.
    pub model: ModelRef,
    /// The report, in the provider's own shape. Anthropic's has the fields `context_management` (edits of the
    /// context), `input_transformations`, `iterations` (the responses one answer was made of) and
    /// `server_tool_use` (counts), each only where it says something.
    pub report: Value,
}
notify!(ProviderReport, "provider:report");

/// Nothing has been heard of an answer for a while. Announced once a second from the fourth second on, until there is
/// something to show.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamIdle {
    /// The model.
    pub model: ModelRef,
    /// Phase that the request has reached.
    pub phase: Phase,
    /// Milliseconds without an event that says something.
    pub idle_ms: u64,
    /// With how many the request is given up.
    pub idle_limit_ms: u64,
    /// Milliseconds without any data: fewer, if the connection gives signs of life.
    pub no_data_ms: u64,
    /// With how many the request is given up, once the response has begun.
    pub no_data_limit_ms: Option<u64>,
}
notify!(StreamIdle, "stream:idle");

/// A request waits: it failed and will be sent again, or another one met the rate limit they share.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderRetry {
    /// The model.
    pub model: ModelRef,
    /// When and why.
    pub retry: RetryNotice,
}
notify!(ProviderRetry, "provider:retry");
