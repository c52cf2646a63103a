use std::time::Duration;

/// Reason why a program gave no reply that counts.
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
    /// The program could not be started.
    #[error("`{program}` cannot be started: {reason}")]
    Start {
        /// The program.
        program: String,
        /// Cause, in words.
        reason: String,
    },
    /// The program ended, or closed its input or output. It is started again with its plugin.
    #[error("`{program}` {how}{said}: start its plugin again once it is mended")]
    Ended {
        /// The program.
        program: String,
        /// Manner of its end: `ended with exit code 1`.
        how: String,
        /// The end of what it printed to standard error; empty if it printed nothing.
        said: String,
    },
    /// The program printed something that is no reply. It was ended, and is started again with its plugin.
    #[error("`{program}` printed what is no reply ({reason}): only replies may go to its standard output")]
    Garbage {
        /// The program that printed the line.
        program: String,
        /// Fault of the line, in words.
        reason: String,
    },
    /// The reply took too long.
    #[error("`{program}` gave no reply within {limit:?}")]
    TimedOut {
        /// The program.
        program: String,
        /// Time that was waited.
        limit: Duration,
    },
    /// The event is longer than a line may be.
    #[error("the event has {bytes} bytes, more than `{program}` can be sent in one line")]
    TooLong {
        /// The program.
        program: String,
        /// Length of the event, in bytes.
        bytes: usize,
    },
    /// The event cannot be written as JSON.
    #[error("the event cannot be written for `{program}`: {reason}")]
    Unwritable {
        /// The program.
        program: String,
        /// Cause, in words.
        reason: String,
    },
    /// The program says that it failed.
    #[error("`{program}` failed: {reason}")]
    Failed {
        /// The program.
        program: String,
        /// Words of the program.
        reason: String,
    },
    /// The reply does not fit the event.
    #[error("`{program}` gave a reply that `{event}` does not take: {reason}")]
    Reply {
        /// The program.
        program: String,
        /// The event.
        event: &'static str,
        /// Fault of the reply, in words.
        reason: String,
    },
    /// The plugin is being closed.
    #[error("`{program}` is being ended")]
    Closing {
        /// The program.
        program: String,
    },
}
