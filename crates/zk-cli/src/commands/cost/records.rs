//! Records that sessions keep for `zk cost`: why a request began differently, and how much smaller outputs
//! became.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use zk_core::events::{PrefixBreak, SessionBeforeEnd};
use zk_core::kernel::{BoxError, Bus, Cx, HookOptions, Reach, Scope};
use zk_core::service::{NewEntry, SessionLog};
use zk_tools::OutputCompressed;

/// Source of these entries, and their names.
pub(crate) const SOURCE: &str = "cost";
pub(crate) const BREAK: &str = "prefix-break";
/// Depth of the sub-agent whose request it was; absent for the agent's own.
pub(crate) const DEPTH: &str = "depth";
pub(crate) const SAVINGS: &str = "output-savings";

/// Keeps with the session what breaks the beginning of its requests, and of those of its sub-agents.
pub(crate) fn note_breaks(bus: &Bus) {
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

/// Keeps with the session how much smaller the outputs of commands became before the model got them: one entry for each
/// run that made any smaller.
pub(crate) fn note_savings(bus: &Bus) {
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
