use std::path::PathBuf;
use std::sync::Arc;

use zk_core::events::{
    AgentAbort, AgentBeforeStart, AgentDone, AgentStart, CompactionStage, ContextCompaction, ContextReduced,
    MessagesCause, SectionSize, SessionBeforeEnd, SessionEnd, SessionLoaded, SessionStart, SteerInject,
    SteerKind, SystemBefore,
};
use zk_core::kernel::{Cx, ScopeGuard};
use zk_core::model::{AgentError, Message, Model, ModelRef, Role, SessionId, ThinkingRequest};
use zk_core::service::{CustomEntry, QUERY_CONTEXT, RunStatus, TurnCwd};

use crate::budget::{Estimator, Ledger, Purse};
use crate::control::Control;
use crate::gates;
use crate::inner::AgentInner;
use crate::output::OutputTool;
use crate::run::{Lineage, RunLimits};
use crate::sections;
use crate::shared::RunShared;
use crate::steer::take;
use crate::tools::Toolbox;
use crate::{Behavior, ErrorFormatter, Machine, Next, RunOptions, RunOutcome, Seen, Stop};

/// Does what the [`Machine`] says, for one run.
pub(crate) struct Driver {
    pub(crate) agent: Arc<AgentInner>,
    pub(crate) shared: Arc<RunShared>,
    pub(crate) cx: Cx,
    /// The model of the present turn.
    pub(crate) model: Model,
    /// Model of the run, which a plugin may replace for a turn.
    pub(crate) own_model: Model,
    /// The model that a plugin asked for last and nobody knows.
    pub(crate) unknown_model: Option<ModelRef>,
    pub(crate) thinking: ThinkingRequest,
    pub(crate) behavior: Behavior,
    pub(crate) system: Arc<str>,
    /// Sections of the system prompt.
    pub(crate) sections: Arc<[SectionSize]>,
    pub(crate) toolbox: Toolbox,
    pub(crate) output: Option<Arc<OutputTool>>,
    pub(crate) last: Option<Arc<Message>>,
    /// The messages of the present request, in canonical names.
    pub(crate) sent: Vec<Arc<Message>>,
    /// The session of the run.
    pub(crate) session: Option<SessionId>,
    /// The directory of the present turn.
    pub(crate) cwd: PathBuf,
    /// The last turn after which the conversation had to be made shorter for the answer to go on.
    pub(crate) cut_at: Option<u32>,
    pub(crate) options: RunOptions,
    /// The budgets of this run and of those above.
    pub(crate) purse: Purse,
    pub(crate) estimator: Estimator,
    from: usize,
}

impl Driver {
    pub(crate) fn new(
        agent: Arc<AgentInner>,
        shared: Arc<RunShared>,
        options: RunOptions,
        lineage: Lineage,
    ) -> Self {
        let (model, thinking, from, context, session, cwd) = {
            let state = agent.state();
            (
                options.model.clone().unwrap_or_else(|| state.model.clone()),
                options.thinking.unwrap_or(state.thinking),
                state.history.len(),
                state.context.clone(),
                state.session.clone(),
                state.cwd.clone(),
            )
        };
        let behavior = options.behavior.clone().or(&agent.behavior);
        let output = behavior.schema.clone().map(|schema| Arc::new(OutputTool::new(schema)));
        let system = options.system.clone().map_or_else(|| agent.system.clone(), Arc::from);
        let tools = options.tools.clone().unwrap_or_else(|| agent.tools.clone());
        agent.ledger.iter().for_each(|ledger| ledger.begin_run());
        let own = options.behavior.budget.and_then(Ledger::new);
        let purse = Purse::new(own.into_iter().chain(agent.ledger.clone()), lineage.purse());
        let limits = RunLimits {
            tools: tools.clone(),
            allowed_tools: behavior.allowed_tools.clone(),
            tool_budgets: behavior.tool_budgets.clone(),
        };
        let control = Control::new(agent.clone(), shared.clone(), model.clone(), tools, purse.clone());
        let cx =
            control.run_cx(context).with_service(Arc::new(lineage)).with_service(Arc::new(purse.clone()));
        let cx = cx.with_service(Arc::new(TurnCwd(cwd.clone()))).with_service(Arc::new(limits));
        let cx = match &session {
            Some(session) => cx.with_service(Arc::new(session.clone())),
            None => cx,
        };
        Self {
            toolbox: Toolbox::default(),
            agent,
            shared,
            cx,
            own_model: model.clone(),
            unknown_model: None,
            model,
            thinking,
            behavior,
            system,
            sections: Arc::default(),
            output,
            last: None,
            sent: Vec::new(),
            session,
            cwd,
            cut_at: None,
            options,
            purse,
            estimator: Estimator::default(),
            from,
        }
    }

