use zk_core::kernel::BoxError;
use zk_tui::TerminalError;

/// Failure to open or to continue a conversation.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The person cancelled the opening.
    #[error("stopped before the conversation was open")]
    StoppedOpening,
    /// The person cancelled the closing of the earlier conversation.
    #[error("stopped")]
    Stopped,
    /// A signal ended a question.
    #[error("ended by a signal before it began")]
    Terminated,
    /// The terminal can no longer be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[source] std::io::Error),
    /// The terminal's modes were not restored.
    #[error("cannot use the terminal after zk was stopped: {0}")]
    TerminalAfterStop(#[source] std::io::Error),
    /// The line editor cannot be used.
    #[error(transparent)]
    LineEditor(#[from] TerminalError),
    /// The runtime could not be created.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The credential of a provider is missing or was rejected.
    #[error("{0}")]
    NoAccess(BoxError),
    /// The factory cannot open the conversation: an error of the program.
    #[error("{0}")]
    Factory(BoxError),
}
