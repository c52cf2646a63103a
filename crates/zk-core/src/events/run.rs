use std::ops::ControlFlow;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{Message, ModelRef, Stats, ThinkingLevel};
use crate::service::RunStatus;

/// A run is about to begin. Handlers may add messages, which are collected, and change the system prompt,
/// which is chained: `system` is always the prompt as changed so far.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentBeforeStart {
    /// The prompt of the run, unless it resumes without one.
    pub prompt: Option<Arc<Message>>,
    /// The system prompt so far.
    pub system: String,
    /// Messages added so far. They follow the prompt; messages of
    /// [`QUERY_CONTEXT`](crate::service::QUERY_CONTEXT) precede it.
    pub messages: Vec<Arc<Message>>,
}

/// Answer to [`AgentBeforeStart`].
#[derive(Clone, Debug, Default)]
pub struct BeforeStart {
    /// Messages to add after the prompt; messages of [`QUERY_CONTEXT`](crate::service::QUERY_CONTEXT) come
    /// before it.
    pub messages: Vec<Message>,
    /// The new system prompt as a whole; `None` leaves it unchanged.
    pub system: Option<String>,
}

impl Event for AgentBeforeStart {
    const NAME: &'static str = "agent:before-start";
    type Reply = BeforeStart;
    type Mode = Fold;
}

impl Absorb for AgentBeforeStart {
    fn absorb(&mut self, reply: BeforeStart, _: &Source) -> ControlFlow<()> {
        self.messages.extend(reply.messages.into_iter().map(Arc::new));
        if let Some(system) = reply.system {
            self.system = system;
        }
        ControlFlow::Continue(())
    }
}

/// Sections of the system prompt, in their order. Announced only if plugins registered sections.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemSections {
    /// Sizes of the sections, without sections that were left out.
    pub sections: Vec<SectionSize>,
}
notify!(SystemSections, "system:sections");

/// Size of one section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SectionSize {
    /// Id of the section; `system` is the agent's own prompt.
    pub id: String,
    /// Source that registered the section.
    pub source: String,
    /// Length of the section in bytes.
    pub bytes: usize,
}

/// The system prompt of a run is built. To change it, handle `system:transform`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemBefore {
    /// The whole system prompt.
    pub system: Arc<str>,
}
notify!(SystemBefore, "system:before");

/// Request to prepare the agent before its first run, so that plugins connect to their servers early.
/// Announced once, and only if the host asks for it; otherwise the first run prepares whatever is missing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentWarmUp {
    /// The model that the first run will ask.
    pub model: ModelRef,
}
notify!(AgentWarmUp, "agent:warm-up");

/// A run begins.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentStart {
    /// Id of the run that begins.
    pub run_id: crate::model::RunId,
    /// Model at the start of the run.
    pub model: ModelRef,
    /// Thinking level at the start of the run.
    pub thinking: ThinkingLevel,
    /// Canonical names of the tools that the model is offered, in the order of the request.
    pub tools: Vec<String>,
    /// Tools that were asked for by name and are not registered yet. Each joins the run at the first turn
    /// after its registration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
}
notify!(AgentStart, "agent:start");

/// The run is being stopped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentAbort {
    /// Id of the run that is being stopped.
    pub run_id: crate::model::RunId,
    /// Reason for the stop, if the caller gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
notify!(AgentAbort, "agent:abort", CANCELLABLE = false);

/// The run is over, however it ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentDone {
    /// Id of the run that ended.
    pub run_id: crate::model::RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// Description of the error that ended the run.
    pub error: Option<String>,
    /// Text of the last answer.
    pub text: String,
    /// Statistics of the run.
    pub stats: Stats,
}
notify!(AgentDone, "agent:done", CANCELLABLE = false);

/// Cause of a change of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A person or a program changed the setting.
    Set,
    /// A session was resumed.
    Restore,
}

/// The conversation's model changed, from the next turn on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelSelect {
    /// Model before the change, if there was one.
    pub from: Option<ModelRef>,
    /// Model after the change.
    pub to: ModelRef,
    /// Size of the new model's context window in tokens, if known.
    pub window: Option<u64>,
    /// Cause of the change.
    pub cause: Cause,
}
notify!(ModelSelect, "model:select", CANCELLABLE = false);

/// The conversation's thinking level changed, from the next turn on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ThinkingSelect {
    /// Thinking level before the change.
    pub from: ThinkingLevel,
    /// Thinking level after the change.
    pub to: ThinkingLevel,
    /// Cause of the change.
    pub cause: Cause,
}
notify!(ThinkingSelect, "thinking:select", CANCELLABLE = false);
