//! The terminal itself: its modes, what is typed at it, and what is known of it.

mod input;
mod known;
mod modes;
mod notice;

pub use input::{Input, Typed};
pub(crate) use known::KnownTerminal;
pub use modes::{Modes, Queries};
pub use notice::Notices;
pub(crate) use notice::notice_sequence;
