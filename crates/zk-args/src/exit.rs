use std::process::ExitCode;

use zk_core::kernel::EmitError;
use zk_core::model::{AgentError, ErrorKind};

/// Exit code of the program, as documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
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
pub fn reference() -> String {
    let rows: String =
        MEANINGS.iter().map(|(exit, meaning)| format!("| {} | {meaning} |\n", exit.code())).collect();
    format!(
        "# Exit codes\n\nHow a command of zk ended. Generated from the code by `cargo xtask docs`; do not edit.\n\n\
         | exit code | meaning |\n|---|---|\n{rows}"
    )
}

impl Exit {
    /// Returns the code that the process ends with.
    pub fn code(self) -> u8 {
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

    /// Returns the exit code for an error of a run. A stopped run is `Failed` here; whoever stopped it knows
    /// better.
    pub fn of(error: &AgentError) -> Self {
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
            | AgentError::AwaitsTime { .. }
            | AgentError::HandedOver
            | AgentError::AwaitsChildren { .. }
            | AgentError::Fenced
            | AgentError::StoreFailed { .. }
            | AgentError::Output(_) => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
