use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use zk_core::model::{ToolError, ToolErrorKind};

use super::call::{CallOutcome, Calls, failed_outcome};
use super::preflight::Ready;

/// Cancellation of a running call.
#[derive(Clone)]
pub(super) struct CallCancel {
    pub(super) stop: CancellationToken,
    /// Whether the cause is a failed call of the same batch.
    pub(super) by_sibling: Arc<AtomicBool>,
}

impl Calls<'_> {
    /// Runs a call. Never fails: every error becomes a result for the model.
    pub(super) async fn execute(&self, ready: Ready, cancel: CallCancel) -> CallOutcome {
        let Ready { approved, tool, coercions, dedup, .. } = ready;
        let call = approved.call().clone();
        let steps = self.steps(call.clone());
        let begun = match steps.begin(approved, &*tool, coercions).await {
            Ok(begun) => begun,
            Err(why) => return failed_outcome(&call, why.to_string()),
        };
        let mut outcome = steps.run(&begun, &*tool, &cancel.stop).await;
        match &mut outcome {
            Ok(output) => {
                if let Some(key) = dedup {
                    self.context.dedup.record(&call.name, key, output);
                }
            }
            Err(ToolError { kind: ToolErrorKind::Aborted, message, .. })
                if cancel.by_sibling.load(Ordering::Acquire) =>
            {
                "Cancelled: a command running beside this call failed. Its effects are unknown."
                    .clone_into(message);
            }
            Err(ToolError { kind: ToolErrorKind::Aborted, message, .. })
                if self.context.shared.leaving().is_some() =>
            {
                "Cancelled: the worker of this run ended while the call ran. Its effects are unknown."
                    .clone_into(message);
            }
            Err(_) => {}
        }
        let end = steps.end(begun, outcome).await;
        let cancels_siblings = end.failure.is_some() && tool.failure_cancels_siblings();
        CallOutcome { cancels_siblings, ..end.into() }
    }
}
