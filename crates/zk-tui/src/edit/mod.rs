//! Text that is being typed.

mod buffer;
mod history;
mod vim;

pub(crate) use buffer::Buffer;
pub(crate) use history::History;
pub use history::Recall;
pub(crate) use vim::Vim;
