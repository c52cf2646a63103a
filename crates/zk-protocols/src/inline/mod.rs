//! Protocol `inline`: tools as text of the system prompt, calls as text of the answer, results as text of the user.

mod constrained;
mod describe;
mod extract;
mod fence;
mod history;
mod stream;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

pub use extract::{
    CallExtractor, CallFormat, CallPiece, CallReader, EXTRACT_CALLS, ExtractedCall, FencedCalls,
};

pub(crate) use constrained::union_schema;
pub(crate) use describe::describe;
pub(crate) use history::as_text;
pub(crate) use stream::InlineAnswer;

/// Beginning of the info string of the fence around a call; the mark of the conversation follows.
const CALL_FENCE: &str = "tool_call";

/// Returns the info string of calls with this mark.
pub(crate) fn call_info(mark: &str) -> Arc<str> {
    format!("{CALL_FENCE}-{mark}").into()
}

/// Returns a random nonce for the info string of call fences.
pub(crate) fn fresh_mark() -> String {
    // `RandomState` is seeded at random.
    format!("{:04x}", RandomState::new().build_hasher().finish() & 0xffff)
}

/// Name of a call that names no tool.
pub(crate) const NAMELESS_CALL: &str = "tool_call";
