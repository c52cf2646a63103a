use std::collections::BTreeMap;
use std::sync::Mutex;

use zk_core::service::{PartFallback, part_fallback};

use crate::lock::lock;

/// Maximum number of concurrent side calls for one optional part.
const MAX_CALLS_OF_PART: usize = 4;

/// Maximum number of concurrent side calls for all optional parts of an agent.
const MAX_CALLS: usize = 8;

/// Side calls in progress for parts that may be left out ([`PartFallback::LeaveOut`]). Calls beyond the limits are
/// left out rather than queued, because their work helps the present step only. Other parts have no limit: the
/// conversation waits for their answer.
#[derive(Debug, Default)]
pub(crate) struct OptionalCalls(Mutex<BTreeMap<String, usize>>);

/// A side call in progress, until dropped.
pub(crate) struct OptionalCall<'a> {
    calls: &'a OptionalCalls,
    part: &'a str,
}

impl OptionalCalls {
    /// Counts a side call for `part` as begun, if the part is optional.
    ///
    /// # Errors
    /// The reason for which the call is left out.
    pub(crate) fn begin<'a>(&'a self, part: &'a str) -> Result<Option<OptionalCall<'a>>, String> {
        if part_fallback(part) == PartFallback::RunModel {
            return Ok(None);
        }
        let mut running = lock(&self.0);
        let own = running.get(part).copied().unwrap_or_default();
        let all: usize = running.values().sum();
        if own >= MAX_CALLS_OF_PART || all >= MAX_CALLS {
            return Err(format!(
                "{own} requests for `{part}` and {all} for all optional parts are in progress; \
                 at most {MAX_CALLS_OF_PART} and {MAX_CALLS} run at once"
            ));
        }
        running.insert(part.to_owned(), own + 1);
        Ok(Some(OptionalCall { calls: self, part }))
    }
}

impl Drop for OptionalCall<'_> {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.calls.0).get_mut(self.part) {
            *count = count.saturating_sub(1);
        }
    }
}
