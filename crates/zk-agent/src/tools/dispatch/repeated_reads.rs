use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::events::CallRef;
use zk_core::model::{Effects, ToolOutput};

use crate::tools::call::{CallOutcome, Calls, failed_outcome};
use crate::tools::catch::catch_panic;
use crate::tools::preflight::Ready;

/// Identical reads of one batch, of which only the first runs: the others get its result. After a call that
/// may change something, reads count as different.
#[derive(Default)]
pub(super) struct RepeatedReads {
    /// Index of the first call with this name and these arguments.
    first: BTreeMap<(String, String), usize>,
    /// Indices of repeated calls, each with that of the first.
    repeated: Vec<(usize, usize)>,
}

impl RepeatedReads {
    /// Records an approved call; returns whether it repeats a read, so that it need not run.
    pub(super) fn is_repeated(&mut self, index: usize, ready: &Ready) -> bool {
        if !is_read(ready) {
            self.first.clear();
            return false;
        }
        let key = (ready.approved.call().name.clone(), ready.approved.args().to_string());
        let first = *self.first.entry(key).or_insert(index);
        if first != index {
            self.repeated.push((index, first));
        }
        first != index
    }

    /// Gives repeated calls the results of the first ones, and announces them.
    pub(super) async fn share_results(
        self,
        calls: &Calls<'_>,
        refs: &[Arc<CallRef>],
        done: &mut BTreeMap<usize, CallOutcome>,
    ) {
        for (index, first) in self.repeated {
            // A first call that was cut short has no result, so that its repetition has none either.
            let Some((result, call)) = done.get(&first).map(|outcome| &outcome.result).zip(refs.get(index))
            else {
                continue;
            };
            let shared = if result.is_error {
                failed_outcome(call, result.content.to_text())
            } else {
                let output = ToolOutput { content: result.content.clone(), display: None, details: None };
                calls.steps(call.clone()).substitute(output).await.into()
            };
            done.insert(index, shared);
        }
    }
}

/// Whether a call only reads the resources that it names.
fn is_read(ready: &Ready) -> bool {
    let effects = ready.approved.effects();
    let names_reads = matches!(effects, Effects::Known { list } if !list.is_empty());
    names_reads && effects.is_read_only() && !catch_panic(|| ready.tool.starts_calls()).unwrap_or(true)
}
