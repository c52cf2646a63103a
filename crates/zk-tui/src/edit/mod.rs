//! Editing of text.

mod buffer;
mod drafts;
mod history;
mod vim;

pub(crate) use buffer::Buffer;
pub use drafts::{DRAFT_PAUSE, DraftFiles, Drafts, KeptDrafts, LostDraft};
pub(crate) use history::History;
pub use history::Recall;
pub(crate) use vim::Vim;
