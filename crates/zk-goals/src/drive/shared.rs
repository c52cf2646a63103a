use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use zk_core::events::{GoalChanged, GoalState, ViewBlock};
use zk_core::kernel::{BoxError, Cx, Scope, Source};
use zk_core::model::{Display, Message};
use zk_core::service::{
    CustomEntry, Delivery, Entry, EntryKind, MessageDelivery, NewEntry, RunControl, RunningAgents,
    SessionLog, visible_line,
};

use super::record::WorkRecord;
use super::supervisor;
use crate::GoalSettings;
use crate::goal::{Goal, GoalEffect, GoalInput, GoalMachine, GoalSpec};

/// Name of the plugin, and the source of its messages and entries.
pub(super) const SOURCE: &str = "goals";

/// Kind of the entries in a session that hold the goal.
const KIND: &str = "goal";

/// Version of the data in entries of kind [`KIND`].
const VERSION: u32 = 1;

/// Maximum pause before a run after failed ones.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Next run of an autonomous goal, after a failed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalRetry {
    /// Message with which the run begins.
    pub message: String,
    /// Pause before the run.
    pub pause: Duration,
}

pub(super) struct Shared {
    pub(super) settings: GoalSettings,
    pub(super) state: Mutex<State>,
    /// Lock that makes each decision and its storage one step.
    pub(super) turn: tokio::sync::Mutex<()>,
}

pub(super) struct State {
    pub(super) machine: GoalMachine,
    pub(super) scope: Option<Scope>,
    /// Control of the present run of the root agent.
    pub(super) run: Option<Weak<dyn RunControl>>,
    /// Whether the plugin itself stopped the present run.
    pub(super) is_own_stop: bool,
    /// Whether the goal was read before the first run announced the conversation.
    pub(super) is_read_ahead: bool,
    pub(super) is_loaded: bool,
    pub(super) answer: Option<PendingTurn>,
    pub(super) is_plan_finished: bool,
    pub(super) retry: Option<GoalRetry>,
    pub(super) record: WorkRecord,
    /// Whether a task already follows the questions to the person.
    pub(super) follows_questions: bool,
    pub(super) blocks: u64,
    /// Number and state of the goal that was last shown to the person.
    pub(super) shown: Option<(u64, GoalState)>,
}

/// Answer of the model that has not been counted yet.
#[derive(Debug)]
pub(super) struct PendingTurn {
    pub(super) answer: Option<String>,
    pub(super) calls: String,
    pub(super) error: Option<String>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Goals").field("goal", &self.state().machine.goal()).finish_non_exhaustive()
    }
}

impl State {
    /// Whether there is a goal towards which turns count.
    pub(super) fn has_active_goal(&self) -> bool {
        self.machine.state() == Some(GoalState::Active)
    }

    /// Whether the conversation works towards the goal by itself.
    pub(super) fn is_driven(&self) -> bool {
        self.machine.goal().is_some_and(Goal::is_driven)
    }

