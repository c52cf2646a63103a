use std::sync::Arc;

use zk_core::events::{
    AgentAbort, AgentBeforeStart, AgentDone, AgentStart, CompactionStage, ContextCompaction, ContextReduced,
    MessagesCause, SessionBeforeEnd, SessionEnd, SessionLoaded, SessionStart, SteerInject, SteerKind,
    SystemBefore,
};
use zk_core::kernel::{Cx, ScopeGuard};
use zk_core::model::{AgentError, Message, Role, StopReason};
use zk_core::service::{CustomEntry, Leg, QUERY_CONTEXT, RunStatus, TurnCwd, UnfinishedRun};

use super::control::Control;
use super::leg::{end_turn, stored_result};
use super::leg_children::add_leg_services;
use super::shared::RunShared;
use crate::agent::AgentInner;
use crate::budget::{BudgetChain, Estimator, Ledger};
use crate::context::system_prompt;
use crate::gates;
use crate::run::take_queued;
use crate::run::{Lineage, RunLimits};
use crate::run::{RunModels, RunSpending, RunState, SystemPrompt};
use crate::tools::{CallHistory, Toolbox};
use crate::turn::OutputTool;
use crate::{ErrorFormatter, Machine, Next, RunOptions, RunOutcome, Seen, Stop};

/// Driver of one run: carries out the steps of the [`Machine`].
pub(crate) struct Driver {
    state: RunState,
    options: RunOptions,
    /// Number of messages in the history at the start of the run.
    from: usize,
    /// Run as earlier legs left it, if this run is a leg.
    unfinished: Option<Box<UnfinishedRun>>,
}

impl Driver {
    pub(crate) fn new(
        agent: Arc<AgentInner>,
        shared: Arc<RunShared>,
        options: RunOptions,
        lineage: Lineage,
    ) -> Self {
        let (model, thinking, chosen, from, context, session, cwd, unfinished) = {
            let mut state = agent.state();
            let unfinished = state.unfinished.take_if(|run| options.leg.as_ref() == Some(&run.run_id));
            (
                options.model.clone().unwrap_or_else(|| state.model.clone()),
                options.thinking.unwrap_or(state.thinking),
                (state.model.reference(), state.thinking),
                state.history.len(),
                state.context.clone(),
                state.session.clone(),
                state.cwd.clone(),
                unfinished.map(Box::new),
            )
        };
        let behavior = options.behavior.clone().or(&agent.behavior);
        let output = behavior.schema.clone().map(|schema| Arc::new(OutputTool::new(schema)));
        let system = options.system.clone().map_or_else(|| agent.system.clone(), Arc::from);
        let tools = options.tools.clone().unwrap_or_else(|| agent.tools.clone());
        agent.ledger.iter().for_each(|ledger| ledger.begin_run());
        let ledger = options.leg.as_ref().map(|_| {
            // The budget is that of the run, which its legs share.
            Ledger::of_run(agent.behavior.budget, unfinished.as_ref().map(|run| &run.budget))
        });
        let own = options.behavior.budget.and_then(Ledger::new);
        let of_agent = ledger.clone().or_else(|| agent.ledger.clone());
        let budgets = BudgetChain::new(own.into_iter().chain(of_agent), lineage.budgets());
        let limits = RunLimits {
            tools: tools.clone(),
            allowed_tools: behavior.allowed_tools.clone(),
            tool_budgets: behavior.tool_budgets.clone(),
        };
        let control = Control::new(agent.clone(), shared.clone(), model.clone(), tools, budgets.clone());
        let cx = control.run_cx(context).with_service(Arc::new(budgets.clone()));
        let unfinished_run = unfinished.as_deref();
        let cx = add_leg_services(cx, options.leg.is_some(), unfinished_run, ledger.as_ref(), &lineage);
        let cx = cx.with_service(Arc::new(lineage));
        let cx = cx.with_service(Arc::new(TurnCwd(cwd.clone()))).with_service(Arc::new(limits));
        let cx = match &session {
            Some(session) => cx.with_service(Arc::new(session.clone())),
            None => cx,
        };
        let state = RunState {
            toolbox: Toolbox::default(),
            calls: CallHistory::default(),
            agent,
            shared,
            cx,
            models: RunModels { own: model.clone(), unknown: None, chosen },
            model,
            thinking,
            behavior,
            prompt: SystemPrompt { text: system, sections: Arc::default() },
            output,
            last: None,
            sent: Vec::new(),
            session,
            cwd,
            cut_at: None,
            spending: RunSpending { budgets, estimator: Estimator::default() },
        };
        Self { state, options, from, unfinished }
    }

