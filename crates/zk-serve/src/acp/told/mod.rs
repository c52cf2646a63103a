//! Updates of a session for the editor, made of its view.

mod calls;
mod diff;
mod pump;
mod updates;

pub(super) use calls::{absolute, fenced, text_part};
pub(super) use diff::parts as diff_parts;
pub(super) use pump::{Order, Pump};