    pub(crate) async fn run(mut self) -> RunOutcome {
        // Plugins may have been installed before there was a runtime.
        self.agent.bus.warm_up();
        let (scopes, conducted) = match self.install() {
            Ok(scopes) => (scopes, self.conduct().await),
            Err(error) => (Vec::new(), Err(error)),
        };
        // However it failed, a stopped run was stopped.
        let result = if self.shared.stop.is_cancelled() && conducted.is_err() {
            Err(AgentError::Aborted)
        } else {
            conducted
        };
        let outcome = self.finish(result).await;
        // The plugins of the run see its end.
        for scope in scopes.into_iter().rev() {
            scope.close().await;
        }
        outcome
    }

    /// The plugins and gates of this run; they leave with it.
    fn install(&self) -> Result<Vec<ScopeGuard>, AgentError> {
        let mut scopes = Vec::new();
        for plugin in &self.options.plugins {
            let scope =
                self.agent.bus.install(&**plugin).map_err(|error| AgentError::Usage(error.to_string()))?;
            scopes.push(scope.close_on_drop());
        }
        let gates = self.agent.bus.scope("zk-agent").close_on_drop();
        let agent = Arc::downgrade(&self.agent);
        gates.scope().on_sync(move |_: &ContextReduced, _: &Cx| {
            if let Some(agent) = agent.upgrade() {
                agent.state().prefix.note_reduction();
            }
        });
        let agent = Arc::downgrade(&self.agent);
        gates.scope().on_sync(move |event: &ContextCompaction, _: &Cx| {
            let is_longer = matches!(event.stage, CompactionStage::Undone | CompactionStage::Restored);
            if let Some(agent) = agent.upgrade().filter(|_| is_longer) {
                agent.state().prefix.note_reduction();
            }
        });
        gates::install(gates.scope(), &self.behavior, &self.shared, &self.agent);
        scopes.push(gates);
        Ok(scopes)
    }

