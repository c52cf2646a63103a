use std::fmt;
use std::sync::Arc;

use crate::HookError;
use crate::failure::catch::catch;

/// Receiver of failures that end no emission, set by the host with
/// [`BusBuilder::on_error`](crate::BusBuilder::on_error).
#[derive(Clone)]
pub(crate) struct Reporter(Arc<dyn Fn(&HookError) + Send + Sync>);

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

impl Reporter {
    pub(crate) fn new(report: impl Fn(&HookError) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(crate) fn report(&self, error: &HookError) {
        // A panic of the reporter cannot be reported anywhere.
        let _ = catch(|| (self.0)(error));
    }
}
