use std::fmt;

use zk_core::model::AgentError;

/// Service that words the errors of runs for whoever reads [`AgentDone`](zk_core::events::AgentDone): a host adds what to
/// do next, such as its own flags, which this crate does not know. Without it an error is told as it displays itself.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_agent::ErrorWords;
/// use zk_core::kernel::Bus;
/// use zk_core::model::AgentError;
///
/// let words = ErrorWords::new(|error| match error {
///     AgentError::TurnLimit { .. } => format!("{error} (see the setting `turns`)"),
///     _ => error.to_string(),
/// });
/// Bus::new().scope("host").provide_service(Arc::new(words));
/// ```
pub struct ErrorWords(Box<dyn Fn(&AgentError) -> String + Send + Sync>);

impl fmt::Debug for ErrorWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorWords")
    }
}

impl ErrorWords {
    /// The words that `describe` gives an error.
    pub fn new(describe: impl Fn(&AgentError) -> String + Send + Sync + 'static) -> Self {
        Self(Box::new(describe))
    }

    pub(crate) fn describe(&self, error: &AgentError) -> String {
        (self.0)(error)
    }
}
