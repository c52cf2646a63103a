//! Records that sessions keep for `zk cost`: why a request began differently, and how much smaller outputs
//! became.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use zk_core::events::{PrefixBreak, SessionBeforeEnd};
use zk_core::kernel::{BoxError, Bus, Cx, HookOptions, Reach, Scope};
use zk_core::service::{NewEntry, SessionLog};
use zk_tools::OutputCompressed;

/// Source and names of the stored entries.
pub(crate) const SOURCE: &str = "cost";
pub(crate) const BREAK: &str = "prefix-break";
/// Field with the depth of the sub-agent that made the request; absent for the conversation's own agent.
pub(crate) const DEPTH: &str = "depth";
pub(crate) const SAVINGS: &str = "output-savings";

/// Stores an entry in the session for each `PrefixBreak`, at which the provider's prompt cache misses; also
/// for sub-agents.
pub(crate) fn record_prefix_breaks(bus: &Bus) {
    let scope = bus.scope(SOURCE);
    let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    scope.on_async_with_at(
        everywhere,
        scope.clone(),
        async |scope: &Scope, broken: &PrefixBreak, cx: &Cx| {
            if let Some(log) = cx.service::<dyn SessionLog>() {
                let mut data = serde_json::to_value(broken)?;
                if let Some(data) = data.as_object_mut().filter(|_| cx.origin().depth > 0) {
                    data.insert(DEPTH.to_owned(), cx.origin().depth.into());
                }
                log.append(scope, NewEntry::hidden(BREAK, 1, data)).await?;
            }
            Ok::<_, BoxError>(())
        },
    );
}

/// Stores an entry in the session for each run whose command outputs were shortened, with the bytes before
/// and after.
pub(crate) fn record_savings(bus: &Bus) {
    let scope = bus.scope(SOURCE);
    let saved = Arc::new(Mutex::new((0_u64, 0_u64)));
    let counted = saved.clone();
    scope.on_sync_at(Reach::Descendants, move |event: &OutputCompressed, _: &Cx| {
        let mut saved = counted.lock().unwrap_or_else(PoisonError::into_inner);
        saved.0 += event.before as u64;
        saved.1 += event.after as u64;
    });
    scope.on_sync(move |_: &SessionBeforeEnd, _: &Cx| {
        let (before, after) = std::mem::take(&mut *saved.lock().unwrap_or_else(PoisonError::into_inner));
        (before > 0).then(|| NewEntry::hidden(SAVINGS, 1, json!({ "before": before, "after": after })))
    });
}
