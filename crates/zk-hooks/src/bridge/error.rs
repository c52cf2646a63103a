use std::time::Duration;

/// Why a program gave no reply that counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// Nothing can start it.
    #[error(
        "`{program}` cannot be started: no plugin provides `Exec`; install one, such as `zk_exec::LocalPlugin`"
    )]
    NoExec {
        /// The program.
        program: String,
    },
    /// It could not be started.
    #[error("`{program}` cannot be started: {reason}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// It ended, or closed its input or output. It is started again with its plugin.
    #[error("`{program}` {how}{said}: start its plugin again once it is mended")]
    Ended {
        /// The program.
        program: String,
        /// How: `ended with exit code 1`.
        how: String,
        /// The end of what it printed to standard error; empty if it printed nothing.
        said: String,
    },
    /// It printed something that is no reply. It was ended, and is started again with its plugin.
    #[error("`{program}` printed what is no reply ({reason}): only replies may go to its standard output")]
    Garbage {
        /// The program.
        program: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It took too long.
    #[error("`{program}` gave no reply within {limit:?}")]
    TimedOut {
        /// The program.
        program: String,
        /// How long it was waited.
        limit: Duration,
    },
    /// The event is longer than a line may be.
    #[error("the event has {bytes} bytes, more than `{program}` can be sent in one line")]
    TooLong {
        /// The program.
        program: String,
        /// Its length.
        bytes: usize,
    },
    /// The event cannot be written as JSON.
    #[error("the event cannot be written for `{program}`: {reason}")]
    Unwritable {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// It says that it failed.
    #[error("`{program}` failed: {reason}")]
    Failed {
        /// The program.
        program: String,
        /// What it says.
        reason: String,
    },
    /// Its reply does not fit the event.
    #[error("`{program}` gave a reply that `{event}` does not take: {reason}")]
    Reply {
        /// The program.
        program: String,
        /// The event.
        event: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The plugin is being closed.
    #[error("`{program}` is being ended")]
    Closing {
        /// The program.
        program: String,
    },
}
