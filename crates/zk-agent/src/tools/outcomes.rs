use std::path::PathBuf;

use zk_core::events::OutcomeCounts;
use zk_core::model::ToolCall;

/// Maximum number of unresolved errors that are tracked; older ones stay unresolved.
const MAX_OPEN: usize = 1000;

/// Counts the outcomes of a run's calls.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    counts: OutcomeCounts,
    /// Errors that no success has followed yet.
    open: Vec<OpenError>,
}

#[derive(Debug)]
struct OpenError {
    tool: String,
    files: Vec<PathBuf>,
}

impl Outcomes {
    /// Counts the results of one batch; `files` returns the files of a call. A success only resolves errors
    /// of earlier batches, because the model has not yet seen the errors of the same batch.
    pub(super) fn count_batch(
        &mut self,
        ended: &[(&ToolCall, bool)],
        files: impl Fn(&ToolCall) -> Vec<PathBuf>,
    ) -> OutcomeCounts {
        let mut failed = Vec::new();
        for (call, is_error) in ended {
            self.counts.calls += 1;
            if *is_error {
                self.counts.errors += 1;
                failed.push(OpenError { tool: call.name.clone(), files: files(call) });
            } else if !self.open.is_empty() {
                let (files, before) = (files(call), self.open.len());
                self.open.retain(|error| {
                    error.tool != call.name && !error.files.iter().any(|file| files.contains(file))
                });
                self.counts.resolved += (before - self.open.len()) as u64;
            }
        }
        self.open.extend(failed);
        let excess = self.open.len().saturating_sub(MAX_OPEN);
        self.open.drain(..excess);
        self.counts
    }
}
