use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zk_core::events::{SessionLoaded, ToolAfter, TurnAfter};
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::SessionId;
use zk_core::service::RunControl;

use crate::Agent;
use crate::lock::lock;

/// Number of sub-agents that a session has started in the whole tree of agents: a service of the root.
#[derive(Debug, Default)]
pub(crate) struct SpawnCount {
    count: AtomicU32,
    session: Mutex<Option<SessionId>>,
}

impl SpawnCount {
    /// Counts one more sub-agent; returns false if there are `most` already.
    pub(super) fn count_one_more(&self, most: u32) -> bool {
        let more = |count: u32| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Returns the counter of the tree of agents that `scope` is in.
    pub(super) fn of(scope: &Scope) -> Arc<Self> {
        let known = scope.bus().and_then(|bus| bus.service::<Self>());
        known.unwrap_or_else(|| {
            let count = Arc::new(Self::default());
            scope.provide_service(count.clone());
            let begins_anew = count.clone();
            scope.on_sync_at(Reach::Own, move |loaded: &SessionLoaded, _: &Cx| {
                // Another branch of the same session continues the count.
                let before = std::mem::replace(&mut *lock(&begins_anew.session), loaded.session_id.clone());
                if before.is_none() || before != loaded.session_id {
                    begins_anew.count.store(0, Ordering::Release);
                }
            });
            count
        })
    }
}

/// Slot of a running sub-agent, of which `max_concurrent` exist.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(super) fn take_slot(running: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now < most).then_some(now + 1))
            .ok()
            .map(|_| Self(running.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops an agent once its answers exceed `most` tokens of output; the returned flag says whether that
/// happened.
pub(super) fn limit_output(child: &Agent, most: u64) -> Arc<AtomicBool> {
    let (cut, sum) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let told = cut.clone();
    child.bus().scope("spawn-limit").on_sync(move |turn: &TurnAfter, cx: &Cx| {
        let sum = sum.fetch_add(turn.usage.output, Ordering::AcqRel) + turn.usage.output;
        if sum > most
            && let Some(run) = cx.service::<dyn RunControl>()
        {
            told.store(true, Ordering::Release);
            run.abort("its output tokens are used up");
        }
    });
    cut
}

/// Counts the ended calls of an agent.
pub(super) fn count_calls(child: &Agent) -> Arc<AtomicU64> {
    let calls = Arc::new(AtomicU64::new(0));
    let counter = calls.clone();
    child.bus().scope("spawn-calls").on_sync(move |_: &ToolAfter, _: &Cx| {
        counter.fetch_add(1, Ordering::AcqRel);
    });
    calls
}
