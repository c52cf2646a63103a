//! Conversation with a person on the terminal, and the exit codes of its errors.

mod factory;
mod launcher;
mod models;
mod sessions;
mod shell;
mod trust_question;

use std::sync::Arc;

use self::factory::ChatFactory;
pub(crate) use self::launcher::Launcher;
pub(crate) use self::shell::{print_init as print_shell_init, run as run_shell};
use crate::app::AppContext;
use crate::args::{Prompt, Resume};
use crate::commands;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use zk_chat::{self, ChatEnd, ChatError, ChatStart, Interrupts};

/// Runs a conversation on the terminal.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let Prompt { text, resume, .. } = prompt;
    let start = ChatStart { prompt: text, chooses_session: resume == Some(Resume::Choose) };
    let factory = Arc::new(ChatFactory::new(app.clone(), resume).keep_choices(true));
    let ended = zk_chat::run(factory, start, |leave| {
        signals::watch(leave).map(|signals| Arc::new(signals) as Arc<dyn Interrupts>)
    });
    Ok(match ended? {
        ChatEnd::Done => Exit::Done,
        ChatEnd::Demo => return commands::demo(app, false),
        ChatEnd::Failed => Exit::Failed,
        ChatEnd::Terminated => Exit::Terminated,
    })
}

impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Self {
        let exit = match error {
            // An error of this program knows its exit code.
            ChatError::Factory(error) | ChatError::NoAccess(error) => {
                return match error.downcast::<Self>() {
                    Ok(failure) => *failure,
                    Err(error) => Self::failed(error),
                };
            }
            ChatError::StoppedOpening | ChatError::Stopped => Exit::Interrupted,
            ChatError::Terminated => Exit::Terminated,
            ChatError::Terminal(_)
            | ChatError::TerminalAfterStop(_)
            | ChatError::LineEditor(_)
            | ChatError::Runtime(_) => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<Failure> for ChatError {
    fn from(failure: Failure) -> Self {
        match failure.exit {
            Exit::Auth => Self::NoAccess(failure.into()),
            _ => Self::Factory(failure.into()),
        }
    }
}
