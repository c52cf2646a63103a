use zk_core::kernel::BoxError;
use zk_tui::TerminalError;

/// Failure of a conversation that is not open, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The person did not want to wait.
    #[error("stopped before the conversation was open")]
    StoppedOpening,
    /// The person stopped what ended the conversation before.
    #[error("stopped")]
    Stopped,
    /// A signal ended a question.
    #[error("ended by a signal before it began")]
    Terminated,
    /// The terminal can no longer be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[source] std::io::Error),
    /// The terminal was not given back.
    #[error("cannot use the terminal after zk was stopped: {0}")]
    TerminalAfterStop(#[source] std::io::Error),
    /// The line editor cannot be used.
    #[error(transparent)]
    LineEditor(#[from] TerminalError),
    /// Nothing can be waited for.
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// There is no key or sign-in for a provider, or it is not accepted.
    #[error("{0}")]
    NoAccess(BoxError),
    /// The factory cannot open the conversation: an error of the program.
    #[error("{0}")]
    Factory(BoxError),
}
