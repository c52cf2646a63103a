use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use zk_core::model::{AgentError, ToolCall, ToolResult};

/// How often in a row the same call may fail in the same way before the run ends: a model that repeats itself
/// so often does not recover by itself, and pays for every try.
const MOST_IDENTICAL_FAILURES: u32 = 5;

/// Counts failures that repeat each other.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailures {
    last: u64,
    count: u32,
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
            *self = Self::default();
            return None;
        }
        let digest = digest(call, result);
        if !batch.insert(digest) {
            return None;
        }
        self.count = if self.last == digest { self.count + 1 } else { 1 };
        self.last = digest;
        (self.count >= MOST_IDENTICAL_FAILURES)
            .then(|| AgentError::Stuck { tool: call.name.clone(), failures: self.count })
    }
}

/// The same for the same call with the same result; it is compared within one run only.
fn digest(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&call.name, &call.malformed, call.args.to_string()).hash(&mut hasher);
    match serde_json::to_string(&result.content) {
        Ok(content) => content.hash(&mut hasher),
        Err(_) => call.id.hash(&mut hasher),
    }
    hasher.finish()
}
