use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{ToolBlocked, TurnAfter};
use zk_core::kernel::{Cx, Scope};

use crate::output::result::DeniedCall;

/// Keeps count of the calls that were refused.
#[derive(Clone, Default)]
pub(crate) struct BlockedCalls(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    all: Vec<DeniedCall>,
    /// Calls of the last step that had any, and how many of them were refused.
    calls: usize,
    refused: usize,
}

impl BlockedCalls {
    pub(crate) fn watch(&self, scope: &Scope) {
        let seen = self.clone();
        scope.on_sync(move |event: &TurnAfter, _: &Cx| {
            let calls = event.message.as_ref().map_or(0, |message| message.calls().count());
            if calls > 0 {
                let mut seen = seen.seen();
                (seen.calls, seen.refused) = (calls, 0);
            }
        });
        let seen = self.clone();
        scope.on_sync(move |event: &ToolBlocked, _: &Cx| {
            let mut seen = seen.seen();
            seen.refused += 1;
            seen.all.push(DeniedCall { tool: event.call.name.clone(), reason: event.reason.clone() });
        });
    }

    /// Whether the run had a step with calls, and every call of the last such step was refused: it could not
    /// do what it set out to do.
    pub(crate) fn decided_the_run(&self) -> bool {
        let seen = self.seen();
        seen.calls > 0 && seen.refused >= seen.calls
    }

    pub(crate) fn all(&self) -> Vec<DeniedCall> {
        self.seen().all.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
