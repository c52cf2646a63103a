//! The vocabulary every crate shares: ids, messages and their blocks, models, usage, errors, and the one door
//! to the wire.
//!
//! Names in a history are canonical; the names a model sees (aliases) exist only between
//! [`WireReady`] and a provider's adapter.

mod address;
mod approved;
#[cfg(feature = "typed")]
mod arg_schema;
mod budget;
mod call_kind;
mod content;
mod effects;
mod error;
mod finish;
mod ids;
mod message;
pub(crate) mod millis;
mod models;
mod prices;
mod size;
mod thinking;
mod tool;
mod usage;
pub mod wire;

pub use address::is_public_address;
pub use approved::{Approved, CallRef};
#[cfg(feature = "typed")]
pub use arg_schema::schema_of;
pub use budget::{Budget, Spent};
pub use call_kind::{CallKind, CallLocation};
pub use content::{
    Block, Compaction, Document, Image, ProviderBlock, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};
pub use effects::{Effect, Effects};
pub use error::{AgentError, ErrorKind, Phase, ProviderError};
pub use finish::StopReason;
pub use ids::{AgentId, CallId, EntryId, MessageId, RunId, SessionId, TurnId};
pub use message::{Message, Role};
pub use models::{Capabilities, Model, ModelRef, ThinkingSupport};
pub use prices::{PriceTier, Prices, Rates};
pub use size::context_size;
pub use thinking::{ThinkingLevel, ThinkingRequest};
pub use tool::{
    CommandExit, Concurrency, Disclosure, Display, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
    output_bytes,
};
pub use usage::{ModelStats, Stats, TurnUsage, Usage};
pub use wire::{IdRule, MediaTypes, ThinkingReplay, WireReady, WireRules};
