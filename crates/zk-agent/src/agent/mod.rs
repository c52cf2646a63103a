//! The agent: builder, handle, options, and its conversation for front-ends.

mod branch_summary;
mod builder;
mod busy;
mod conversation;
mod counts;
mod handle;
mod inner;
mod models;
mod options;
mod prepare;
mod preset;

pub use branch_summary::transcript;
pub use builder::AgentBuilder;
pub use conversation::AgentConversation;
pub use counts::AgentCounts;
pub use handle::Agent;
#[cfg(feature = "settings")]
pub use options::settings;
pub use options::{
    Behavior, BudgetRule, DedupKey, OnExceed, OutputBudget, RunOptions, ThinkingDecay, ToolBudget, ToolSet,
    Verdict,
};
pub use preset::Preset;

pub(crate) use inner::{AgentInner, AgentState, Config};
