use std::fmt;
use std::process::ExitCode;

use zk_core::kernel::EmitError;
use zk_core::model::{AgentError, ErrorKind};
use zk_serve::print::RunEnding;
use zk_tui::TerminalError;

/// End of the program: the documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: the run did what it was asked.
    Done,
    /// 1: the run failed.
    Failed,
    /// 2: the command line or a settings file makes no sense.
    Usage,
    /// 3: a limit of the run was reached.
    Limit,
    /// 4: there is no key, or the provider does not accept it.
    Auth,
    /// 5: the run ended after every call of its last step was refused.
    Denied,
    /// 130: stopped by SIGINT.
    Interrupted,
    /// 141: the reader of the output went away, as a shell reports SIGPIPE.
    BrokenPipe,
    /// 143: stopped by SIGTERM.
    Terminated,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Limit => 3,
            Self::Auth => 4,
            Self::Denied => 5,
            Self::Interrupted => 130,
            Self::BrokenPipe => 141,
            Self::Terminated => 143,
        }
    }

    /// Returns the end of the run for programs.
    pub(crate) fn ending(self) -> RunEnding {
        match self {
            Self::Done => RunEnding::Done,
            Self::Denied => RunEnding::Denied,
            Self::Auth => RunEnding::Auth,
            Self::Limit => RunEnding::Limit,
            Self::Failed | Self::Usage | Self::Interrupted | Self::Terminated | Self::BrokenPipe => {
                RunEnding::Failed
            }
        }
    }

    /// Returns the exit code for an error of a run. A stopped run is `Failed` here; whoever stopped it knows
    /// better.
    pub(crate) fn of(error: &AgentError) -> Self {
        match error {
            AgentError::Provider(error) | AgentError::ContextExceeded(error)
                if error.kind == ErrorKind::Auth =>
            {
                Self::Auth
            }
            AgentError::TurnLimit { .. } | AgentError::Budget { .. } | AgentError::Stuck { .. } => {
                Self::Limit
            }
            AgentError::Parked { .. } => Self::Denied,
            AgentError::Unguarded { .. } | AgentError::Usage(_) => Self::Usage,
            AgentError::Hook(EmitError::Hook(_) | EmitError::Cancelled { .. })
            | AgentError::Provider(_)
            | AgentError::ContextExceeded(_)
            | AgentError::Aborted
            | AgentError::Output(_) => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

impl From<zk_settings::SettingsError> for Failure {
    fn from(error: zk_settings::SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Failure to do what the program was asked: the message for the person, and the exit code.
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

/// Error of a library, in the words of this program: with the flags, commands and settings that lead on, which no library
/// names.
pub(crate) trait Explain: std::error::Error {
    /// The exit code it leads to.
    fn exit(&self) -> Exit;

    /// The message for the person.
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
