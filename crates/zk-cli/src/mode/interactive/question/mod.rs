//! Questions to the person at the terminal: how they look ([`frame`]), which keys answer them ([`answer_keys`]), and
//! [`TerminalUi`], which puts both together.

mod answer_keys;
mod frame;
mod terminal_ui;

pub(super) use answer_keys::{AnswerKeys, Choice, DEAF, Effect, Offer};
pub(super) use terminal_ui::{TerminalUi, attend};
