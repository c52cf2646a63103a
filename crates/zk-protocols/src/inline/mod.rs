//! Protocol `inline`: tools as text of the system prompt, calls as text of the answer, results as text of the user.

mod constrained;
mod describe;
mod extract;
mod fence;
mod history;
mod stream;

pub use extract::{
    CallExtractor, CallFormat, CallPiece, CallReader, EXTRACT_CALLS, ExtractedCall, FencedCalls,
};

pub(crate) use constrained::union_schema;
pub(crate) use describe::describe;
pub(crate) use history::as_text;
pub(crate) use stream::InlineAnswer;

/// Info string of the fence around a call.
pub(crate) const CALL_FENCE: &str = "tool_call";
/// Name of a call that names no tool.
pub(crate) const NAMELESS_CALL: &str = "tool_call";
