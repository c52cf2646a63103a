//! Handlers that convert events of a conversation to inputs of its goal.

use std::sync::Arc;
use std::time::Duration;

use zk_core::events::{
    AgentBeforeStart, AgentDone, AgentStart, BeforeStart, BudgetOutcome, DecidedBy, PermissionDecided,
    RunBudgetReached, SessionEnd, SessionLoaded, SessionSwitch, SideCallEnd, ToolAfter, ToolResultsAfter,
    TurnAfter, UsageUpdate,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Reach, Scope};
use zk_core::model::{CheckState, Display};
use zk_core::service::{
    PromptSection, Question, Questions, Redactor, RunControl, RunStatus, SUPERVISOR_PART,
};

use super::record::cut;
use super::section::GoalSection;
use super::shared::{PendingTurn, SOURCE, Shared};
use crate::goal::{GoalInput, Spender};

/// Time that a handler may take beyond the pause between two turns.
const EXTRA_TIME: Duration = Duration::from_secs(30);

/// Maximum size in bytes of a question or decision in a goal's list.
const MAX_QUESTION_BYTES: usize = 200;

pub(super) fn register(shared: &Arc<Shared>, scope: &Scope) -> Result<(), BoxError> {
    scope.provide::<dyn PromptSection>(SOURCE, Arc::new(GoalSection(shared.clone())))?;
    handle_sessions(shared, scope);
    handle_runs(shared, scope);
    handle_turns(shared, scope);
    handle_spending(shared, scope);
    handle_decisions(shared, scope);
    Ok(())
}

fn handle_sessions(shared: &Arc<Shared>, scope: &Scope) {
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |event: &SessionLoaded, _: &Cx| {
        // A goal that was set or read before the first run is newer than these entries.
        let is_read_ahead = std::mem::take(&mut own.state().is_read_ahead);
        if !is_read_ahead {
            own.restore_goal(&event.entries);
        }
    });
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |event: &SessionSwitch, _: &Cx| {
        own.restore_goal(&event.entries);
        own.state().is_read_ahead = true;
    });
}

fn handle_runs(shared: &Arc<Shared>, scope: &Scope) {
    scope.on_async_with_at(
        Reach::Own,
        shared.clone(),
        async |shared: &Arc<Shared>,
               event: &AgentBeforeStart,
               cx: &Cx|
               -> Result<Option<BeforeStart>, BoxError> {
            if let Some(prompt) = event.prompt.as_ref().filter(|prompt| prompt.injected_by.is_none()) {
                shared.apply(GoalInput::Prompted(prompt.text()), cx).await?;
            }
            Ok(None)
        },
    );
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |_: &AgentStart, cx: &Cx| {
        let mut state = own.state();
        state.run = cx.service::<dyn RunControl>().map(|run| Arc::downgrade(&run));
        state.is_own_stop = false;
        (state.answer, state.retry) = (None, None);
        drop(state);
        follow_questions(&own, cx);
    });
    scope.on_async_with_at(
        Reach::Own,
        shared.clone(),
        async |shared: &Arc<Shared>, event: &AgentDone, cx: &Cx| -> Result<(), BoxError> {
            let is_own_stop = std::mem::take(&mut shared.state().is_own_stop);
            match event.status {
                RunStatus::Completed => {}
                RunStatus::Aborted if is_own_stop => {}
                RunStatus::Aborted => {
                    shared.apply(GoalInput::Stopped { reason: event.error.clone() }, cx).await?;
                }
                RunStatus::Error => {
                    let error = event.error.clone().unwrap_or_else(|| "the run failed".to_owned());
                    shared.apply(GoalInput::Failed { error: cut(&redact(&error, cx), 400) }, cx).await?;
                }
            }
            Ok(())
        },
    );
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |_: &SessionEnd, cx: &Cx| {
        own.state().run = None;
        own.deliver_retry(cx);
    });
}

fn handle_turns(shared: &Arc<Shared>, scope: &Scope) {
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |event: &TurnAfter, cx: &Cx| {
        let mut state = own.state();
        state.answer = None;
        let Some(message) = event.message.as_ref().filter(|_| state.has_active_goal()) else { return };
        let said = message.text();
        let mut calls = Vec::new();
        if state.is_driven() {
            calls.extend(message.calls().map(|call| format!("{} {}", call.name, call.args)));
            state.record.add_answer(&said, &calls, &|text| redact(text, cx));
        }
        let answer = message.calls().next().is_none().then_some(said);
        state.answer = Some(PendingTurn { answer, calls: calls.join("\n"), error: event.error.clone() });
    });
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |event: &ToolResultsAfter, cx: &Cx| {
        let mut state = own.state();
        if state.is_driven() {
            state.record.add_results(&event.results, &|text| redact(text, cx));
        }
    });
    let own = shared.clone();
    scope.on_sync_at(Reach::Own, move |event: &ToolAfter, _: &Cx| {
        if let Some(Display::Checklist { items, .. }) = &event.display {
            let is_done = |state: &CheckState| matches!(state, CheckState::Done);
            own.state().is_plan_finished = !items.is_empty() && items.iter().all(|item| is_done(&item.state));
        }
    });
}

