use std::time::Duration;

/// Reason why a program gave no valid reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// There is no service that starts programs.
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
    /// The program ended, or closed its input or output. It is started again only with its plugin.
    #[error("`{program}` {how}{said}: start its plugin again once it is mended")]
    Ended {
        /// The program.
        program: String,
        /// Description of the end: `ended with exit code 1`.
        how: String,
        /// End of the program's standard error; empty if there was none.
        said: String,
    },
    /// The program printed an invalid reply and was ended. It is started again only with its plugin.
    #[error("`{program}` printed what is no reply ({reason}): only replies may go to its standard output")]
    Garbage {
        /// The program.
        program: String,
        /// Error in the line, in words.
        reason: String,
    },
    /// The reply did not come within the time limit.
    #[error("`{program}` gave no reply within {limit:?}")]
    TimedOut {
        /// The program.
        program: String,
        /// Time limit.
        limit: Duration,
    },
    /// The event exceeds the length limit of a line.
    #[error("the event has {bytes} bytes, more than `{program}` can be sent in one line")]
    TooLong {
        /// The program.
        program: String,
        /// Length of the event, in bytes.
        bytes: usize,
    },
    /// The event cannot be serialised as JSON.
    #[error("the event cannot be written for `{program}`: {reason}")]
    Unwritable {
        /// The program.
        program: String,
        /// Cause, in words.
        reason: String,
    },
    /// The program replied with an error.
    #[error("`{program}` failed: {reason}")]
    Failed {
        /// The program.
        program: String,
        /// Error text of the program.
        reason: String,
    },
    /// The reply has the wrong form for the event.
    #[error("`{program}` gave a reply that `{event}` does not take: {reason}")]
    Reply {
        /// The program.
        program: String,
        /// Name of the event.
        event: &'static str,
        /// Error in the reply, in words.
        reason: String,
    },
    /// The plugin is being closed.
    #[error("`{program}` is being ended")]
    Closing {
        /// The program.
        program: String,
    },
}
