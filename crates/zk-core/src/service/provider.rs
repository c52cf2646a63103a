mod block_writer;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::block_writer::BlockWriter;
use crate::kernel::Cx;
use crate::model::{
    Block, CallId, ErrorKind, Model, ProviderError, StopReason, ThinkingRequest, ToolSpec, Usage, WireReady,
    WireRules,
};

/// Stream of the events of one response. Dropping it cancels the request.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// A model service, registered as an item under its name.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the provider's name, as in [`Model::provider`].
    fn name(&self) -> &str;

    /// Returns the provider that this one decorates. By default, optional methods forward to it, so that a
    /// decorator implements only the methods that it changes, also when methods are added later.
    fn inner(&self) -> Option<&dyn Provider> {
        None
    }

    /// Returns the known facts about a model; tolerant defaults for an unknown one.
    fn model(&self, id: &str) -> Model;

    /// Returns the id of the model to use when none is requested, if there is a sensible one.
    fn default_model(&self) -> Option<String> {
        self.inner()?.default_model()
    }

    /// Returns the models known without a request, for display.
    fn known_models(&self) -> Vec<Model> {
        self.inner().map(|inner| inner.known_models()).unwrap_or_default()
    }

    /// Returns an opaque key of the quota that requests count against: equal for all providers of one
    /// endpoint and API key, however they were created. It reveals nothing of the API key. `None` means that
    /// this provider shares its quota with no other.
    fn quota_key(&self) -> Option<String> {
        self.inner()?.quota_key()
    }

    /// Whether the provider retries failed requests itself, so that callers must not.
    fn is_retrying(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_retrying())
    }

    /// Returns the requirements of `model` on a history and its ids.
    fn rules(&self, model: &Model) -> WireRules;

    /// Whether `model` can be forced to answer in the form of `schema`, the schema of an object, through
    /// [`Request::output`]; `with_tools` says that tools are offered too. Otherwise the answer is requested
    /// as the arguments of a tool call.
    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        self.inner().is_some_and(|inner| inner.native_output(model, schema, with_tools))
    }

    /// Whether a changed thinking request to `model` invalidates the provider's cache of the messages.
    fn thinking_breaks_prefix(&self, model: &Model) -> bool {
        self.inner().is_some_and(|inner| inner.thinking_breaks_prefix(model))
    }

    /// Sends a request. The stream ends with exactly one [`StreamEvent::Done`] or one error; a response that
    /// breaks off is an error, never a short success.
    ///
    /// `cx` carries the stop token, and receives the events that a provider announces: `provider:payload`,
    /// `provider:response`, `provider:retry`.
    fn stream(&self, request: Request, cx: &Cx) -> EventStream;

    /// Counts the input tokens of a request, if the API can; `None` otherwise.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails.
    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        match self.inner() {
            Some(inner) => inner.count_tokens(request, cx).await,
            None => Ok(None),
        }
    }

    /// Lists the models of the endpoint, if the API can; `None` otherwise.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails. Callers also use this to check that the endpoint is reachable.
    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        match self.inner() {
            Some(inner) => inner.list_models(cx).await,
            None => Ok(None),
        }
    }

    /// Turns texts into vectors of their meaning with an embedding model, one for each text in order, if the API can;
    /// `None` otherwise.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails.
    async fn embed(
        &self,
        model: &str,
        texts: &[String],
        cx: &Cx,
    ) -> Result<Option<Vec<Vec<f32>>>, ProviderError> {
        match self.inner() {
            Some(inner) => inner.embed(model, texts, cx).await,
            None => Ok(None),
        }
    }

    /// Returns the facts about a model after asking the endpoint for those that [`Provider::model`] does not
    /// know, such as the window of a model outside of the catalogue. Without an answer it returns the known
    /// facts.
    async fn describe_model(&self, id: &str, cx: &Cx) -> Model {
        if let Some(inner) = self.inner() {
            return inner.describe_model(id, cx).await;
        }
        let known = self.model(id);
        if known.window.is_some() {
            return known;
        }
        let listed = self.list_models(cx).await.ok().flatten().unwrap_or_default();
        listed.into_iter().find(|model| model.id == id).unwrap_or(known)
    }
}