    async fn conduct(&mut self) -> Result<(), AgentError> {
        self.store_what_is_owed().await?;
        if self.shared.stop.is_cancelled() {
            return Err(AgentError::Aborted);
        }
        self.announce_restored().await?;
        let Some((prompt, added_by_input)) = self.read_input().await? else { return Ok(()) };
        self.cx
            .emit(SessionStart {
                session_id: self.session.clone(),
                run_id: self.shared.id.clone(),
                messages: self.from,
            })
            .await?;
        let prompt = prompt.map(|content| Message::user(content).identified().shared());
        let (system, sections) = sections::system_prompt(&self.cx, &self.system).await?;
        self.sections = sections.into();
        let start =
            self.cx.emit(AgentBeforeStart { prompt: prompt.clone(), system, messages: Vec::new() }).await?;
        self.system = start.system.into();
        let is_context = |message: &Arc<Message>| message.injected_by.as_deref() == Some(QUERY_CONTEXT);
        let (mut asked, added): (Vec<_>, Vec<_>) = start.messages.into_iter().partition(is_context);
        let has_prompt = prompt.is_some();
        asked.extend(prompt);
        if !asked.is_empty() {
            self.commit(self.turns(asked, MessagesCause::Prompt)).await?;
        }
        let waited =
            if has_prompt { std::mem::take(&mut self.agent.state().next_prompt) } else { Vec::new() };
        let before_start = added_by_input.into_iter().chain(waited);
        let before_start = before_start.map(|message| message.identified().shared());
        let added: Vec<_> = before_start.chain(added).collect();
        if !added.is_empty() {
            self.commit(self.turns(added, MessagesCause::Harness)).await?;
        }
        if self.options.system.is_some() {
            self.cx.emit(SystemBefore { system: self.system.clone() }).await?;
        }
        let tools = self.options.tools.clone().unwrap_or_else(|| self.agent.tools.clone());
        self.toolbox = Toolbox::new(tools, self.agent.aliases.clone());
        self.take_tools()?;
        if let Some(output) = self.output.clone() {
            let provider = self.agent.provider_of(&self.model)?;
            output.settle(&*provider, &self.model, !self.toolbox.specs().is_empty());
            if !output.is_native() {
                self.toolbox.add_output(output);
            }
        }
        self.cx
            .emit(AgentStart {
                run_id: self.shared.id.clone(),
                model: self.model.reference(),
                thinking: self.thinking.level,
                tools: self.toolbox.names(),
                missing_tools: self.toolbox.missing(),
            })
            .await?;
        self.turns_until_done().await
    }

    /// Hands plugins the entries of the conversation that the agent was given, once.
    async fn announce_restored(&self) -> Result<(), AgentError> {
        let Some(entries) = self.agent.state().restored.clone() else { return Ok(()) };
        self.cx.emit(SessionLoaded { session_id: self.session.clone(), entries }).await?;
        self.agent.state().restored = None;
        Ok(())
    }

    async fn turns_until_done(&mut self) -> Result<(), AgentError> {
        let mut machine = Machine::new(self.behavior.max_turns);
        loop {
            let seen = {
                let queues = self.shared.queues();
                Seen {
                    aborted: self.shared.stop.is_cancelled(),
                    steering: !queues.steer.is_empty(),
                    follow_up: !queues.follow_up.is_empty(),
                }
            };
            let before = machine.clone();
            match machine.next(seen) {
                Next::Turn(number) => {
                    let ended = self.turn(number).await?;
                    machine.turn_done(ended);
                }
                next @ (Next::Steer | Next::FollowUp) => {
                    let kind = if next == Next::Steer { SteerKind::Steer } else { SteerKind::FollowUp };
                    if !self.deliver(kind).await? {
                        // Nothing was said, so that nothing is due for it.
                        machine = before;
                    }
                }
                Next::Stop(Stop::Done) => return self.check_output(),
                Next::Stop(Stop::Aborted) => return Err(AgentError::Aborted),
                Next::Stop(Stop::TurnLimit(turns)) => return Err(AgentError::TurnLimit { turns }),
            }
        }
    }

