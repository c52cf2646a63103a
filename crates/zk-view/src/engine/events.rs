use zk_core::events::{
    AgentAbort, AgentDone, AgentStart, ContextReduced, ProviderRetry, SessionMessages, SessionOpenTurn,
    SessionStart, SpawnBefore, SpawnComplete, SpawnError, SteerInject, StreamIdle, StreamProvider,
    StreamStart, StreamText, StreamThinking, StreamToolArgs, ToolAfter, ToolArgsRepaired, ToolBefore,
    ToolBlocked, ToolBudgetExceeded, ToolEnd, ToolParked, ToolProgress, ToolResultsAfter, ToolSkipped,
    ToolUnknown, TurnBefore, UsageUpdate, ValidationReject, ViewBlock,
};
use zk_core::kernel::Origin;
use zk_core::model::{CallId, Message, Stats, ToolResult};

use super::{Engine, Seen};
use crate::{Activity, AgentRow, AgentState, CallState, Content, NoteLevel, Patch, RunEnd, Text};

/// Calls a macro with the events that a view is made of.
macro_rules! with_events {
    ($do:ident) => {
        $do!(
            SessionStart,
            AgentStart,
            AgentAbort,
            AgentDone,
            SessionMessages,
            SessionOpenTurn,
            TurnBefore,
            UsageUpdate,
            SteerInject,
            StreamStart,
            StreamText,
            StreamThinking,
            StreamToolArgs,
            ToolArgsRepaired,
            StreamProvider,
            StreamIdle,
            ProviderRetry,
            ContextReduced,
            ToolBefore,
            ToolProgress,
            ToolBlocked,
            ToolParked,
            ToolSkipped,
            ToolUnknown,
            ValidationReject,
            ToolEnd,
            ToolAfter,
            ToolResultsAfter,
            ToolBudgetExceeded,
            SpawnBefore,
            SpawnComplete,
            SpawnError,
            ViewBlock
        );
    };
}
pub(crate) use with_events;

/// How an event changes a view.
trait Reduce {
    fn reduce(&self, engine: &mut Engine, origin: &Origin);
}

impl Engine {
    pub(super) fn event(&mut self, Seen { event, origin }: Seen<'_>) {
        macro_rules! dispatch {
            ($($event:ty),+) => {
                $(if let Some(event) = event.downcast::<$event>() {
                    return event.reduce(self, origin);
                })+
            };
        }
        with_events!(dispatch);
    }

    /// Notes something about a call, and shows it in another state.
    fn call_is(
        &mut self,
        origin: &Origin,
        call_id: &CallId,
        state: CallState,
        note: impl FnOnce(&mut crate::record::CallFact),
    ) {
        let (lane, core) = self.lane(origin);
        let Some(fact) = lane.facts.of(call_id) else { return };
        note(fact);
        let (summary, reason) = (fact.summary.clone(), fact.reason.clone());
        if let Some(id) = lane.open_call(core, call_id) {
            core.change(&id, |content| {
                if let Content::Call(call) = content {
                    call.state = state;
                    call.reason = reason.as_deref().map(Text::line);
                    if let Some(summary) = &summary {
                        call.summary = Text::line(summary);
                    }
                }
            });
        }
    }

    /// A call that does not run, and why.
    fn call_is_not_run(&mut self, origin: &Origin, call_id: &CallId, state: CallState, reason: Option<&str>) {
        self.call_is(origin, call_id, state, |fact| {
            fact.state = Some(state);
            fact.reason = reason.map(str::to_owned);
        });
    }

    /// What the person sees going on is what the conversation's own agent does.
    fn own_activity(&mut self, origin: &Origin, activity: Activity) {
        if origin.depth == 0 {
            self.set_activity(activity);
        }
    }

    fn arrived(&mut self, origin: &Origin, text: &str) {
        if origin.depth == 0
            && let Some(run) = &mut self.run
        {
            run.arriving += text.len() as u64;
        }
    }
}

impl Reduce for SessionStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.lane(origin).0.begin_run(&self.run_id);
        if origin.depth == 0 {
            engine.begin_run();
        }
    }
}

impl Reduce for AgentStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            engine.begin_run();
        }
    }
}

impl Reduce for AgentAbort {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.own_activity(origin, Activity::Stopping);
    }
}

impl Reduce for AgentDone {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let end = (origin.depth == 0).then(|| run_end(self));
        let (lane, core) = engine.lane(origin);
        // One that was stopped before it began was not announced.
        if !lane.is_in_run(&self.run_id) {
            lane.begin_run(&self.run_id);
        }
        let unstored = lane.end_run(core, end);
        if let Some(end) = unstored {
            engine.beside(Content::End(end));
        }
        if origin.depth == 0 {
            // Whatever their agents did not close stays as it is.
            for lane in engine.children.values_mut() {
                lane.end_run(&mut engine.core, None);
            }
            engine.end_run();
            engine.change_queue(|queue| queue.iter_mut().for_each(|queued| queued.steers = false));
            if self.status == zk_core::service::RunStatus::Completed {
                engine.send_next();
            }
        }
    }
}

