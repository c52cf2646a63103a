//! Differences between servers of Chat Completions: one data profile for each kind.

mod patterns;
mod profile;
mod table;

pub use patterns::{ModelPattern, PatternError};
pub(crate) use patterns::{Patterns, Traits};
pub(crate) use profile::UNKNOWN;
pub use profile::{
    CacheMarks, CompatProfile, EchoRule, EmptyContent, FieldValue, FixedField, JsonSchemas, ReasoningEcho,
    ReasoningFormat, SystemRole, ToolChoices,
};
pub use table::PROFILES;
pub(crate) use table::REFERENCE;
