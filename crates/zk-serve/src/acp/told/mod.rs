//! What the editor is told of a session: its view as updates.

mod calls;
mod diff;
mod pump;
mod updates;

pub(super) use calls::{absolute, fenced, text_part};
pub(super) use diff::parts as diff_parts;
pub(super) use pump::{Order, Pump};
