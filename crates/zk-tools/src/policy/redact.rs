use std::sync::Arc;

use zk_core::events::{ResultPatch, ToolTransform};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Scope, Stage};
use zk_core::service::Redactor;

/// Provides a [`Redactor`] and removes secrets from tool results, for its agent and all descendants: the
/// model, the session and every observer get the redacted result.
///
/// Install it before plugins that store results, such as [`Spill`](crate::Spill).
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_core::service::Redactor;
/// use zk_tools::RedactResults;
///
/// let redactor = Arc::new(Redactor::new());
/// redactor.learn("correct-horse-battery");
/// let bus = Bus::new();
/// bus.install(&RedactResults::new(redactor)).unwrap();
/// assert!(bus.service::<Redactor>().is_some());
/// ```
#[derive(Debug)]
pub struct RedactResults {
    redactor: Arc<Redactor>,
}

impl RedactResults {
    /// Creates the plugin with secrets that the host already added to `redactor`.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor }
    }
}

impl Plugin for RedactResults {
    fn name(&self) -> &'static str {
        "redact"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service(self.redactor.clone());
        let redactor = self.redactor.clone();
        scope.on_sync_at(HookOptions::from(Stage::Framework), move |result: &ToolTransform, _: &Cx| {
            let content = redactor.redact_content(&result.content);
            let details = result.details.as_ref().and_then(|details| {
                let mut clean = details.clone();
                redactor.redact_value(&mut clean);
                (clean != *details).then_some(clean)
            });
            let found = content.is_some() || details.is_some();
            found.then_some(ResultPatch { content, details, is_error: None })
        });
        Ok(())
    }
}
