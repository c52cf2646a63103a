use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{ModelRef, Phase, ThinkingRequest, TurnId};
use crate::service::{RetryNotice, ToolChoice};

/// Parameters of the request that is about to be made. Handlers patch them, for this turn only.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderRequest {
    /// Model that the request goes to.
    pub model: ModelRef,
    /// Reasoning that the request asks for.
    pub thinking: ThinkingRequest,
    /// Output limit in tokens.
    pub max_tokens: u32,
    /// Whether and which tool the model has to call.
    pub tool_choice: ToolChoice,
}

/// Answer to [`ProviderRequest`]: fields that are set replace the request's values.
#[derive(Clone, Debug, Default)]
pub struct RequestPatch {
    /// The new reasoning request.
    pub thinking: Option<ThinkingRequest>,
    /// The new output limit in tokens.
    pub max_tokens: Option<u32>,
    /// The new tool choice.
    pub tool_choice: Option<ToolChoice>,
    /// The model for this turn, by its id or a part of it such as `sonnet`. A model unknown to its provider
    /// is ignored and announced as [`PartLeftOut`](super::PartLeftOut).
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

/// JSON body of a request that is about to be sent, in the provider's own format. A handler answers with the
/// body to send instead. Without handlers no JSON value is built for it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderPayload {
    /// Model that the request goes to.
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

/// The status and headers of a response arrived.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderResponse {
    /// Model that was asked.
    pub model: ModelRef,
    /// The HTTP status.
    pub status: u16,
    /// Request id that the provider assigned, for its support.
    pub request_id: Option<String>,
    /// Rate-limit headers of the response, by lower-case name.
    pub limits: Vec<(String, String)>,
    /// Milliseconds since the request was started.
    pub elapsed_ms: u64,
}
notify!(ProviderResponse, "provider:response");

/// A provider's report about side effects of a response, such as edits of the context or counts of tools it
/// ran.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderReport {
    /// Turn whose response the report is about.
    pub turn_id: TurnId,
    /// Model that answered.
    pub model: ModelRef,
    /// The report in the provider's own format. Anthropic's has the fields `context_management` (edits of the
    /// context), `input_transformations`, `iterations` (the responses that make up the answer) and
    /// `server_tool_use` (counts), each only if it is not empty.
    pub report: Value,
}
notify!(ProviderReport, "provider:report");

/// No progress of the response for a while. Announced once a second from the fourth second on, until there is
/// something to show.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamIdle {
    /// Model that was asked.
    pub model: ModelRef,
    /// Phase that the request has reached.
    pub phase: Phase,
    /// Milliseconds since the last event with content.
    pub idle_ms: u64,
    /// Limit of `idle_ms`, after which the request is given up.
    pub idle_limit_ms: u64,
    /// Milliseconds since the last byte: less than `idle_ms` if the connection shows signs of life.
    pub no_data_ms: u64,
    /// Limit of `no_data_ms`, after which the request is given up; only once the response has begun.
    pub no_data_limit_ms: Option<u64>,
}
notify!(StreamIdle, "stream:idle");

/// A request waits before a retry, because it failed or because another request met the rate limit that both
/// share.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderRetry {
    /// Model that was asked.
    pub model: ModelRef,
    /// Cause and length of the wait.
    pub retry: RetryNotice,
}
notify!(ProviderRetry, "provider:retry");
