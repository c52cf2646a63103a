//! The agent loop of zk.
//!
//! An [`Agent`] owns a conversation; a [`Run`] is everything one prompt causes: turns with a model, tool
//! calls, steering, the end. What happens next is decided by the [`Machine`], which does no I/O and can be
//! driven by hand.
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
//! Tools that only read need nothing more. For all others somebody has to decide on their calls: a gate, such as
//! the `PermissionGate` of `zk-permission`, or a host that says [`unguarded`](AgentBuilder::unguarded). Without either,
//! [`build`](AgentBuilder::build) refuses them.
//!
//! # What this crate must never know
//!
//! No provider's wire format, no file, no process, no terminal, no store. It sees providers and tools through
//! the traits of `zk-core`, and everything it does passes through events.

mod accounts;
mod agent;
mod answer;
mod budget;
mod builder;
mod busy;
mod commit;
mod control;
mod conversation;
mod counts;
mod driver;
mod error_formatter;
mod gates;
mod machine;
mod models;
mod options;
mod output;
mod overflow;
mod pipe;
mod prefix_guard;
mod prepare;
mod preset;
mod prompt;
mod request;
mod retry;
mod run;
mod sampling;
mod sections;
mod shared;
mod spawn;
mod steer;
mod stop;
mod thinking;
mod tools;
mod turn;

pub use agent::Agent;
pub use builder::AgentBuilder;
pub use conversation::AgentConversation;
pub use counts::AgentCounts;
pub use error_formatter::ErrorFormatter;
pub use machine::{Machine, Next, Seen, Stop};
#[cfg(feature = "settings")]
pub use options::settings;
pub use options::{
    Behavior, BudgetRule, DedupKey, OnExceed, OutputBudget, RunOptions, ThinkingDecay, ToolBudget, ToolSet,
    Verdict,
};
pub use preset::Preset;
pub use retry::{RateLimits, RetryPolicy, Retrying};
pub use run::{Run, RunEvent, RunEvents, RunHandle, RunOutcome, RunStream, RunText, RunUpdate, RunUpdates};
pub use sections::{GUIDE_SECTION, IDENTITY_SECTION, SectionText, section_texts};
pub use spawn::{AgentDefinition, SpawnOptions};
pub use steer::QueueMode;