    pub(crate) async fn run(mut self) -> RunOutcome {
        if let Some(status) = self.unfinished.as_ref().and_then(|run| run.ended) {
            match self.state.has_late_mail(status).await {
                Ok(true) => {}
                Ok(false) => return self.stored_outcome(stored_result(status)),
                Err(error) => {
                    let error = self.state.leaving_error(error);
                    return self.stored_outcome(Err(error));
                }
            }
        }
        // Starts tasks that plugins spawned before there was a runtime.
        self.state.agent.bus.warm_up();
        let (scopes, mut conducted) = match self.install_plugins_and_gates() {
            Ok(scopes) => (scopes, self.run_phases().await),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let Err(error @ AgentError::Budget { .. }) = conducted {
            conducted = Err(self.state.wait_for_budget(error).await);
        }
        // A stopped run ends as stopped, whatever its error was.
        let result = match conducted.map_err(|error| self.state.leaving_error(error)) {
            Err(error @ (AgentError::Fenced | AgentError::HandedOver | AgentError::StoreFailed { .. })) => {
                Err(error)
            }
            Err(_) if self.state.shared.stop.is_cancelled() => Err(AgentError::Aborted),
            result => result,
        };
        self.state.agent.record_answer(&self.state.model.reference().to_string(), result.as_ref().err());
        let outcome = self.finish_run(result).await;
        // Closed after the end was announced, so that the run's plugins receive it.
        for scope in scopes.into_iter().rev() {
            scope.close().await;
        }
        outcome
    }

    /// Returns the outcome of a run whose end an earlier leg stored already.
    fn stored_outcome(self, result: Result<(), AgentError>) -> RunOutcome {
        let history = self.state.agent.state().history.clone();
        let last = history.iter().rev().find(|message| message.role == Role::Assistant);
        RunOutcome {
            run_id: self.state.shared.id.clone(),
            result,
            text: last.map(|message| message.text()).unwrap_or_default(),
            stop: last.and_then(|message| message.stop.clone()),
            stats: self.state.shared.snapshot(),
            unsent: self.state.shared.queues().close(),
            abort_reason: None,
        }
    }

    /// Installs the plugins and gates of this run; dropping the guards removes them.
    fn install_plugins_and_gates(&self) -> Result<Vec<ScopeGuard>, AgentError> {
        let RunState { agent, behavior, shared, .. } = &self.state;
        let bus = &agent.bus;
        let mut scopes = Vec::new();
        for plugin in &self.options.plugins {
            let scope = bus.install(&**plugin).map_err(|error| AgentError::Usage(error.to_string()))?;
            scopes.push(scope.close_on_drop());
        }
        let gates = bus.scope("zk-agent").close_on_drop();
        let weak = Arc::downgrade(agent);
        gates.scope().on_sync(move |_: &ContextReduced, _: &Cx| {
            if let Some(agent) = weak.upgrade() {
                agent.state().prefix.note_reduction();
            }
        });
        let weak = Arc::downgrade(agent);
        gates.scope().on_sync(move |event: &ContextCompaction, _: &Cx| {
            let is_longer = matches!(event.stage, CompactionStage::Undone | CompactionStage::Restored);
            if let Some(agent) = weak.upgrade().filter(|_| is_longer) {
                agent.state().prefix.note_reduction();
            }
        });
        gates::install(gates.scope(), behavior, shared, agent);
        scopes.push(gates);
        Ok(scopes)
    }

    async fn run_phases(&mut self) -> Result<(), AgentError> {
        self.state.store_pending().await?;
        if self.state.shared.stop.is_cancelled() {
            return Err(AgentError::Aborted);
        }
        if self.unfinished.is_some() && self.options.prompt.is_some() {
            return Err(AgentError::Usage(
                "a leg that goes on with a run takes no prompt; post the text as mail to the session".into(),
            ));
        }
        self.announce_restored().await?;
        let Some((prompt, added_by_input)) =
            self.state.pass_prompt_through_input(self.options.prompt.take()).await?
        else {
            return Ok(());
        };
        self.state
            .cx
            .emit(SessionStart {
                session_id: self.state.session.clone(),
                run_id: self.state.shared.id.clone(),
                messages: self.from,
            })
            .await?;
        let prompt = prompt.map(|content| Message::user(content).identified().shared());
        let (system, sections) = system_prompt(&self.state.cx, &self.state.prompt.text).await?;
        self.state.prompt.sections = sections.into();
        let start = self
            .state
            .cx
            .emit(AgentBeforeStart { prompt: prompt.clone(), system, messages: Vec::new() })
            .await?;
        self.state.prompt.text = start.system.into();
        let is_context = |message: &Arc<Message>| message.injected_by.as_deref() == Some(QUERY_CONTEXT);
        let (mut asked, added): (Vec<_>, Vec<_>) = start.messages.into_iter().partition(is_context);
        let has_prompt = prompt.is_some();
        asked.extend(prompt);
        if !asked.is_empty() {
            self.state.commit(self.state.messages_commit(asked, MessagesCause::Prompt)).await?;
        }
        let waited =
            if has_prompt { std::mem::take(&mut self.state.agent.state().next_prompt) } else { Vec::new() };
        let before_start = added_by_input.into_iter().chain(waited);
        let before_start = before_start.map(|message| message.identified().shared());
        let added: Vec<_> = before_start.chain(added).collect();
        if !added.is_empty() {
            self.state.commit(self.state.messages_commit(added, MessagesCause::Harness)).await?;
        }
        if self.options.system.is_some() {
            self.state.cx.emit(SystemBefore { system: self.state.prompt.text.clone() }).await?;
        }
        let tools = self.options.tools.clone().unwrap_or_else(|| self.state.agent.tools.clone());
        self.state.toolbox = Toolbox::new(tools, self.state.agent.aliases.clone());
        self.state.snapshot_tools().await?;
        if let Some(output) = self.state.output.clone() {
            let provider = self.state.agent.provider_of(&self.state.model)?;
            output.record_native(&*provider, &self.state.model, !self.state.toolbox.specs().is_empty());
            if !output.is_native() {
                self.state.toolbox.add_output(output);
            }
        }
        self.state
            .cx
            .emit(AgentStart {
                run_id: self.state.shared.id.clone(),
                model: self.state.model.reference(),
                thinking: self.state.thinking.level,
                tools: self.state.toolbox.offered_names(),
                missing_tools: self.state.toolbox.missing_names(),
            })
            .await?;
        self.run_turns_until_done().await
    }

    /// Announces the stored entries of a loaded conversation to plugins, once.
    async fn announce_restored(&self) -> Result<(), AgentError> {
        let Some(entries) = self.state.agent.state().restored.clone() else { return Ok(()) };
        self.state.cx.emit(SessionLoaded { session_id: self.state.session.clone(), entries }).await?;
        self.state.agent.state().restored = None;
        Ok(())
    }

    async fn run_turns_until_done(&mut self) -> Result<(), AgentError> {
        let mut machine = self.new_machine();
        let mut left_open = None;
        loop {
            if self.options.leg.is_some() {
                Box::pin(self.state.read_mail()).await?;
            }
            let seen = {
                let queues = self.state.shared.queues();
                let has_turns_left = self.state.behavior.max_turns.is_none_or(|most| machine.turns() < most);
                Seen {
                    aborted: self.state.shared.stop.is_cancelled(),
                    steering: !queues.steer.is_empty() || (has_turns_left && !queues.notices.is_empty()),
                    follow_up: !queues.follow_up.is_empty(),
                    hand_over: self.state.is_leaving(),
                }
            };
            let before = machine.clone();
            match machine.next(seen) {
                Next::Turn(number) => left_open = end_turn(&mut machine, self.state.turn(number).await)?,
                Next::Settle(number) => {
                    let open = self.unfinished.as_mut().and_then(|run| run.open_turn.take());
                    let Some(open) = open else { return Err(AgentError::Aborted) };
                    // Boxed, because it is rare and its future is as large as that of a turn.
                    let settled = Box::pin(self.state.finish_open_turn(number, open)).await;
                    left_open = end_turn(&mut machine, settled)?;
                }
                next @ (Next::Steer | Next::FollowUp) => {
                    let kind = if next == Next::Steer { SteerKind::Steer } else { SteerKind::FollowUp };
                    if !self.deliver_queued(kind).await? {
                        // No message was delivered, so that the machine returns to its state before the step.
                        machine = before;
                    }
                }
                Next::Stop(Stop::Done) if self.options.leg.is_some() => {
                    let max_turns = self.state.behavior.max_turns;
                    let has_turns_left = max_turns.is_none_or(|most| machine.turns() < most);
                    if !Box::pin(self.state.take_results_of_children(has_turns_left)).await? {
                        return self.check_output();
                    }
                    machine = before;
                }
                Next::Stop(Stop::Done) => return self.check_output(),
                Next::Stop(Stop::Aborted) => return Err(AgentError::Aborted),
                Next::Stop(Stop::Parked | Stop::Handover) => {
                    return Err(left_open.take().unwrap_or(AgentError::HandedOver));
                }
                Next::Stop(Stop::TurnLimit(turns)) => return Err(AgentError::TurnLimit { turns }),
            }
        }
    }

    /// Creates the machine of the run, or of the leg that continues it.
    fn new_machine(&self) -> Machine {
        let max_turns = self.state.behavior.max_turns;
        if self.options.leg.is_none() {
            return Machine::new(max_turns);
        }
        let (turns, is_open) = match &self.unfinished {
            Some(run) => (run.turns, run.open_turn.is_some()),
            None => (0, false),
        };
        let mut machine = Machine::resume(max_turns, turns, is_open);
        let is_pending = self.state.agent.state().history.last().is_some_and(|last| {
            last.role == Role::User || last.stop.as_ref().is_some_and(StopReason::is_broken_off)
        });
        if !is_open && !is_pending {
            // The model was done, or there is no prompt yet, so that only mail begins another turn.
            machine.turn_done(true);
        }
        machine
    }

    fn check_output(&self) -> Result<(), AgentError> {
        match &self.state.output {
            Some(output) if output.value().is_none() => Err(AgentError::Output(
                "the model ended without giving the output; its answer is in the history".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Delivers queued messages to the conversation; returns false if handlers of `input` consumed all of
    /// them.
    async fn deliver_queued(&self, kind: SteerKind) -> Result<bool, AgentError> {
        let mode = self.state.behavior.queue_mode.unwrap_or_default();
        let notices = std::mem::take(&mut self.state.shared.queues().notices);
        let has_notices = !notices.is_empty();
        if has_notices {
            self.state.commit(self.state.messages_commit(notices, MessagesCause::Harness)).await?;
        }
        let messages = {
            let mut queues = self.state.shared.queues();
            match kind {
                SteerKind::Steer => take_queued(&mut queues.steer, mode),
                SteerKind::FollowUp => {
                    take_queued(&mut queues.follow_up, self.state.behavior.follow_up_mode.unwrap_or(mode))
                }
            }
        };
        if messages.is_empty() {
            return Ok(has_notices);
        }
        let read = match self.state.pass_messages_through_input(&messages).await {
            Ok(read) => read,
            Err(error) => {
                self.state.shared.queues().put_back(kind, messages);
                return Err(error);
            }
        };
        let inject = SteerInject { kind, messages: read.clone(), sent: messages.clone() };
        if let Err(error) = self.state.cx.emit(inject).await {
            // Messages that a handler of `input` consumed do not return to the queue.
            let is_left = |message: &Arc<Message>| read.iter().any(|kept| kept.id == message.id);
            self.state.shared.queues().put_back(kind, messages.into_iter().filter(is_left).collect());
            return Err(error.into());
        }
        self.state.take_consumed_mail(&messages, &read);
        if read.is_empty() {
            return Ok(has_notices);
        }
        let cause = match kind {
            SteerKind::Steer => MessagesCause::Steer,
            SteerKind::FollowUp => MessagesCause::FollowUp,
        };
        self.state.commit(self.state.messages_commit(read, cause)).await?;
        Ok(true)
    }

    async fn finish_run(self, mut result: Result<(), AgentError>) -> RunOutcome {
        let status = match &result {
            Ok(()) => RunStatus::Completed,
            Err(AgentError::Aborted) => RunStatus::Aborted,
            Err(
                AgentError::ContextExceeded(_)
                | AgentError::Provider(_)
                | AgentError::Hook(_)
                | AgentError::TurnLimit { .. }
                | AgentError::Budget { .. }
                | AgentError::Parked { .. }
                | AgentError::AwaitsTime { .. }
                | AgentError::HandedOver
                | AgentError::AwaitsChildren { .. }
                | AgentError::Fenced
                | AgentError::StoreFailed { .. }
                | AgentError::Stuck { .. }
                | AgentError::Unguarded { .. }
                | AgentError::Usage(_)
                | AgentError::Output(_),
            ) => RunStatus::Error,
        };
        if let Some(leg) = self.state.cx.service::<Leg>()
            && let Err(
                AgentError::Parked { question: Some(_), .. }
                | AgentError::AwaitsTime { .. }
                | AgentError::AwaitsChildren { .. }
                | AgentError::Budget { .. }
                | AgentError::HandedOver
                | AgentError::StoreFailed { .. }
                | AgentError::Fenced,
            ) = &result
        {
            leg.end_with_more();
        }
        let run_id = self.state.shared.id.clone();
        let abort_reason = self.state.shared.abort_reason();
        if let Some(output) = self.state.output.as_ref().and_then(|output| output.value()) {
            self.state.shared.stats().output = Some(output);
        }
        let stats = self.state.shared.snapshot();
        let text = self.state.last.as_ref().map(|message| message.text()).unwrap_or_default();
        let stop = self.state.last.as_ref().and_then(|message| message.stop.clone());
        if status == RunStatus::Aborted {
            let abort = AgentAbort { run_id: run_id.clone(), reason: abort_reason.clone() };
            keep_closing_error(&mut result, self.state.cx.emit(abort).await);
        }
        let error = result.as_ref().err().map(|error| match (error, &abort_reason) {
            (AgentError::Aborted, Some(reason)) => format!("{error}: {reason}"),
            _ => match self.state.cx.service::<ErrorFormatter>() {
                Some(words) => words.describe(error),
                None => error.to_string(),
            },
        });
        let done =
            AgentDone { run_id: run_id.clone(), status, error, text: text.clone(), stats: stats.clone() };
        keep_closing_error(&mut result, self.state.cx.emit(done).await);
        let entries = self.collect_closing_entries(status).await;
        let to = self.state.agent.state().history.len();
        let end = SessionEnd {
            session_id: self.state.session.clone(),
            run_id: run_id.clone(),
            status,
            from: self.from,
            to,
            entries,
        };
        keep_closing_error(&mut result, self.state.cx.emit(end).await);
        let unsent = self.state.shared.queues().close();
        let result = result.map_err(|error| self.state.leaving_error(error));
        RunOutcome { run_id, result, text, stop, stats, unsent, abort_reason }
    }

    /// Collects the entries to append at the end of the run: those of plugins, and a record of the last
    /// request, with which the next process compares its first request.
    async fn collect_closing_entries(&self, status: RunStatus) -> Vec<CustomEntry> {
        let mut entries = self.collect_plugin_entries(status).await;
        let state = self.state.agent.state();
        let is_answered = state.history.iter().any(|message| message.role == Role::Assistant);
        if self.state.session.is_some() && is_answered {
            let source = self.state.agent.bus.scope("zk-agent").source().clone();
            entries.extend(state.prefix.entry().map(|entry| entry.by(&source)));
        }
        entries
    }

    async fn collect_plugin_entries(&self, status: RunStatus) -> Vec<CustomEntry> {
        if !self.state.cx.bus().has_handlers::<SessionBeforeEnd>() {
            return Vec::new();
        }
        let (session_id, run_id) = (self.state.session.clone(), self.state.shared.id.clone());
        let before = SessionBeforeEnd { session_id, run_id, status, entries: Vec::new() };
        // Emitting this event does not fail: a failing handler is reported and ignored.
        self.state.cx.emit(before).await.map(|before| before.entries).unwrap_or_default()
    }
}

/// Makes a failed closing event the result of a run that was successful so far.
fn keep_closing_error(result: &mut Result<(), AgentError>, closing: Result<(), zk_core::kernel::EmitError>) {
    if let (Ok(()), Err(error)) = (&result, closing) {
        *result = Err(error.into());
    }
}
