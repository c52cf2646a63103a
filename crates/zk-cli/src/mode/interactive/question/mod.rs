//! Questions to the person at the terminal: how they look ([`zk_tui::Frame`]), which keys answer them ([`zk_tui::answer_keys`]),
//! and [`TerminalUi`], which puts both together.

mod terminal_ui;

pub(super) use terminal_ui::{FOLLOW_UP, TerminalUi, attend};
pub(super) use zk_tui::answer_keys::{AnswerKeys, Effect, LineFocus};
pub(super) use zk_tui::answer_keys::{Choice, Offer};
