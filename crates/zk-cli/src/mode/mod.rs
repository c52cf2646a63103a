//! The ways to run: once for a program or a pipe ([`headless`]), or as a conversation ([`interactive`]).

mod countdown;
mod denials;
mod headless;
mod interactive;
pub(crate) mod notes;
pub(crate) mod show;

use std::io::IsTerminal;

use crate::app::Ground;
use crate::args::Prompt;
use crate::exit::{Exit, Outcome};
use crate::stdin;

/// A conversation if a person is at both ends of a terminal and did not ask for less.
pub(crate) fn run(ground: &Ground, prompt: Prompt) -> Outcome<Exit> {
    if !prompt.print && stdin::is_terminal() && std::io::stdout().is_terminal() {
        interactive::run(ground, prompt)
    } else {
        headless::run(ground, prompt)
    }
}
