//! The terminal of zk: an inline screen over the chat engine.
//!
//! What is closed is written once and scrolls away with the terminal's own scrolling; what may still change is redrawn
//! below it. Everything here is data and text: bytes to write come out, and nothing reads or writes by itself but
//! what its name says.
//!
//! | item | what it is |
//! |---|---|
//! | [`Transcript`] | patches of a [`zk_view::View`] in, rows out: closed ones once, in order, and open ones |
//! | [`Markdown`] | an answer that arrives in pieces, as rows; its work depends on the open block alone |
//! | [`InlineScreen`] | rows in, the bytes of one frame out |
//! | [`Row`], [`Span`] | text that is safe on a terminal, by type |
//!
//! # What this crate must never know
//!
//! No tool and no plugin by name, no settings, no event. It knows `zk-core` and, of its siblings, `zk-view`.

mod markdown;
mod paint;
mod row;
mod style;
mod text;
mod transcript;
mod view;

pub use markdown::Markdown;
pub use paint::{Abilities, Caret, InlineScreen, Size};
pub use row::{Looks, Row, Span};
pub use style::{Style, Tone};
pub use transcript::Transcript;
