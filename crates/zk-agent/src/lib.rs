//! The agent loop of zk.
//!
//! An [`Agent`] owns a conversation; a [`Run`] is everything that one prompt causes: turns with a model, tool
//! calls, steering, the end. The [`Machine`] decides on the next step; it does no I/O and can be driven by
//! hand.
//!
//! ```no_run
//! # async fn demo(provider: std::sync::Arc<dyn zk_core::service::Provider>) -> Result<(), zk_core::model::AgentError> {
//! use zk_agent::Agent;
//!
//! let agent = Agent::builder(provider).model_id("some-model").system("Be brief.").build()?;
//! let outcome = agent.run("What is in this directory?")?.wait().await;
//! outcome.result?;
//! println!("{}", outcome.text);
//! # Ok(())
//! # }
//! ```
//!
//! Tools that only read need nothing more. All others need a decision on their calls: by a gate, such as the
//! `PermissionGate` of `zk-permission`, or by a host that calls [`unguarded`](AgentBuilder::unguarded).
//! Without either, [`build`](AgentBuilder::build) rejects them.
//!
//! # What this crate must never know
//!
//! No provider's wire format, no file, no process, no terminal and no store belongs here. This crate uses
//! providers and tools through the traits of `zk-core`, and all its effects pass through events.

mod agent;
mod budget;
mod context;
mod gates;
mod lock;
mod parts;
mod retry;
mod run;
mod spawn;
mod tools;
mod turn;

#[cfg(feature = "settings")]
pub use agent::settings;
pub use agent::transcript;
pub use agent::{
    Agent, AgentBuilder, AgentConversation, AgentCounts, Behavior, BudgetRule, DedupKey, OnExceed,
    OutputBudget, Preset, RunOptions, ThinkingDecay, ToolBudget, ToolSet, Verdict,
};
pub use context::{GUIDE_SECTION, IDENTITY_SECTION, SectionText, section_texts};
pub use parts::{ConfiguredParts, PartOpener};
pub use retry::{RateLimits, RetryPolicy, Retrying};
pub use run::{
    ErrorFormatter, Machine, Next, QueueMode, Run, RunEvent, RunEvents, RunHandle, RunOutcome, RunStream,
    RunText, RunUpdate, RunUpdates, Seen, Stop,
};
pub use spawn::{
    AgentDefinition, Delegation, IsolationKind, SpawnOptions, SubagentError, SubagentInfo, SubagentState,
    Subagents,
};
