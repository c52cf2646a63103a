//! The terminal of zk: inline, full and plain screens over the chat engine.
//!
//! On the inline screen what is closed is written once and scrolls away with the terminal's own scrolling, and what may still
//! change is redrawn below it; on the full screen all of the conversation is drawn; plain lines are never redrawn. [`App`]
//! draws the first two, and bytes to write come out as text; [`plain`] draws the third. Only [`term`] touches the terminal.
//!
//! | item | what it is |
//! |---|---|
//! | [`App`] | the whole screen: keys, patches and the time in, frames and actions out |
//! | [`Keymap`] | which keys do what |
//! | [`KeyDecoder`] | bytes of a terminal in, keys out |
//! | [`Modes`], [`Input`] | the terminal itself: its modes, always given back, and what is typed at it |
//! | [`Transcript`] | patches of a [`zk_view::View`] in, rows out: closed ones once, in order, and open ones |
//! | [`Markdown`] | an answer that arrives in pieces, as rows; its work depends on the open block alone |
//! | [`InlineScreen`] | rows in, the bytes of one frame out |
//! | [`Row`], [`Span`] | text that is safe on a terminal, by type |
//! | [`plain`] | a conversation in plain lines: painter, keyboard, line editor, questions |
//! | [`term`] | modes and keys of the terminal, text that is safe for it, what the environment says of it |
//! | [`ScreenKind`] | which of the screens a conversation is drawn on |
//!
//! # Example
//!
//! `cargo run -p zk-harness-tui --example answer`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/answer.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No tool and no plugin by name, no argument, no settings file, no exit code, no event. It knows `zk-core` and, of its siblings, `zk-view`.

mod app;
mod edit;
mod full;
mod inline;
mod keys;
mod markdown;
mod pick;
pub mod plain;
mod question;
mod row;
mod screen_kind;
pub mod term;
mod text;
mod transcript;
mod view;

pub use app::{Action, App, IsHarmless, Mask};
pub use edit::{DRAFT_PAUSE, DraftFiles, Drafts, KeptDrafts, LostDraft, Recall};
pub use inline::{Abilities, Caret, InlineScreen, Size};
pub use keys::{Direction, Key, KeyDecoder, Keymap};
pub use markdown::Markdown;
pub use pick::{
    Asked, Completer, Entry, EntryKey, Menu, MenuKey, MenuRow, Offered, message_rows, opens_picker,
};
pub use question::{CardLook, Frame, LineChoice, answer_keys};
pub use row::{Ground, Looks, Palette, PaletteError, PaletteFileError, Row, Span, Style, Theme, Tone};
pub use screen_kind::ScreenKind;
pub use term::{Input, Modes, NoticeForm, Queries, TerminalEnv, TerminalError, Typed};
pub use transcript::Transcript;
pub use view::{ModelFacts, Renderers, TableFences, dollars, sub_agent_state, thousands};
