//! Hooks at the end of answers, sessions and the program, and before compactions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use zk_core::events::{
    AgentDone, CompactionTrigger, ContextReduced, SessionBeforeCompact, SessionBeforeReply, TurnAfter,
};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope};
use zk_core::model::{Message, StopReason};
use zk_core::service::RunControl;

use super::super::event::HookEvent;
use super::super::reply::Verdict;
use super::super::runner::Runner;
use super::prompts::run_session_end;

/// Maximum number of times that hooks may continue one run.
const MAX_CONTINUATIONS: u32 = 8;
/// Longest wait for `SessionEnd` hooks when the program ends.
const SESSION_END_WAIT: Duration = Duration::from_secs(5);

pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
    use HookEvent as E;
    let has = |event| runner.set.hooks.iter().any(|hook| hook.event == event);
    let limit =
        |events: &[E]| HookOptions { time_limit: runner.time_limit(events), ..HookOptions::default() };
    let everywhere = |at| HookOptions { reach: Some(Reach::Descendants), ..at };
    let ends =
        Arc::new(Ends { runner: runner.clone(), continued: Mutex::default(), asked_about: Mutex::default() });
    if has(E::Stop) || has(E::SubagentStop) {
        let at = everywhere(limit(&[E::Stop, E::SubagentStop]));
        scope.handle_at::<TurnAfter, _>(at, ends.clone());
        let over = ends.clone();
        scope.on_sync_at(everywhere(HookOptions::default()), move |_: &AgentDone, cx: &Cx| {
            over.continued().remove(cx.run_id());
        });
    }
    if has(E::PreCompact) {
        scope.handle_at::<SessionBeforeCompact, _>(limit(&[E::PreCompact]), ends.clone());
        scope.handle_at::<ContextReduced, _>(limit(&[E::PreCompact]), ends);
    }
    if has(E::SessionEnd) {
        let (runner, own) = (runner.clone(), scope.clone());
        scope.on_close(async move || {
            let Some(bus) = own.bus() else { return };
            let _ = timeout(SESSION_END_WAIT, run_session_end(&runner, "other", &bus.cx())).await;
        });
    }
}

struct Ends {
    runner: Arc<Runner>,
    /// Number of continuations by hooks, by run.
    continued: Mutex<HashMap<String, u32>>,
    /// Turn before whose compaction hooks were asked last.
    asked_about: Mutex<Option<String>>,
}

impl Ends {
    fn continued(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.continued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_asked_about(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.asked_about.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler<TurnAfter> for Ends {
    async fn call(&self, turn: &TurnAfter, cx: &Cx) -> Answer<TurnAfter> {
        let Some(message) = turn.message.as_ref().filter(|_| !cx.is_stopped()) else { return Ok(None) };
        let goes_on =
            message.calls().next().is_some() || message.stop.as_ref().is_some_and(StopReason::is_pause);
        let Some(run) = cx.service::<dyn RunControl>().filter(|_| !goes_on) else { return Ok(None) };
        let state = run.state();
        if state.steering > 0 || state.follow_ups > 0 {
            return Ok(None);
        }
        let event = if cx.origin().depth > 0 { HookEvent::SubagentStop } else { HookEvent::Stop };
        let before = self.continued().get(cx.run_id()).copied().unwrap_or_default();
        let fields = json!({"stop_hook_active": before > 0, "last_assistant_message": message.text()});
        let answered = self.runner.run(self.runner.for_any(event), cx, |_| fields.clone()).await;
        self.runner.report(&answered);
        let replies: Vec<_> = answered.into_iter().filter_map(|(_, answer)| answer.ok()).collect();
        if let Some(reason) = replies.iter().find_map(|reply| reply.stop.as_ref()) {
            (self.runner.tell)(&format!("{event}: {reason}"));
            return Ok(None);
        }
        let feedback: Vec<String> = replies
            .into_iter()
            .filter_map(|reply| match reply.verdict {
                Verdict::Block(reason) => Some(reason),
                Verdict::None | Verdict::Allow | Verdict::Ask(_) => None,
            })
            .collect();
        if feedback.is_empty() {
            return Ok(None);
        }
        if before >= MAX_CONTINUATIONS {
            (self.runner.tell)(&format!(
                "warning: {event}: hooks had this run go on {before} times; it ends now: {}",
                feedback.join("\n")
            ));
            return Ok(None);
        }
        self.continued().insert(cx.run_id().to_owned(), before + 1);
        let text = format!("{event} hook feedback: {}", feedback.join("\n"));
        // Fails only if the run has ended.
        let _ = run.follow_up(Message::injected(text, "hooks"));
        Ok(None)
    }
}

impl Handler<SessionBeforeCompact> for Ends {
    async fn call(&self, compact: &SessionBeforeCompact, cx: &Cx) -> Answer<SessionBeforeCompact> {
        let trigger = match compact.trigger {
            CompactionTrigger::Manual => "manual",
            CompactionTrigger::Soft | CompactionTrigger::Hard | CompactionTrigger::Overflow => "auto",
        };
        *self.lock_asked_about() = Some(cx.turn_id().to_owned()).filter(|turn| !turn.is_empty());
        let chosen = self.runner.for_word(HookEvent::PreCompact, trigger);
        let fields = json!({"trigger": trigger, "custom_instructions": compact.instructions});
        for (_, answer) in self.runner.run(chosen, cx, |_| fields.clone()).await {
            let reason = match answer {
                Err(error) => Some(error.to_string()),
                Ok(reply) => match reply.verdict {
                    Verdict::Block(reason) => Some(reason),
                    Verdict::None | Verdict::Allow | Verdict::Ask(_) => reply.stop,
                },
            };
            if reason.is_some() {
                return Ok(Some(SessionBeforeReply {
                    cancel: true,
                    reason,
                    ..SessionBeforeReply::default()
                }));
            }
        }
        Ok(None)
    }
}

impl Handler<ContextReduced> for Ends {
    async fn call(&self, reduced: &ContextReduced, cx: &Cx) -> Answer<ContextReduced> {
        // The hooks were asked before this compaction.
        if self.lock_asked_about().as_deref() == Some(reduced.turn_id.as_str()) {
            return Ok(None);
        }
        let trigger = "auto";
        let chosen = self.runner.for_word(HookEvent::PreCompact, trigger);
        let fields = json!({"trigger": trigger, "custom_instructions": ""});
        let answered = self.runner.run(chosen, cx, |_| fields.clone()).await;
        self.runner.report(&answered);
        Ok(None)
    }
}
