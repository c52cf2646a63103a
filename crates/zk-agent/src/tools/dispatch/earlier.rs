use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::events::{CallRef, ToolSkipped};
use zk_core::model::{ToolResult, output_bytes};
use zk_core::service::{OpenTurn, StoredCallState};

use crate::tools::call::{CallOutcome, Calls};
use crate::tools::catch::catch_panic;

/// Returns results from earlier legs for calls of their open turn, by index: stored results, and an error for
/// each call whose outcome is unknown. A call with an unknown outcome runs again only if its tool has an
/// idempotency key for it.
pub(super) async fn earlier_results(
    calls: &Calls<'_>,
    open: &OpenTurn,
    refs: &[Arc<CallRef>],
) -> BTreeMap<usize, CallOutcome> {
    let mut known = BTreeMap::new();
    for (index, (stored, call)) in open.calls.iter().zip(refs).enumerate() {
        match &stored.state {
            StoredCallState::NotBegun => continue,
            StoredCallState::Ended(result) => {
                known.insert(index, stored_outcome(result));
            }
            StoredCallState::Unknown(result) => {
                let tool = calls.context.toolbox.get(&call.name);
                let key = tool.and_then(|tool| catch_panic(|| tool.idempotency(&stored.args)).flatten());
                if key.is_some() {
                    continue;
                }
                let skipped = ToolSkipped { call: call.clone(), reason: result.content.to_text() };
                let _ = calls.cx.emit(skipped).await;
                known.insert(index, stored_outcome(result));
            }
        }
        calls.context.shared.count_call(&call.name);
    }
    known
}

fn stored_outcome(result: &ToolResult) -> CallOutcome {
    let bytes = output_bytes(&result.content);
    CallOutcome { result: result.clone(), bytes, cancels_siblings: false, unrecorded: None }
}
