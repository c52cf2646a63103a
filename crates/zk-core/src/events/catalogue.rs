use std::any::type_name;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use super::*;
use crate::kernel::{Event, OnError, Reach};

/// Group of events that belong to the same part of an agent's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A run from start to end.
    Agent,
    /// Storing and switching the conversation.
    Session,
    /// Input that a person types.
    Input,
    /// One turn: a request to the model and its tool calls.
    Turn,
    /// The request to the model.
    Provider,
    /// The response as it arrives.
    Stream,
    /// One tool call.
    Tool,
    /// Sub-agents.
    Spawn,
    /// Skills, prompts and other files.
    Resources,
    /// Blocks that plugins show to the person.
    View,
}

/// Entry of one event in the generated reference.
#[derive(Clone, Debug, Serialize)]
pub struct EventDoc {
    /// Name of the event.
    pub name: &'static str,
    /// Phase of the event.
    pub phase: Phase,
    /// Name of the event's Rust type.
    pub rust: String,
    /// Rule that combines the handlers' answers.
    pub mode: String,
    /// Type of a handler's answer.
    pub reply: String,
    /// Effect of a failing handler on the emission.
    pub on_error: OnError,
    /// Whether emission stops when the run is cancelled.
    pub cancellable: bool,
    /// Default reach of a handler over an agent and its sub-agents.
    pub reach: Reach,
    /// Time limit of one handler in milliseconds; `None` for no limit.
    pub time_limit_ms: Option<u64>,
    /// Schema of the event's data; its description is the event's documentation.
    pub schema: Schema,
}

impl EventDoc {
    /// Returns the entry of the reference for `E`.
    #[must_use]
    pub fn of<E: Event + JsonSchema>(phase: Phase) -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = false;
        Self {
            name: E::NAME,
            phase,
            rust: short_type_name(type_name::<E>()),
            mode: short_type_name(type_name::<E::Mode>()),
            reply: short_type_name(type_name::<E::Reply>()),
            on_error: E::ON_ERROR,
            cancellable: E::CANCELLABLE,
            reach: E::REACH,
            time_limit_ms: E::TIME_LIMIT.map(|limit| limit.as_millis() as u64),
            schema: settings.into_generator().into_root_schema_for::<E>(),
        }
    }
}

/// Returns a type's name without its module path.
fn short_type_name(name: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() || c == '_' || c == ':' {
            word.push(c);
        } else {
            out.push_str(word.rsplit("::").next().unwrap_or(&word));
            word.clear();
            out.push(c);
        }
    }
    out.push_str(word.rsplit("::").next().unwrap_or(&word));
    out
}

macro_rules! catalogue {
    ($($phase:ident: $($event:ty),+;)+) => {
        /// Returns every event of this crate, ordered by phase.
        #[must_use]
        pub fn catalogue() -> Vec<EventDoc> {
            vec![$($(EventDoc::of::<$event>(Phase::$phase)),+),+]
        }
    };
}

catalogue! {
    Agent: AgentWarmUp, SystemSections, AgentBeforeStart, SystemBefore, AgentStart, AgentAbort, AgentDone, ModelSelect,
        ThinkingSelect, ModelsQuery, ModelsChanged, PartLeftOut, GoalChanged, GoalVerdict;
    Session: SessionLoaded, SessionStart, SessionMessages, SessionOpenTurn, SessionEntry, SessionBeforeEnd, SessionEnd, SessionSwitch, SessionBeforeSwitch, SessionBeforeFork,
        SessionBeforeTree, SessionTree, SessionBeforeCompact;
    Input: Input, UserBash;
    Turn: ContextTransform, ContextOverflow, ContextReduced, ContextCompaction, ContextFill, SystemTransform, PrefixBreak, HistoryRepaired, TurnBefore, MessageEnd, TurnAfter,
        UsageUpdate, SideCallEnd, SteerInject, OutputReady, BudgetExceeded, RunBudgetReached, ToolBudgetExceeded;
    Provider: ProviderRequest, ProviderPayload, ProviderResponse, ProviderReport, StreamIdle, ProviderRetry;
    Stream: StreamStart, StreamTransform, StreamText, StreamThinking, StreamToolArgs, ToolArgsRepaired,
        StreamProvider, StreamEnd;
    Tool: ToolsOffer, ToolsChanged, ToolBatch, ValidationReject, ValidationCoerce, ToolPrepare, ToolGate, PermissionRequest, PermissionDecided, ToolBlocked, ToolParked, ToolSkipped, ToolBegin,
        ToolBefore, ToolUnknown, ToolProgress, ToolRemark, ToolErrored, ToolTransform, ToolEnd, ToolAfter, ToolBatchEnd, ToolResultsAfter;
    Spawn: SpawnBefore, SpawnComplete, SpawnError;
    Resources: ResourcesDiscover, CwdChanged, FileChanged;
    View: ViewBlock;
}
