use std::time::Duration;

/// Why a command hook gave no answer that counts. Each names its command, cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFailure {
    /// It is of a kind that zk cannot run.
    #[error("the hook `{command}` cannot be run: {why}")]
    Unusable {
        /// The command.
        command: String,
        /// Why.
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
    /// It could not be started.
    #[error("the hook `{command}` cannot be started: {why}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        why: String,
    },
    /// It took too long and was ended.
    #[error("the hook `{command}` did not end within {limit:?}; `timeout` gives it more seconds")]
    TimedOut {
        /// The command.
        command: String,
        /// How long it was waited.
        limit: Duration,
    },
    /// It ended in a way that is no answer.
    #[error("the hook `{command}` {how}{said}")]
    Ended {
        /// The command.
        command: String,
        /// How: `ended with exit code 1`.
        how: String,
        /// The end of what it printed to standard error, in brackets; empty if it printed nothing.
        said: String,
    },
    /// What it printed is no answer.
    #[error("the hook `{command}` printed what is no answer: {why}")]
    Garbage {
        /// The command.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// Its answer does not go together with that of another one.
    #[error("the hook `{command}` and another one change the input of the call differently")]
    Conflict {
        /// The command.
        command: String,
    },
}
