use std::fmt;

use zk_core::model::AgentError;

/// Service that formats the error of a run for [`AgentDone`](zk_core::events::AgentDone), for example with a
/// hint on the host's flags. By default an error is formatted by its `Display`.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_agent::ErrorFormatter;
/// use zk_core::kernel::Bus;
/// use zk_core::model::AgentError;
///
/// let formatter = ErrorFormatter::new(|error| match error {
///     AgentError::TurnLimit { .. } => format!("{error} (see the setting `turns`)"),
///     _ => error.to_string(),
/// });
/// Bus::new().scope("host").provide_service(Arc::new(formatter));
/// ```
pub struct ErrorFormatter(Box<dyn Fn(&AgentError) -> String + Send + Sync>);

impl fmt::Debug for ErrorFormatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorFormatter")
    }
}

impl ErrorFormatter {
    /// Creates a formatter that uses `describe`.
    pub fn new(describe: impl Fn(&AgentError) -> String + Send + Sync + 'static) -> Self {
        Self(Box::new(describe))
    }

    pub(crate) fn describe(&self, error: &AgentError) -> String {
        (self.0)(error)
    }
}
