//! The catalogue: every point in an agent's life, by phase, in the order it is reached.
//!
//! A run: `input` → `session:start` → `system:sections`? → `agent:before-start` → `session:messages` (the
//! prompt) → `system:before` → `agent:start` → turns → `agent:done` → `session:end`.
//!
//! A turn: `tools:offer`? → `tools:changed`? → `context:transform` (in it `context:compaction`, `context:reduced`,
//! `context:fill`) → `system:transform` → `provider:request` → `turn:before` → `provider:payload` →
//! `provider:response` → `stream:*` → `stream:end` (only if there was text) → `message:end` → `turn:after`
//! (always) → the tool calls → `tool-results:after` or `session:messages` → `usage`. A request that does not
//! fit the window: `context:overflow` → `context:transform` → `context:reduced`? → `system:transform` →
//! `provider:request` → `provider:payload` …
//!
//! An answer with tool calls: `session:open-turn`, before any of them.
//!
//! A tool call: `validation:reject` | `validation:coerce`? → `tool:prepare` → `tool:gate` (in it
//! `permission:decided`) → (`tool:blocked` | `tool:parked` | substituted | counted) → `tool:begin` →
//! `tool:before` or `tool:unknown` → `tool:progress` → `tool:error`? → `tool:transform` → `tool:end` →
//! `tool:after`.
//!
//! Anywhere: `view:block`, by which a plugin shows something to the person.
//!
//! The reference with every field is generated from this module into `docs/reference/events.md`.

#[cfg(feature = "schema")]
mod catalogue;
mod context;
mod goal;
mod input;
mod models;
mod part;
mod provider;
mod resources;
mod run;
mod session;
mod spawn;
mod stream;
mod tool;
mod turn;
mod view;

#[cfg(feature = "schema")]
pub use catalogue::{EventDoc, Phase, catalogue};
pub use context::{
    CompactionStage, CompactionTrigger, ContextCompaction, ContextFill, ContextOverflow, ContextReduced,
    ContextTransform, Rewrite,
};
pub use goal::{GoalChanged, GoalState, GoalVerdict};
pub use input::{BashOutput, Input, InputReply, UserBash};
pub use models::{ListingFailed, ModelsCause, ModelsChanged, ModelsQuery, ModelsReply};
pub use part::{PartKind, PartLeftOut};
pub use provider::{
    ProviderPayload, ProviderReport, ProviderRequest, ProviderResponse, ProviderRetry, RequestPatch,
    StreamIdle,
};
pub use resources::{CwdChanged, FileChange, FileChanged, Resources, ResourcesDiscover};
pub use run::{
    AgentAbort, AgentBeforeStart, AgentDone, AgentStart, AgentWarmUp, BeforeStart, Cause, ModelSelect,
    SectionSize, SystemBefore, SystemSections, ThinkingSelect,
};
pub use session::{
    MessagesCause, NotASummary, SessionBeforeCompact, SessionBeforeEnd, SessionBeforeFork,
    SessionBeforeReply, SessionBeforeSwitch, SessionBeforeTree, SessionEnd, SessionEntry, SessionLoaded,
    SessionMessages, SessionOpenTurn, SessionStart, SessionSwitch, SessionTree,
};
pub use spawn::{SpawnBefore, SpawnComplete, SpawnError};
pub use stream::{
    StreamEnd, StreamProvider, StreamStart, StreamText, StreamThinking, StreamToolArgs, StreamTransform,
    ToolArgsRepaired,
};
pub use tool::{
    CallGroup, CallRef, Coercion, DecidedBy, Decision, EndedCall, GateDecision, Offer, OutcomeCounts,
    PermissionDecided, PermissionReply, PermissionRequest, ResultPatch, Ruling, ToolAfter, ToolBatch,
    ToolBatchEnd, ToolBefore, ToolBegin, ToolBlocked, ToolChange, ToolChangeKind, ToolEnd, ToolErrored,
    ToolGate, ToolLeftOut, ToolParked, ToolPrepare, ToolProgress, ToolRemark, ToolResultsAfter, ToolSkipped,
    ToolTransform, ToolUnknown, ToolsChanged, ToolsOffer, UnknownReply, ValidationCoerce, ValidationReject,
};
pub use turn::{
    BudgetExceeded, BudgetMode, BudgetOutcome, HistoryRepaired, MessageEnd, OutputReady, PrefixBreak,
    PrefixCause, PrefixPart, RunBudgetReached, SideCallEnd, SteerInject, SteerKind, SystemTransform,
    ToolBudgetExceeded, TurnAfter, TurnBefore, UsageUpdate,
};
pub use view::ViewBlock;

/// Version of the events' JSON form, as `stream-json` prints it. The minor part grows with each addition, the
/// major part with each incompatible change.
pub const EVENTS_VERSION: &str = "1.20";

/// Time limit of one observer's handler, which the run waits for.
const WATCHER_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// Declares an event that observers see and cannot answer.
macro_rules! notify {
    ($event:ty, $name:literal $(, $item:ident = $value:expr)*) => {
        impl $crate::kernel::Event for $event {
            const NAME: &'static str = $name;
            const TIME_LIMIT: Option<std::time::Duration> = Some($crate::events::WATCHER_LIMIT);
            $(const $item: notify!(@ $item) = $value;)*
            type Reply = ();
            type Mode = $crate::kernel::Notify;
        }
    };
    (@ ON_ERROR) => { $crate::kernel::OnError };
    (@ CANCELLABLE) => { bool };
    (@ REACH) => { $crate::kernel::Reach };
}
use notify;
