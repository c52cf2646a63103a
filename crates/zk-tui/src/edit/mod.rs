//! What is being typed.

mod buffer;
mod history;

pub(crate) use buffer::Buffer;
pub(crate) use history::History;
