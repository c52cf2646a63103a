use std::ops::ControlFlow;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{Message, ModelRef, Stats, ThinkingLevel};
use crate::service::RunStatus;

/// A run is about to begin: handlers may add messages, which are collected, and change the system prompt,
/// which is chained: `system` is always the prompt as changed so far.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentBeforeStart {
    /// The prompt of the run, unless it resumes without one.
    pub prompt: Option<Arc<Message>>,
    /// The system prompt so far.
    pub system: String,
    /// The messages added so far. They follow the prompt, but for those of
    /// [`QUERY_CONTEXT`](crate::service::QUERY_CONTEXT), which precede it.
    pub messages: Vec<Arc<Message>>,
}

/// An answer to [`AgentBeforeStart`].
#[derive(Clone, Debug, Default)]
pub struct BeforeStart {
    /// Messages to add after the prompt; those that [`QUERY_CONTEXT`](crate::service::QUERY_CONTEXT) injects come
    /// before it.
    pub messages: Vec<Message>,
    /// The whole new system prompt, if it changes.
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

/// The sections of the system prompt, in their order; only if plugins registered some.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemSections {
    /// The sections; what was left out is missing.
    pub sections: Vec<SectionSize>,
}
notify!(SystemSections, "system:sections");

/// Size of one section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SectionSize {
    /// The section; `system` is the agent's own prompt.
    pub id: String,
    /// Source that registered the section.
    pub source: String,
    /// Length of the section in bytes.
    pub bytes: usize,
}

/// The run has a system prompt of its own. To change a prompt, handle `system:transform`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemBefore {
    /// The prompt.
    pub system: Arc<str>,
}
notify!(SystemBefore, "system:before");

/// The agent is to be made ready before its first run: plugins connect to what they need then. Announced once, and only
/// where the host asks for it; a run makes ready what was not.
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
    /// The run.
    pub run_id: crate::model::RunId,
    /// The model it begins with.
    pub model: ModelRef,
    /// The thinking level it begins with.
    pub thinking: ThinkingLevel,
    /// The tools the model is offered, by their canonical names, in the order of the request.
    pub tools: Vec<String>,
    /// Tools that were asked for by name and are not registered. They join the run at the turn after they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
}
notify!(AgentStart, "agent:start");

/// The run is being stopped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentAbort {
    /// The run.
    pub run_id: crate::model::RunId,
    /// Reason for the stop, if whoever stopped it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
notify!(AgentAbort, "agent:abort", CANCELLABLE = false);

/// The run is over, however it ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AgentDone {
    /// The run.
    pub run_id: crate::model::RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// The error it ended with, in words.
    pub error: Option<String>,
    /// The last answer's text.
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
    /// Somebody asked for it.
    Set,
    /// A session was resumed.
    Restore,
}

/// Another model from the next turn on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelSelect {
    /// Before.
    pub from: Option<ModelRef>,
    /// From now on.
    pub to: ModelRef,
    /// Tokens that its window holds, if known.
    pub window: Option<u64>,
    /// Cause of the change.
    pub cause: Cause,
}
notify!(ModelSelect, "model:select", CANCELLABLE = false);

/// Another thinking level from the next turn on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ThinkingSelect {
    /// Before.
    pub from: ThinkingLevel,
    /// From now on.
    pub to: ThinkingLevel,
    /// Cause of the change.
    pub cause: Cause,
}
notify!(ThinkingSelect, "thinking:select", CANCELLABLE = false);
