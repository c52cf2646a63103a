use std::fmt;

use zk_args::{CompletionError, UsageError};
use zk_serve::print::RunEnding;
use zk_tui::TerminalError;
use zk_tui::plain::PipedInputError;

pub(crate) use zk_args::Exit;

/// Returns the end of the run for programs.
pub(crate) fn ending_of(exit: Exit) -> RunEnding {
    match exit {
        Exit::Done => RunEnding::Done,
        Exit::Denied => RunEnding::Denied,
        Exit::Auth => RunEnding::Auth,
        Exit::Limit => RunEnding::Limit,
        Exit::Failed
        | Exit::Usage
        | Exit::Interrupted
        | Exit::Terminated
        | Exit::BrokenPipe
        | Exit::OfShell(_) => RunEnding::Failed,
    }
}

impl From<zk_settings::SettingsError> for Failure {
    fn from(error: zk_settings::SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Failure of the program: a message for the person, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, message.to_string())
    }

    pub(crate) fn auth(message: impl Into<String>) -> Self {
        Self::new(Exit::Auth, message)
    }
}

impl Explain for PipedInputError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unusable(_) | Self::TooLong => Exit::Usage,
            Self::Failed => Exit::Failed,
        }
    }
}

impl Explain for UsageError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

impl Explain for CompletionError {
    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

impl From<TerminalError> for Failure {
    fn from(error: TerminalError) -> Self {
        Self::failed(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Message and exit code for an error of a library, with the flags, commands and settings of this program.
pub(crate) trait Explain: std::error::Error {
    /// Exit code for the error.
    fn exit(&self) -> Exit;

    /// Message for the person.
    fn explain(&self) -> String {
        self.to_string()
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.exit(), error.explain())
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;
