use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use zk_core::model::{AgentError, ToolCall, ToolResult};
/// Batches in a row in which one call may fail in one way before a person is asked, or the run ends where
/// nobody is: a model that repeats itself so often does not recover by itself, and pays for every try.
const MOST_IDENTICAL_FAILURES: u32 = 5;

/// Counts failures that repeat those of the batches before.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailures {
    /// Number of batches in a row in which each failure came.
    counts: BTreeMap<u64, u32>,
}

impl RepeatedFailures {
    /// Takes in the result of a call; gives why the run has to end if it only repeats itself. Calls that fail alike in
    /// one batch, whose failures are in `batch`, count once: the model has not seen the first of them yet.
    pub(crate) fn check(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
        batch: &mut BTreeSet<u64>,
    ) -> Option<AgentError> {
        if !result.is_error {
            return None;
        }
        let digest = digest(call, result);
        if !batch.insert(digest) {
            return None;
        }
        let count = self.counts.entry(digest).or_default();
        *count += 1;
        let failures = *count;
        (failures >= MOST_IDENTICAL_FAILURES).then(|| AgentError::Stuck { tool: call.name.clone(), failures })
    }

    /// Forgets all failures.
    pub(super) fn forget(&mut self) {
        self.counts.clear();
    }

    /// Forgets the failures that did not come again in the batch that ended, whose failures are in `batch`.
    pub(crate) fn end_batch(&mut self, batch: &BTreeSet<u64>) {
        self.counts.retain(|digest, _| batch.contains(digest));
    }
}

/// Hash that is equal for equal calls with equal results; compared within one run only.
fn digest(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, &call.malformed, call.args.to_string()).hash(&mut hasher);
    match serde_json::to_string(&result.content) {
        Ok(content) => content.hash(&mut hasher),
        Err(_) => call.id.hash(&mut hasher),
    }
    hasher.finish()
}
