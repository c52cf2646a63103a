use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::events::{DecidedBy, PermissionDecided, ToolEnd};
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::CallId;

use crate::policy::ALLOWS_ALL;

/// Calls that run because mode and rules let them, without a person, until they end.
#[derive(Debug, Default)]
pub(crate) struct UnaskedCalls(Mutex<HashSet<CallId>>);

impl UnaskedCalls {
    /// Keeps them as a service of the scope's bus.
    pub(crate) fn watch(scope: &Scope) {
        let calls = Arc::new(Self::default());
        scope.provide_service(calls.clone());
        let decided = calls.clone();
        scope.on_sync_at(Reach::Descendants, move |event: &PermissionDecided, _: &Cx| {
            let is_judged = event.reasons.last().is_none_or(|reason| reason != ALLOWS_ALL);
            let is_unasked = event.allowed && event.by == DecidedBy::Policy && is_judged;
            decided.changed(|calls| match is_unasked {
                true => calls.insert(event.call.call_id.clone()),
                false => calls.remove(&event.call.call_id),
            });
        });
        scope.on_sync_at(Reach::Descendants, move |event: &ToolEnd, _: &Cx| {
            calls.changed(|calls| calls.remove(&event.call.call_id));
        });
    }

    pub(crate) fn contains(&self, call: &CallId) -> bool {
        self.changed(|calls| calls.contains(call))
    }

    fn changed(&self, change: impl FnOnce(&mut HashSet<CallId>) -> bool) -> bool {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
