use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::Cx;
use crate::model::{
    Block, CallId, ErrorKind, Model, ProviderError, StopReason, ThinkingRequest, ToolSpec, Usage, WireReady,
    WireRules,
};

/// The events of one response. Dropping it ends the request.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// A model service. A registry item under its name.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The provider's name: the one in [`Model::provider`].
    fn name(&self) -> &str;

    /// The provider that this one decorates. Every method that is not required asks it by default, so that a
    /// decorator writes what it changes, and forgets no method that is added later.
    fn inner(&self) -> Option<&dyn Provider> {
        None
    }

    /// Returns the facts known about a model; tolerant defaults for one that is not known.
    fn model(&self, id: &str) -> Model;

    /// The model used when none is asked for, if there is a sensible one.
    fn default_model(&self) -> Option<String> {
        self.inner()?.default_model()
    }

    /// The models it knows of without asking anybody, to be shown.
    fn known_models(&self) -> Vec<Model> {
        self.inner().map(|inner| inner.known_models()).unwrap_or_default()
    }

    /// Returns an opaque text for the quota that its requests count against: the same for all providers of
    /// one endpoint and key, however they were made. Nothing of the key can be told from it. Without one, a
    /// provider is taken for the only one of its kind.
    fn quota_key(&self) -> Option<String> {
        self.inner()?.quota_key()
    }

    /// Whether it sends failed requests again by itself, so that nobody around it does so too.
    fn is_retrying(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_retrying())
    }

    /// Returns the rules for histories and ids that this provider accepts for `model`.
    fn rules(&self, model: &Model) -> WireRules;

    /// Whether an answer of `model` can be held to `schema`, the schema of an object, by naming it in
    /// [`Request::output`]; `with_tools` says that tools are offered too. Otherwise the answer is asked for as
    /// the arguments of a tool.
    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        self.inner().is_some_and(|inner| inner.native_output(model, schema, with_tools))
    }

    /// Whether a request to `model` that asks for other thinking than the one before makes it read the messages anew, which it
    /// has kept otherwise.
    fn thinking_breaks_prefix(&self, model: &Model) -> bool {
        self.inner().is_some_and(|inner| inner.thinking_breaks_prefix(model))
    }

    /// Sends a request. The stream ends with exactly one [`StreamEvent::Done`] or one error; a response that
    /// breaks off is an error, never a short success.
    ///
    /// `cx` carries the stop token, and takes the events a provider announces: `provider:payload`,
    /// `provider:response`, `provider:retry`.
    fn stream(&self, request: Request, cx: &Cx) -> EventStream;

    /// Counts the input tokens of a request, where the API has a call for that.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails.
    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        match self.inner() {
            Some(inner) => inner.count_tokens(request, cx).await,
            None => Ok(None),
        }
    }

    /// The models the endpoint says it has, where the API has a call for that.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails: also the way to find out whether the endpoint is reachable.
    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        match self.inner() {
            Some(inner) => inner.list_models(cx).await,
            None => Ok(None),
        }
    }

    /// Returns the facts known about a model once the endpoint was asked for what [`Provider::model`] cannot
    /// say, such as the window of one that stands in no table. When nobody answers, that is as much as
    /// before.
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

/// One request. The history can only be a [`WireReady`] one.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model.
    pub model: Model,
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The tools, under the names the model is to use.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The history.
    pub history: WireReady,
    /// Tool that the model has to call.
    pub tool_choice: ToolChoice,
    /// The shape the answer has to have; only one that [`Provider::native_output`] said yes to is heard.
    pub output: Option<OutputFormat>,
    /// The reasoning asked for.
    pub thinking: ThinkingRequest,
    /// Output limit in tokens.
    pub max_tokens: u32,
    /// Whether to mark the stable prefixes for the provider's cache.
    pub cache: bool,
    /// A stable key of the conversation, for providers that route by one.
    pub session: Option<Arc<str>>,
}

impl Request {
    /// A request without system prompt, tools and reasoning, for at most 4,096 tokens, marked for the cache.
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

/// The shape an answer has to have.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputFormat {
    /// Name of the format for the provider: up to 64 letters, digits, `_` and `-`.
    pub name: Arc<str>,
    /// The JSON schema, of an object.
    pub schema: Arc<Value>,
}

/// Tool that a model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// Any or none.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(String),
}

/// One event of a response. Blocks are counted from 0 in the order they began.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The response began.
    Start {
        /// The model that answers, if the provider says.
        model: Option<String>,
        /// The provider's id of the request.
        request_id: Option<String>,
    },
    /// More text.
    Text {
        /// Index of the block.
        block: u32,
        /// The text.
        delta: String,
    },
    /// More reasoning.
    Thinking {
        /// Index of the block.
        block: u32,
        /// The text.
        delta: String,
    },
    /// A tool call began.
    ToolCall {
        /// Index of the block.
        block: u32,
        /// The provider's id.
        id: CallId,
        /// The tool, as the model calls it.
        name: String,
    },
    /// More of a call's arguments, as raw text.
    ToolArgs {
        /// Index of the block.
        block: u32,
        /// The text.
        delta: String,
    },
    /// A block is complete: this, not the sum of its deltas, is what belongs in the history.
    Block {
        /// Index of the block.
        block: u32,
        /// The block.
        content: Block,
    },
    /// The usage so far; later ones replace earlier ones.
    Usage(Usage),
    /// Report of the provider on what it did beside answering, in its own shape: edits of the context, the
    /// responses that one answer was made of, counts of tools it ran. For people and programs to look at.
    Report(Value),
    /// The request will be sent again.
    Retry(RetryNotice),
    /// The response is complete.
    Done {
        /// Reason for which it ended.
        stop: StopReason,
        /// Tokens of the response, as the provider counted them.
        usage: Usage,
    },
}

/// Notice that a request waits to be sent again, or is held back by a rate limit that another one met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RetryNotice {
    /// The last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Number of attempts that there will be at most.
    pub max_attempts: u32,
    /// The wait before the next one.
    #[serde(rename = "delay_ms", with = "crate::model::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub delay: Duration,
    /// Class of the error that makes it wait.
    pub kind: ErrorKind,
    /// Cause of the wait, in words.
    pub message: String,
    /// Whether a part of an answer was handed out before: it counts for nothing, the answer begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discards: bool,
}
