use std::time::Duration;

/// Reason why a command hook gave no answer that counts. Each names its command, cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFailure {
    /// The hook is of a kind that zk cannot run.
    #[error("the hook `{command}` cannot be run: {why}")]
    Unusable {
        /// The command.
        command: String,
        /// Cause, in words.
        why: String,
    },
    /// Nothing can start it.
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
    /// The command took too long and was ended.
    #[error("the hook `{command}` did not end within {limit:?}; `timeout` gives it more seconds")]
    TimedOut {
        /// The command.
        command: String,
        /// Time that was waited.
        limit: Duration,
    },
    /// The command ended in a way that is no answer.
    #[error("the hook `{command}` {how}{said}")]
    Ended {
        /// The command.
        command: String,
        /// Manner of its end: `ended with exit code 1`.
        how: String,
        /// The end of what it printed to standard error, in brackets; empty if it printed nothing.
        said: String,
    },
    /// The output is no answer.
    #[error("the hook `{command}` printed what is no answer: {why}")]
    Garbage {
        /// The command.
        command: String,
        /// Fault of the output, in words.
        why: String,
    },
    /// The answer does not go together with that of another one.
    #[error("the hook `{command}` and another one change the input of the call differently")]
    Conflict {
        /// The command.
        command: String,
    },
}