fn handle_spending(shared: &Arc<Shared>, scope: &Scope) {
    // Sub-agents' spending counts as it arrives.
    let at = HookOptions {
        reach: Some(Reach::Descendants),
        time_limit: Some(shared.settings.pause().saturating_add(EXTRA_TIME)),
        ..HookOptions::default()
    };
    scope.on_async_with_at(
        at,
        shared.clone(),
        async |shared: &Arc<Shared>, event: &UsageUpdate, cx: &Cx| -> Result<(), BoxError> {
            let is_own_turn = cx.origin().depth == 0;
            let by = if is_own_turn { Spender::Turn } else { Spender::Other };
            shared.apply(GoalInput::Spent { usd: event.turn.cost, by }, cx).await?;
            let pending = if is_own_turn { shared.state().answer.take() } else { None };
            // A failed answer is counted when its run ends with the error.
            if let Some(pending) = pending.filter(|pending| pending.error.is_none()) {
                let PendingTurn { answer, calls, .. } = pending;
                let is_plan_finished = shared.state().is_plan_finished;
                shared.apply(GoalInput::Turn { answer, calls, is_plan_finished }, cx).await?;
            }
            Ok(())
        },
    );
    scope.on_async_with_at(
        Reach::Own,
        shared.clone(),
        async |shared: &Arc<Shared>, event: &RunBudgetReached, cx: &Cx| -> Result<(), BoxError> {
            if matches!(event.outcome, BudgetOutcome::Stopped) {
                let reason = event.budget.describe_shortage(event.spent, event.wanted);
                shared.apply(GoalInput::CapReached(reason), cx).await?;
            }
            Ok(())
        },
    );
    let at = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    scope.on_async_with_at(
        at,
        shared.clone(),
        async |shared: &Arc<Shared>, event: &SideCallEnd, cx: &Cx| -> Result<(), BoxError> {
            let is_verdict = event.purpose == SUPERVISOR_PART && event.source == shared.source().to_string();
            let by = if is_verdict { Spender::Verdict } else { Spender::Other };
            shared.apply(GoalInput::Spent { usd: event.usage.cost, by }, cx).await
        },
    );
}

fn handle_decisions(shared: &Arc<Shared>, scope: &Scope) {
    scope.on_async_with_at(
        HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() },
        shared.clone(),
        async |shared: &Arc<Shared>, event: &PermissionDecided, cx: &Cx| -> Result<(), BoxError> {
            let is_waiting = !event.allowed && event.by == DecidedBy::Nobody;
            if is_waiting && shared.state().is_driven() {
                let args = cut(&redact(&event.args.to_string(), cx), MAX_QUESTION_BYTES);
                let decision = format!("whether `{}` may run with {args}", event.call.name);
                // The decision of the gate stands, even if it cannot be listed.
                let _ = shared.apply(GoalInput::Waiting(decision), cx).await;
            }
            Ok(())
        },
    );
}

/// Lists questions to the person among the goal's open decisions while they are pending.
fn follow_questions(shared: &Arc<Shared>, cx: &Cx) {
    let Some(questions) = cx.service::<Questions>() else { return };
    let scope = {
        let mut state = shared.state();
        if std::mem::replace(&mut state.follows_questions, true) {
            return;
        }
        state.scope.clone()
    };
    let Some(scope) = scope else { return };
    let shared = Arc::downgrade(shared);
    let cx = cx.bus().cx();
    scope.spawn(async move {
        let mut changes = questions.subscribe();
        while changes.changed().await.is_ok() {
            let Some(shared) = shared.upgrade() else { return };
            if !shared.state().is_driven() {
                continue;
            }
            let pending = questions.pending();
            let input = match pending.first() {
                Some(first) => GoalInput::Waiting(question_line(&first.question, &|text| redact(text, &cx))),
                None => GoalInput::Decided,
            };
            let _ = shared.apply(input, &cx).await;
        }
    });
}

/// Redacts secrets. Texts are redacted before they are cut, because a part of a secret is not recognised.
fn redact(text: &str, cx: &Cx) -> String {
    match cx.service::<Redactor>() {
        Some(redactor) => redactor.redact(text).into_owned(),
        None => text.to_owned(),
    }
}

/// Returns the redacted text of a question, cut to the size limit.
pub(crate) fn question_line(question: &Question, redact: &dyn Fn(&str) -> String) -> String {
    let text = match question {
        Question::Approve(approval) => format!("whether `{}` may run with {}", approval.tool, approval.args),
        Question::Confirm { text } | Question::Input { text } => text.clone(),
        Question::Trust(request) => request.text.clone(),
        Question::Select(selection) => selection.text.clone(),
    };
    cut(&redact(&text), MAX_QUESTION_BYTES)
}