fn run_end(done: &AgentDone) -> RunEnd {
    let Stats { usage, cost, turns, duration_ms, .. } = &done.stats;
    RunEnd {
        status: done.status,
        error: done.error.as_deref().map(Text::new),
        turns: *turns,
        tokens_read: usage.read(),
        tokens_written: usage.output,
        cost: *cost,
        cost_is_partial: done.stats.flatten().iter().any(|turn| turn.cost.is_none()),
        duration_ms: *duration_ms,
    }
}

impl Reduce for SessionMessages {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.messages(core, &self.messages);
    }
}

impl Reduce for SessionOpenTurn {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.open_turn(core, &self.message);
    }
}

impl Reduce for ToolResultsAfter {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        if lane.is_new(&self.assistant) {
            lane.pair(core, &self.assistant, &self.results);
        }
    }
}

impl Reduce for TurnBefore {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.discard_turn(core);
        engine.own_activity(origin, Activity::Waiting { model: Text::line(&self.model.to_string()) });
    }
}

impl Reduce for UsageUpdate {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            return engine.usage(self);
        }
        let (context, cost) = (self.turn.usage.context() + self.turn.usage.output, self.cost);
        engine.change_agents(|agents| {
            if let Some(row) = row_of(agents, &origin.agent) {
                (row.context_tokens, row.cost) = (Some(context), cost);
            }
        });
    }
}

fn row_of<'a>(agents: &'a mut [AgentRow], name: &str) -> Option<&'a mut AgentRow> {
    let name = Text::line(name);
    agents.iter_mut().rev().find(|row| row.name == name)
}

impl Reduce for SteerInject {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth > 0 {
            return;
        }
        let texts: Vec<String> =
            self.messages.iter().map(|message: &std::sync::Arc<Message>| message.text()).collect();
        engine.change_queue(|queue| {
            for text in texts {
                let sent = queue.iter().position(|queued| queued.text.unsanitised() == text);
                if let Some(at) = sent {
                    queue.remove(at);
                }
            }
        });
    }
}

impl Reduce for StreamStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.begin_stream(core);
    }
}

impl Reduce for StreamText {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.stream_text(core, &self.delta);
        engine.arrived(origin, &self.delta);
        engine.own_activity(origin, Activity::Answering);
    }
}

impl Reduce for StreamThinking {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.stream_thinking(core, &self.delta);
        engine.arrived(origin, &self.delta);
        engine.own_activity(origin, Activity::Thinking);
    }
}

impl Reduce for StreamToolArgs {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.stream_call(core, &self.call_id, &self.name);
        engine.arrived(origin, &self.delta);
        engine.own_activity(origin, Activity::Writing { tool: Text::line(&self.name) });
    }
}

impl Reduce for StreamProvider {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        lane.stream_provider(core, &self.text);
    }
}

impl Reduce for ToolArgsRepaired {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let text = format!("repaired characters in the arguments of {}", Text::line(&self.name));
        engine.note(NoteLevel::Info, &text);
    }
}

impl Reduce for StreamIdle {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let Self { idle_ms, idle_limit_ms, no_data_ms, no_data_limit_ms, .. } = *self;
        // Keep-alives come every few seconds, or not at all.
        let began = idle_ms.saturating_sub(no_data_ms);
        let keep_alives = began > 1000;
        let limit_ms = match keep_alives {
            true => idle_limit_ms,
            false => no_data_limit_ms.map_or(u64::MAX, |limit| limit + began).min(idle_limit_ms),
        };
        let model = Text::line(&self.model.to_string());
        engine.own_activity(origin, Activity::Silent { model, idle_ms, limit_ms, keep_alives });
    }
}

impl Reduce for ProviderRetry {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let retry = &self.retry;
        let why = format!("{}: {}", retry.kind.as_str(), retry.message);
        let (attempt, max_attempts) = (retry.attempt, retry.max_attempts);
        let verb = if attempt == 0 { "trying" } else { "trying again" };
        let tried =
            if attempt == 0 { String::new() } else { format!(" (attempt {attempt} of {max_attempts})") };
        let when = match retry.delay.as_secs_f64() {
            0.0 => String::new(),
            seconds => format!(" in {seconds:.1} s"),
        };
        let note = format!("{why}{tried}; {verb}{when}");
        engine.note(NoteLevel::Warning, &note);
        let left_ms = u64::try_from(retry.delay.as_millis()).unwrap_or(u64::MAX);
        let why = Text::line(&why);
        engine.own_activity(origin, Activity::Retrying { why, attempt, max_attempts, left_ms });
    }
}

