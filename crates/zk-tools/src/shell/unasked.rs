use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::events::{DecidedBy, PermissionDecided, ToolEnd};
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::{CallId, CallRef, TurnId};

/// Identifies a call among all agents, since models reuse call ids.
type TurnCall = (TurnId, CallId);

/// Calls that run because mode and rules let them, without a person, until they end.
#[derive(Debug, Default)]
pub(crate) struct UnaskedCalls(Mutex<HashSet<TurnCall>>);

/// Running calls that requested to leave the sandbox, but that a person allowed only inside of it.
#[derive(Debug, Default)]
pub(crate) struct StayingCalls(UnaskedCalls);

impl StayingCalls {
    /// Records the calls that were allowed without a question, as a service of the scope's bus.
    pub(crate) fn watch(scope: &Scope) {
        let calls = Arc::new(Self::default());
        scope.provide_service(calls.clone());
        let decided = calls.clone();
        scope.on_sync_at(Reach::Descendants, move |event: &PermissionDecided, _: &Cx| {
            let stays =
                event.reasons.last().is_some_and(|reason| reason == PermissionDecided::STAYS_IN_SANDBOX);
            decided.0.changed(|calls| match event.allowed && event.by == DecidedBy::Person && stays {
                true => calls.insert(key(&event.call)),
                false => calls.remove(&key(&event.call)),
            });
        });
        scope.on_sync_at(Reach::Descendants, move |event: &ToolEnd, _: &Cx| {
            calls.0.changed(|calls| calls.remove(&key(&event.call)));
        });
    }

    pub(crate) fn contains(&self, call: &CallRef) -> bool {
        self.0.contains(call)
    }
}

fn key(call: &CallRef) -> TurnCall {
    (call.turn_id.clone(), call.call_id.clone())
}

impl UnaskedCalls {
    /// Records the calls that were allowed without a question, as a service of the scope's bus.
    pub(crate) fn watch(scope: &Scope) {
        let calls = Arc::new(Self::default());
        scope.provide_service(calls.clone());
        let decided = calls.clone();
        scope.on_sync_at(Reach::Descendants, move |event: &PermissionDecided, _: &Cx| {
            let is_judged =
                event.reasons.last().is_none_or(|reason| reason != PermissionDecided::MODE_ALLOWS_ALL);
            let is_unasked = event.allowed && event.by == DecidedBy::Policy && is_judged;
            decided.changed(|calls| match is_unasked {
                true => calls.insert(key(&event.call)),
                false => calls.remove(&key(&event.call)),
            });
        });
        scope.on_sync_at(Reach::Descendants, move |event: &ToolEnd, _: &Cx| {
            calls.changed(|calls| calls.remove(&key(&event.call)));
        });
    }

    pub(crate) fn contains(&self, call: &CallRef) -> bool {
        self.changed(|calls| calls.contains(&key(call)))
    }

    fn changed(&self, change: impl FnOnce(&mut HashSet<TurnCall>) -> bool) -> bool {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use zk_core::kernel::Bus;
    use zk_core::model::Effects;

    use super::*;

    #[tokio::test]
    async fn a_call_of_one_agent_is_none_of_another_with_the_same_id() {
        let bus = Bus::new();
        UnaskedCalls::watch(&bus.scope("tools"));
        let calls = bus.service::<UnaskedCalls>().unwrap();
        let call = |turn_id: TurnId| {
            let name = "shell".to_owned();
            Arc::new(CallRef { turn_id, call_id: CallId::from("1"), display_name: name.clone(), name })
        };
        let (own, other) = (call(TurnId::fresh()), call(TurnId::fresh()));
        for (call, by) in [(&own, DecidedBy::Policy), (&other, DecidedBy::Person)] {
            let decided = PermissionDecided {
                call: call.clone(),
                args: Value::Null,
                effects: Effects::Unknown,
                cwd: "/".into(),
                allowed: true,
                by,
                reasons: Vec::new(),
                allowed_by: None,
            };
            bus.cx().emit(decided).await.unwrap();
        }
        assert!(calls.contains(&own) && !calls.contains(&other));
    }
}