    fn check_output(&self) -> Result<(), AgentError> {
        match &self.output {
            Some(output) if output.value().is_none() => Err(AgentError::Output(
                "the model ended without giving the output; its answer is in the history".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Puts waiting messages into the conversation; whether any is left after the handlers of `input`.
    async fn deliver(&self, kind: SteerKind) -> Result<bool, AgentError> {
        let mode = self.behavior.queue_mode.unwrap_or_default();
        let messages = {
            let mut queues = self.shared.queues();
            match kind {
                SteerKind::Steer => take(&mut queues.steer, mode),
                SteerKind::FollowUp => {
                    take(&mut queues.follow_up, self.behavior.follow_up_mode.unwrap_or(mode))
                }
            }
        };
        let read = match self.read_messages(&messages).await {
            Ok(read) => read,
            Err(error) => {
                self.shared.queues().put_back(kind, messages);
                return Err(error);
            }
        };
        let inject = SteerInject { kind, messages: read.clone(), sent: messages.clone() };
        if let Err(error) = self.cx.emit(inject).await {
            // Only messages that no `input` handler has consumed go back into the queue.
            let is_left = |message: &Arc<Message>| read.iter().any(|kept| kept.id == message.id);
            self.shared.queues().put_back(kind, messages.into_iter().filter(is_left).collect());
            return Err(error.into());
        }
        if read.is_empty() {
            return Ok(false);
        }
        let cause = match kind {
            SteerKind::Steer => MessagesCause::Steer,
            SteerKind::FollowUp => MessagesCause::FollowUp,
        };
        self.commit(self.turns(read, cause)).await?;
        Ok(true)
    }

    async fn finish(self, mut result: Result<(), AgentError>) -> RunOutcome {
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
                | AgentError::Stuck { .. }
                | AgentError::Unguarded { .. }
                | AgentError::Usage(_)
                | AgentError::Output(_),
            ) => RunStatus::Error,
        };
        let run_id = self.shared.id.clone();
        let abort_reason = self.shared.abort_reason();
        if let Some(output) = self.output.as_ref().and_then(|output| output.value()) {
            self.shared.stats().output = Some(output);
        }
        let stats = self.shared.snapshot();
        let text = self.last.as_ref().map(|message| message.text()).unwrap_or_default();
        let stop = self.last.as_ref().and_then(|message| message.stop.clone());
        if status == RunStatus::Aborted {
            let abort = AgentAbort { run_id: run_id.clone(), reason: abort_reason.clone() };
            note(&mut result, self.cx.emit(abort).await);
        }
        let error = result.as_ref().err().map(|error| match (error, &abort_reason) {
            (AgentError::Aborted, Some(reason)) => format!("{error}: {reason}"),
            _ => match self.cx.service::<ErrorFormatter>() {
                Some(words) => words.describe(error),
                None => error.to_string(),
            },
        });
        let done =
            AgentDone { run_id: run_id.clone(), status, error, text: text.clone(), stats: stats.clone() };
        note(&mut result, self.cx.emit(done).await);
        let entries = self.entries_at_the_end(status).await;
        let to = self.agent.state().history.len();
        let end = SessionEnd {
            session_id: self.session.clone(),
            run_id: run_id.clone(),
            status,
            from: self.from,
            to,
            entries,
        };
        note(&mut result, self.cx.emit(end).await);
        let unsent = self.shared.queues().close();
        RunOutcome { run_id, result, text, stop, stats, unsent, abort_reason }
    }

    /// Collects the entries that are appended to the session before its run ends: by plugins, and what the
    /// first request of the next process is compared with.
    async fn entries_at_the_end(&self, status: RunStatus) -> Vec<CustomEntry> {
        let mut entries = self.entries_of_plugins(status).await;
        let state = self.agent.state();
        let is_answered = state.history.iter().any(|message| message.role == Role::Assistant);
        if self.session.is_some() && is_answered {
            let source = self.agent.bus.scope("zk-agent").source().clone();
            entries.extend(state.prefix.entry().map(|entry| entry.by(&source)));
        }
        entries
    }

    async fn entries_of_plugins(&self, status: RunStatus) -> Vec<CustomEntry> {
        if !self.cx.bus().has_handlers::<SessionBeforeEnd>() {
            return Vec::new();
        }
        let (session_id, run_id) = (self.session.clone(), self.shared.id.clone());
        let before = SessionBeforeEnd { session_id, run_id, status, entries: Vec::new() };
        // The event cannot fail: a handler that does is reported and left out.
        self.cx.emit(before).await.map(|before| before.entries).unwrap_or_default()
    }
}

/// A closing event that fails spoils a run that was fine; it never hides why a run failed.
fn note(result: &mut Result<(), AgentError>, closing: Result<(), zk_core::kernel::EmitError>) {
    if let (Ok(()), Err(error)) = (&result, closing) {
        *result = Err(error.into());
    }
}
