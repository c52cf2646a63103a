//! Sizes of messages, and shorter forms of them.

pub(crate) mod count;
pub(crate) mod message_line;
pub(crate) mod short_results;
pub(crate) mod vocabulary;
pub(crate) mod word_overlap;