    /// Returns the control of the present run, unless the run is over.
    pub(super) fn run(&self) -> Option<Arc<dyn RunControl>> {
        self.run.as_ref()?.upgrade()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn source(&self) -> Source {
        self.state().scope.as_ref().map_or_else(|| Source::new(SOURCE), |scope| scope.source().clone())
    }

    /// Reads the goal from the session, unless it was read before.
    pub(super) async fn load_goal(&self, cx: &Cx) -> Result<(), BoxError> {
        let scope = {
            let state = self.state();
            if state.is_loaded {
                return Ok(());
            }
            state.scope.clone()
        };
        let entries = match (cx.service::<dyn SessionLog>(), scope) {
            (Some(log), Some(scope)) => log.entries(&scope).await?,
            (Some(_) | None, _) => Vec::new(),
        };
        let mut state = self.state();
        if !state.is_loaded {
            state.machine.restore(entries.iter().rev().find_map(goal_in));
            (state.is_loaded, state.is_read_ahead) = (true, true);
        }
        Ok(())
    }

    /// Replaces the goal by that of a loaded branch.
    pub(super) fn restore_goal(&self, entries: &[Entry]) {
        let source = self.source().to_string();
        let goal = entries.iter().rev().find_map(|entry| match &entry.kind {
            EntryKind::Custom(own) if own.source == source => goal_in(own),
            _ => None,
        });
        let mut state = self.state();
        state.machine.restore(goal);
        state.record.clear();
        state.is_loaded = true;
        (state.retry, state.answer, state.is_plan_finished) = (None, None, false);
    }

    pub(super) async fn begin_goal(self: &Arc<Self>, spec: GoalSpec, cx: &Cx) -> Result<(), BoxError> {
        self.load_goal(cx).await?;
        let open = self.state().machine.goal().filter(|goal| goal.is_open()).cloned();
        if let Some(active) = open {
            let text = visible_line(&super::record::cut(active.spec.text(), 80));
            return Err(crate::GoalError::Active { text }.into());
        }
        let spec = if spec.is_autonomous() {
            if !self.settings.autonomous {
                return Err(crate::GoalError::NotAllowed.into());
            }
            let (turns, budget) = (spec.max_turns().unwrap_or(self.settings.max_turns), spec.budget());
            spec.autonomous(Some(turns), budget)
        } else {
            spec
        };
        {
            let mut state = self.state();
            state.record.clear();
            // The plan of an earlier goal does not count for this one.
            state.is_plan_finished = false;
        }
        self.apply(GoalInput::Set(spec), cx).await
    }

    /// Applies an input, and carries out its effects.
    pub(super) async fn apply(self: &Arc<Self>, input: GoalInput, cx: &Cx) -> Result<(), BoxError> {
        let effects = {
            let _one_at_a_time = self.turn.lock().await;
            let effects = {
                let mut state = self.state();
                let before = state.machine.state();
                if matches!(input, GoalInput::Resume { .. }) {
                    // A goal that goes on has more to do than its finished plan.
                    state.is_plan_finished = false;
                }
                let effects = state.machine.apply(input);
                let is_capped = state.machine.state() == Some(GoalState::Capped);
                drop(state);
                if is_capped && before != Some(GoalState::Capped) {
                    stop_agents("the goal has reached its cap", cx);
                }
                effects
            };
            self.store_and_announce(&effects, cx).await?;
            effects
        };
        for effect in effects {
            match effect {
                GoalEffect::Store | GoalEffect::Announce => {}
                GoalEffect::AskSupervisor => self.ask_supervisor(cx),
                GoalEffect::Continue(message) => self.continue_run(message, cx).await,
                GoalEffect::Retry { message, failures } => {
                    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
                    let pause = self.settings.pause().saturating_mul(factor).min(MAX_RETRY_PAUSE);
                    self.state().retry = Some(GoalRetry { message, pause });
                }
                GoalEffect::StopRun(reason) => {
                    let run = {
                        let mut state = self.state();
                        state.is_own_stop = true;
                        state.run()
                    };
                    if let Some(run) = run {
                        run.abort(&format!("goal: {reason}"));
                    }
                }
            }
        }
        Ok(())
    }

    async fn store_and_announce(&self, effects: &[GoalEffect], cx: &Cx) -> Result<(), BoxError> {
        if effects.is_empty() {
            return Ok(());
        }
        let Some(goal) = self.state().machine.goal().cloned() else { return Ok(()) };
        if effects.contains(&GoalEffect::Store) {
            let scope = self.state().scope.clone();
            if let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), scope) {
                let data = serde_json::to_value(&goal)?;
                log.append(&scope, NewEntry::hidden(KIND, VERSION, data)).await?;
            }
        }
        if effects.contains(&GoalEffect::Announce) {
            cx.emit(goal.changed()).await?;
            // A pending decision is shown by the question itself.
            let now = Some((goal.number, goal.state));
            let is_new = std::mem::replace(&mut self.state().shown, now) != now;
            if is_new {
                self.show_line(&change_line(&goal.changed()), cx).await?;
            }
        }
        Ok(())
    }

    /// Shows a line to the person.
    pub(super) async fn show_line(&self, line: &str, cx: &Cx) -> Result<(), BoxError> {
        let key = {
            let mut state = self.state();
            state.blocks += 1;
            state.blocks.to_string()
        };
        let block = ViewBlock {
            source: self.source().to_string(),
            key,
            kind: KIND.to_owned(),
            title: "goal".to_owned(),
            body: Display::Line { text: visible_line(line) },
            last: true,
        };
        Ok(cx.emit(block).await?)
    }

    /// Continues the present run with `message` after the pause, unless the goal changed meanwhile.
    async fn continue_run(&self, message: String, cx: &Cx) {
        let number =
            |state: &State| state.machine.goal().filter(|goal| goal.is_driven()).map(|goal| goal.number);
        let before = number(&self.state());
        tokio::select! {
            () = tokio::time::sleep(self.settings.pause()) => {}
            () = cx.stop_token().cancelled() => return,
        }
        let (now, run) = {
            let state = self.state();
            (number(&state), state.run())
        };
        if now.is_none() || now != before {
            return;
        }
        if let Some(run) = run
            && run.follow_up(Message::injected(message.clone(), SOURCE)).is_err()
        {
            // The present run ended, so that the next run delivers the message.
            self.state().retry = Some(GoalRetry { message, pause: Duration::ZERO });
        }
    }

    /// Begins the next run after a failed one, if the conversation accepts messages at any time.
    pub(super) fn deliver_retry(self: &Arc<Self>, cx: &Cx) {
        let Some(delivery) = cx.service::<dyn MessageDelivery>() else { return };
        let (retry, scope) = {
            let mut state = self.state();
            (state.retry.take(), state.scope.clone())
        };
        let (Some(retry), Some(scope)) = (retry, scope) else { return };
        let shared = self.clone();
        scope.spawn(async move {
            tokio::time::sleep(retry.pause).await;
            if shared.state().is_driven() {
                let message = Message::injected(retry.message, SOURCE);
                // A conversation that has ended accepts no message; its goal stays in the session.
                let _ = delivery.deliver(message, Delivery::FollowUp).await;
            }
        });
    }

    /// Asks the supervisor in the background.
    fn ask_supervisor(self: &Arc<Self>, cx: &Cx) {
        let (scope, run) = {
            let state = self.state();
            (state.scope.clone(), state.run())
        };
        if let (Some(scope), Some(run)) = (scope, run) {
            let (shared, cx) = (self.clone(), cx.clone());
            scope.spawn(async move { supervisor::ask_for_verdict(&shared, run, &cx).await });
        }
    }
}

/// Stops the conversation's sub-agents, which would otherwise continue in the background.
pub(crate) fn stop_agents(reason: &str, cx: &Cx) {
    if let Some(agents) = cx.service::<dyn RunningAgents>() {
        agents.stop_all(reason);
    }
}

/// Returns the goal in an entry of this plugin.
fn goal_in(entry: &CustomEntry) -> Option<Goal> {
    let is_own = entry.kind == KIND && entry.version == VERSION;
    entry.data.read().ok().filter(|_| is_own)
}

/// Returns the line that tells a person of a change of the goal.
fn change_line(changed: &GoalChanged) -> String {
    let GoalChanged { text, state, reason, turns, cost, waiting, .. } = changed;
    let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let waiting = waiting.last().map(|line| format!("; waits for you: {line}")).unwrap_or_default();
    format!("{state}{reason} after {turns} turns and ${cost:.4}: {}{waiting}", super::record::cut(text, 120))
}
