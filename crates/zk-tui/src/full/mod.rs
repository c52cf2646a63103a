//! The whole conversation on the alternate screen: own scrolling, search, jumps between prompts.

mod clipboard;
mod log;
mod paint;
mod scroll;
mod select;

pub(crate) use clipboard::copy_sequence;
pub(crate) use log::Log;
pub(crate) use paint::{ENTER, FullScreen, LEAVE};
pub(crate) use scroll::{Pager, PagerKey};
