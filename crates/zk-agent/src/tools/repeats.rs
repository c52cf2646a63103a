use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use zk_core::model::{AgentError, ToolCall, ToolResult};
/// Number of batches in a row in which one call may fail in the same way, before a person is asked or the run
/// ends. A model that repeats itself so often does not recover, and every attempt costs money.
const MOST_IDENTICAL_FAILURES: u32 = 5;

/// Counter of failures that occur again in later batches.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailures {
    /// Number of batches in a row with a failure, by the failure's digest.
    counts: BTreeMap<u64, u32>,
}

impl RepeatedFailures {
    /// Records the result of a call; returns the error that ends the run if the failure was repeated too
    /// often. Equal failures within one batch, whose digests are in `batch`, count once, because the model
    /// has not seen the first of them yet.
    pub(crate) fn record_result(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
        batch: &mut BTreeSet<u64>,
    ) -> Option<AgentError> {
        if !result.is_error {
            return None;
        }
        let digest = failure_digest(call, result);
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

    /// Forgets failures that did not occur in the ended batch, whose digests are in `batch`.
    pub(crate) fn end_batch(&mut self, batch: &BTreeSet<u64>) {
        self.counts.retain(|digest, _| batch.contains(digest));
    }
}

/// Returns a hash that is equal for equal calls with equal results, within one run only.
fn failure_digest(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, &call.malformed, call.args.to_string()).hash(&mut hasher);
    match serde_json::to_string(&result.content) {
        Ok(content) => content.hash(&mut hasher),
        Err(_) => call.id.hash(&mut hasher),
    }
    hasher.finish()
}
