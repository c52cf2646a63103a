//! The ways to run: once for a program or a pipe ([`headless`]), or as a conversation ([`conversation`]).

mod conversation;
mod goal_run;
mod headless;
mod leg;
mod prompt_command;
pub(crate) mod summary;
pub(crate) mod unattended;

use std::io::IsTerminal;

pub(crate) use conversation::{Launcher, print_shell_init, run_shell};
pub(crate) use leg::WorkerAgents;

use crate::app::AppContext;
use crate::args::{Prompt, Resume};
use crate::exit::{Exit, Failure, Outcome};

/// Whether a person at the terminal has a conversation, instead of a run without a person.
pub(crate) fn is_conversation(prompt: &Prompt) -> bool {
    !prompt.print && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Starts a conversation if a person is at the terminal and requested nothing else; otherwise a run without a
/// person.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    if is_conversation(&prompt) {
        if prompt.schema.is_some() {
            return Err(Failure::usage("--json-schema shapes the answer of one run: use it with --print"));
        }
        if prompt.goal.is_some() {
            return Err(Failure::usage(
                "--goal is for a run without a person: use it with --print, or /goal create --auto in a conversation",
            ));
        }
        conversation::run(app, prompt)
    } else if prompt.resume == Some(Resume::Choose) {
        Err(Failure::usage("--resume needs an ID where no terminal can list them; `zk sessions` does"))
    } else {
        headless::run(app, prompt)
    }
}
