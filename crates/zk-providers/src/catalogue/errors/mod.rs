//! Meaning of provider errors: their names, phrases and statuses, the wordings of a context overflow, and a
//! hint for each.

pub(crate) mod advice;
mod overflow;
pub(crate) mod quota;
mod table;

pub(crate) use overflow::{is_overflow, window};
pub(crate) use table::{NAMES, PHRASES, RETRYABLE_NAMES, STATUSES};