impl Reduce for ContextReduced {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let what = match (self.results, self.messages) {
            (results, 0) => counted(results, "result"),
            (0, messages) => counted(messages, "message"),
            (results, messages) => {
                format!("{} and {}", counted(results, "result"), counted(messages, "message"))
            }
        };
        engine.note(
            NoteLevel::Warning,
            &format!(
                "the conversation exceeds the model's context window: {what} left out of requests from here on (the \
                 session keeps all)"
            ),
        );
    }
}

impl Reduce for ToolBefore {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let summary = self.summary.clone();
        engine.call_is(origin, &self.call.call_id, CallState::Running, |fact| fact.summary = Some(summary));
        if origin.depth == 0
            && let Some(run) = &mut engine.run
        {
            run.calls.push((self.call.call_id.clone(), Text::line(&self.summary)));
        }
        engine.set_calls();
    }
}

impl Reduce for ToolProgress {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        if let Some(id) = lane.open_call(core, &self.call.call_id) {
            core.emit(Patch::Grow { id, delta: Text::new(&self.text) });
        }
    }
}

impl Reduce for ToolBlocked {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.call_is_not_run(origin, &self.call.call_id, CallState::Refused, Some(&self.reason));
    }
}

impl Reduce for ToolParked {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.call_is_not_run(origin, &self.call.call_id, CallState::Parked, Some(&self.reason));
    }
}

impl Reduce for ToolSkipped {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        // One that had begun was cut off.
        let has_begun = |fact: &&mut crate::record::CallFact| fact.summary.is_some();
        let facts = &mut engine.lane(origin).0.facts;
        let state = match facts.of(&self.call.call_id).filter(has_begun) {
            Some(_) => CallState::OutcomeUnknown,
            None => CallState::Skipped,
        };
        engine.call_is_not_run(origin, &self.call.call_id, state, Some(&self.reason));
    }
}

impl Reduce for ToolUnknown {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.call_is_not_run(origin, &self.call.call_id, CallState::Unknown, None);
    }
}

impl Reduce for ValidationReject {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let issues = self.issues.join("; ");
        engine.call_is_not_run(origin, &self.call.call_id, CallState::Invalid, Some(&issues));
    }
}

impl Reduce for ToolEnd {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if let Some(fact) = engine.lane(origin).0.facts.of(&self.call.call_id) {
            fact.display.clone_from(&self.display);
            fact.elapsed_ms = Some(self.elapsed_ms);
            fact.is_stored = true;
        }
    }
}

impl Reduce for ToolAfter {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        let call_id = self.call.call_id.clone();
        let result = ToolResult { call_id, content: self.content.clone(), is_error: self.is_error };
        // A gate's substitute has no end of its own.
        if let Some(fact) = lane.facts.of(&self.call.call_id).filter(|fact| !fact.is_stored) {
            fact.display.clone_from(&self.display);
        }
        lane.end_call(core, &self.call, &result);
        if origin.depth == 0
            && let Some(run) = &mut engine.run
        {
            let ended = run.calls.iter().position(|(call_id, _)| *call_id == self.call.call_id);
            ended.map(|at| run.calls.remove(at));
        }
        engine.set_calls();
    }
}

impl Reduce for ToolBudgetExceeded {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let text = format!(
            "{} was called more often than its budget of {} allows",
            Text::line(&self.tool),
            self.max
        );
        engine.note(NoteLevel::Info, &text);
    }
}

impl Reduce for SpawnBefore {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let row = AgentRow {
            name: Text::line(&self.child),
            depth: self.depth,
            task: Text::line(self.prompt.lines().next().unwrap_or_default()),
            state: AgentState::Running,
            context_tokens: None,
            cost: None,
        };
        engine.change_agents(|agents| agents.push(row));
    }
}

impl Reduce for SpawnComplete {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        engine.change_agents(|agents| {
            if let Some(row) = row_of(agents, &self.child) {
                (row.state, row.cost) = (AgentState::Done, self.stats.cost);
            }
        });
    }
}

impl Reduce for SpawnError {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        engine.change_agents(|agents| {
            if let Some(row) = row_of(agents, &self.child) {
                (row.state, row.cost) = (AgentState::Failed, self.stats.cost);
            }
        });
    }
}

impl Reduce for ViewBlock {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane(origin);
        if let Err(why) = lane.plugin(core, self) {
            let text = format!(
                "left out what {} shows as `{}`: {why}",
                Text::line(&self.source),
                Text::line(&self.key)
            );
            engine.note(NoteLevel::Warning, &text);
        }
    }
}
