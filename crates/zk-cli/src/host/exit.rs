use std::fmt;
use std::process::ExitCode;

use zk_core::kernel::EmitError;
use zk_core::model::{AgentError, ErrorKind};
use zk_serve::print::RunEnding;
use zk_tui::TerminalError;
use zk_tui::plain::PipedInputError;

/// Exit code of the program, as documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: the run succeeded.
    Done,
    /// 1: the run failed.
    Failed,
    /// 2: the command line or a settings file is invalid.
    Usage,
    /// 3: a limit of the run was reached.
    Limit,
    /// 4: the key is missing, or the provider rejected it.
    Auth,
    /// 5: the run ended after every call of its last step was refused.
    Denied,
    /// 130: stopped by SIGINT.
    Interrupted,
    /// 141: the reader of the output closed it, as a shell reports SIGPIPE.
    BrokenPipe,
    /// 143: stopped by SIGTERM.
    Terminated,
    /// Exit code of the shell that `zk shell` ran.
    OfShell(u8),
}

/// Exit codes with what they mean to a reader of the documentation.
const MEANINGS: [(Exit, &str); 9] = [
    (Exit::Done, "done"),
    (Exit::Failed, "the run failed"),
    (Exit::Usage, "wrong usage: the command line or a settings file makes no sense"),
    (Exit::Limit, "a turn or budget limit, or the same call failed five times in a row"),
    (Exit::Auth, "no key, or one that is not accepted"),
    (Exit::Denied, "every call of the last step that had calls was refused, or one waits for approval"),
    (Exit::Interrupted, "stopped by SIGINT, such as Ctrl-C"),
    (Exit::BrokenPipe, "the reader of the output went away; the run was stopped"),
    (Exit::Terminated, "stopped by SIGTERM"),
];

/// Exit codes for the help of the program.
pub(crate) fn help() -> String {
    let row = |(exit, meaning): &(Exit, &str)| format!("\n  {:>3}  {meaning}", exit.code());
    format!("Exit codes:{}", MEANINGS.iter().map(row).collect::<String>())
}

/// Reference page of the exit codes.
pub(crate) fn reference() -> String {
    let rows: String =
        MEANINGS.iter().map(|(exit, meaning)| format!("| {} | {meaning} |\n", exit.code())).collect();
    format!(
        "# Exit codes\n\nHow a command of zk ended. Generated from the code by `cargo xtask docs`; do not edit.\n\n\
         | exit code | meaning |\n|---|---|\n{rows}"
    )
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
            Self::OfShell(code) => code,
        }
    }

    /// Returns the end of the run for programs.
    pub(crate) fn ending(self) -> RunEnding {
        match self {
            Self::Done => RunEnding::Done,
            Self::Denied => RunEnding::Denied,
            Self::Auth => RunEnding::Auth,
            Self::Limit => RunEnding::Limit,
            Self::Failed
            | Self::Usage
            | Self::Interrupted
            | Self::Terminated
            | Self::BrokenPipe
            | Self::OfShell(_) => RunEnding::Failed,
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
            | AgentError::HandedOver
            | AgentError::Fenced
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

/// Describes an error of a library with flags, commands and settings of this program, which the library does
/// not know.
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
