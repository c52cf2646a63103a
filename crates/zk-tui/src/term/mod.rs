//! The terminal itself: its modes, what is typed at it, and what is known of it.

mod env;
mod error;
mod input;
mod known;
mod modes;
mod notice;
mod suspend;

pub use env::TerminalEnv;
pub use error::TerminalError;
pub use input::{Input, Typed};
pub(crate) use known::KnownTerminal;
pub use modes::{Modes, Queries};
pub use notice::Notices;
pub(crate) use notice::notice_sequence;
pub use suspend::stop_process;