/// A request to a model. Its history has to be a [`WireReady`].
#[derive(Clone, Debug)]
pub struct Request {
    /// Model that the request goes to.
    pub model: Model,
    /// The system prompt; empty for no prompt.
    pub system: Arc<str>,
    /// Tools to offer, under the names that the model sees.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Normalised messages to send.
    pub history: WireReady,
    /// Whether and which tool the model has to call.
    pub tool_choice: ToolChoice,
    /// Required form of the answer; ignored unless [`Provider::native_output`] accepts it.
    pub output: Option<OutputFormat>,
    /// Reasoning that the request asks for.
    pub thinking: ThinkingRequest,
    /// Output limit in tokens.
    pub max_tokens: u32,
    /// Whether to mark the stable prefixes for the provider's prompt cache.
    pub cache: bool,
    /// Stable key of the conversation, for providers that route requests by it.
    pub session: Option<Arc<str>>,
}

impl Request {
    /// Creates a request without system prompt, tools and reasoning, for at most 4,096 output tokens, marked
    /// for the cache.
    #[must_use]
    pub fn new(model: Model, history: WireReady) -> Self {
        Self {
            model,
            system: Arc::from(""),
            tools: Arc::from([]),
            history,
            tool_choice: ToolChoice::Auto,
            output: None,
            thinking: ThinkingRequest::default(),
            max_tokens: 4096,
            cache: true,
            session: None,
        }
    }
}

/// Required form of a structured answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputFormat {
    /// Name of the format for the provider: up to 64 letters, digits, `_` and `-`.
    pub name: Arc<str>,
    /// JSON Schema of an object.
    pub schema: Arc<Value>,
}

/// Whether and which tool a model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model may call any tool or none.
    #[default]
    Auto,
    /// The model may call no tool.
    None,
    /// The model has to call at least one tool.
    Required,
    /// The model has to call the tool with this name.
    Tool(String),
}

/// One event of a streamed response. Blocks are numbered from 0 in the order they began.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The response began.
    Start {
        /// Id of the model that answers, if the provider says so.
        model: Option<String>,
        /// Request id that the provider assigned, for its support.
        request_id: Option<String>,
    },
    /// More text of a text block.
    Text {
        /// Index of the block.
        block: u32,
        /// Text to append.
        delta: String,
    },
    /// More reasoning of a thinking block.
    Thinking {
        /// Index of the block.
        block: u32,
        /// Text to append.
        delta: String,
    },
    /// A tool call began.
    ToolCall {
        /// Index of the block.
        block: u32,
        /// Call id that the provider assigned.
        id: CallId,
        /// Name that the model used for the tool.
        name: String,
    },
    /// More of a call's arguments, as raw JSON text.
    ToolArgs {
        /// Index of the block.
        block: u32,
        /// Text to append.
        delta: String,
    },
    /// A block is complete. The history gets this content, not the sum of the deltas.
    Block {
        /// Index of the block.
        block: u32,
        /// Complete content of the block.
        content: Block,
    },
    /// The usage so far; replaces that of earlier events.
    Usage(Usage),
    /// A provider's report about side effects of the response, in its own format, for display: edits of the
    /// context, the responses that one answer was made of, counts of tools it ran.
    Report(Value),
    /// The request failed and will be retried.
    Retry(RetryNotice),
    /// The response is complete.
    Done {
        /// Reason for which the response ended.
        stop: StopReason,
        /// Tokens of the response, as the provider counted them.
        usage: Usage,
    },
}

/// Notice that a request waits before a retry, or is held back by a rate limit that another request met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RetryNotice {
    /// Number of the last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Maximum number of attempts that will be made.
    pub max_attempts: u32,
    /// Wait before the next attempt.
    #[serde(rename = "delay_ms", with = "crate::model::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub delay: Duration,
    /// Class of the error that caused the wait.
    pub kind: ErrorKind,
    /// Cause of the wait, in words.
    pub message: String,
    /// Whether a partial answer was already streamed and must be discarded, because the answer begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discards: bool,
}
