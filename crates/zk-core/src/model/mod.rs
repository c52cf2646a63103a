//! The types that all crates share: ids, messages and their blocks, models, usage, errors, and [`WireReady`],
//! the only form of a history that can be sent.
//!
//! Names in a history are canonical. Aliases, the names that a model sees, exist only between [`WireReady`]
//! and a provider's adapter.

mod address;
mod budget;
mod content;
mod diff;
mod error;
mod finish;
mod ids;
mod message;
pub(crate) mod millis;
mod models;
mod size;
mod tool;
mod usage;
mod utc_time;
pub mod wire;

pub use address::{is_public_address, public_parts};
pub use budget::{Budget, Spent};
pub use content::{
    Block, Compaction, Document, Image, ProviderBlock, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};
pub use diff::UnifiedDiff;
pub use error::{AgentError, ErrorKind, Phase, ProviderError};
pub use finish::StopReason;
pub use ids::{AgentId, CallId, EntryId, MailId, MessageId, RunId, SessionId, TurnId};
pub use message::{MENTIONED_BY, Message, Role, TYPED_DURING_RUN};
pub use models::{
    Capabilities, Model, ModelRef, PriceTier, Prices, Rates, ThinkingLevel, ThinkingRequest, ThinkingSupport,
    ToolProtocol,
};
pub use size::context_size;
#[cfg(feature = "typed")]
pub use tool::schema_of;
pub use tool::{
    Approved, CallKind, CallLocation, CallRef, CheckItem, CheckState, CommandExit, Concurrency, Disclosure,
    Display, Effect, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec, output_bytes,
};
pub use usage::{ModelStats, Spending, Stats, TurnUsage, Usage};
pub use utc_time::utc_time;
pub use wire::{IdRule, MediaTypes, ThinkingReplay, WireReady, WireRules};
