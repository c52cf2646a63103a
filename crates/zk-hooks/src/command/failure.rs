use std::time::Duration;

/// Reason why a command hook gave no valid answer. Commands are quoted in shortened form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFailure {
    /// zk cannot run hooks of this type.
    #[error("the hook `{command}` cannot be run: {why}")]
    Unusable {
        /// The command.
        command: String,
        /// Cause, in words.
        why: String,
    },
    /// There is no service that starts commands.
    #[error(
        "the hook `{command}` cannot be started: no plugin provides `Exec`; install one, such as `zk_exec::LocalPlugin`"
    )]
    NoExec {
        /// The command.
        command: String,
    },
    /// The command could not be started.
    #[error("the hook `{command}` cannot be started: {why}")]
    Start {
        /// The command.
        command: String,
        /// Cause, in words.
        why: String,
    },
    /// The command exceeded its time limit and was killed.
    #[error("the hook `{command}` did not end within {limit:?}; `timeout` gives it more seconds")]
    TimedOut {
        /// The command.
        command: String,
        /// Time limit.
        limit: Duration,
    },
    /// The command ended with an exit code that no hook answers with, or by a signal.
    #[error("the hook `{command}` {how}{said}")]
    Ended {
        /// The command.
        command: String,
        /// Description of the end: `ended with exit code 1`.
        how: String,
        /// End of standard error, in brackets; empty if there was none.
        said: String,
    },
    /// The output is no valid answer.
    #[error("the hook `{command}` printed what is no answer: {why}")]
    Garbage {
        /// The command.
        command: String,
        /// Error in the output, in words.
        why: String,
    },
    /// The answer contradicts another hook's answer.
    #[error("the hook `{command}` and another one change the input of the call differently")]
    Conflict {
        /// The command.
        command: String,
    },
}
