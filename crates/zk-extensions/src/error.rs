use std::time::Duration;

/// Reason why an extension gave no valid answer. Each message names the extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionError {
    /// There is no service that starts programs.
    #[error(
        "extension `{name}` cannot be started: no plugin provides `Exec`; install one, such as `zk_exec::LocalPlugin`"
    )]
    NoExec {
        /// Name of the extension.
        name: String,
    },
    /// The program does not run: it could not be started, broke the protocol, or ended.
    #[error("extension `{name}` does not run ({reason}); {next}")]
    Down {
        /// Name of the extension.
        name: String,
        /// Cause, in words.
        reason: String,
        /// Next step.
        next: String,
    },
    /// There was no answer within the time limit.
    #[error("extension `{name}` gave no answer to `{method}` within {limit:?}")]
    TimedOut {
        /// Name of the extension.
        name: String,
        /// Method of the request.
        method: String,
        /// Time limit.
        limit: Duration,
    },
    /// The message exceeds the length of a line.
    #[error("`{method}` has {bytes} bytes, more than extension `{name}` can be sent in one line")]
    TooLong {
        /// Name of the extension.
        name: String,
        /// Method of the message.
        method: String,
        /// Length of the line.
        bytes: usize,
    },
    /// The message cannot be written as JSON.
    #[error("`{method}` cannot be written for extension `{name}`: {reason}")]
    Unwritable {
        /// Name of the extension.
        name: String,
        /// Method of the message.
        method: String,
        /// Cause, in words.
        reason: String,
    },
    /// The extension answered with an error.
    #[error("extension `{name}` failed: {reason}")]
    Failed {
        /// Name of the extension.
        name: String,
        /// Error text of the extension.
        reason: String,
    },
    /// The answer has the wrong form.
    #[error("extension `{name}` gave an answer to `{what}` that it does not take: {reason}")]
    Answer {
        /// Name of the extension.
        name: String,
        /// Event or method.
        what: String,
        /// Error in the answer, in words.
        reason: String,
    },
    /// The run was stopped.
    #[error("extension `{name}` was not waited for: the run was stopped")]
    Stopped {
        /// Name of the extension.
        name: String,
    },
    /// The extension guarded this event before it was restarted, and no longer does.
    #[error(
        "extension `{name}` no longer says that it guards `{event}`: `/reload` lets it go without that guard"
    )]
    Unguarded {
        /// Name of the extension.
        name: String,
        /// Name of the event.
        event: String,
    },
}
