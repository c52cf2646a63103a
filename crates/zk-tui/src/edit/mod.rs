//! What is being typed.

mod buffer;
mod history;
mod vim;

pub(crate) use buffer::Buffer;
pub(crate) use history::History;
pub(crate) use vim::Vim;
