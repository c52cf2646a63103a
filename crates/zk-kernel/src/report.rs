use std::fmt;
use std::sync::Arc;

use super::HookError;
use super::catch::catch;

/// Receiver of the failures that end no emit: what the host gave to
/// [`BusBuilder::on_error`](super::BusBuilder::on_error).
#[derive(Clone)]
pub(super) struct Reporter(Arc<dyn Fn(&HookError) + Send + Sync>);

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

impl Reporter {
    pub(super) fn new(report: impl Fn(&HookError) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(super) fn report(&self, error: &HookError) {
        // A reporter that panics has nowhere left to be reported.
        let _ = catch(|| (self.0)(error));
    }
}
