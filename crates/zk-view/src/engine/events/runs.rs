use zk_core::events::{
    AgentAbort, AgentDone, AgentStart, CompactionStage, CompactionTrigger, ContextCompaction, ContextFill,
    ContextReduced, SessionEnd, SessionEntry, SessionMessages, SessionOpenTurn, SessionStart, SessionSwitch,
    SpawnBefore, SpawnComplete, SpawnError, SteerInject, ToolResultsAfter, TurnAfter, TurnBefore,
    UsageUpdate, ViewBlock,
};
use zk_core::kernel::Origin;
use zk_core::model::{Message, Stats};
use zk_core::service::{Audience, CustomEntry, RunStatus};

use super::super::subagent_runs::SubagentRun;
use super::{Engine, Reduce};
use crate::{Activity, AgentRow, AgentState, Content, ContextGauge, LastCompaction, NoteLevel, RunEnd, Text};

impl Reduce for SessionStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth > 0 {
            return engine.lane_and_core(origin).0.begin_run(&self.run_id);
        }
        engine.begin_own_run(&self.run_id);
        engine.begin_run();
    }
}

impl Reduce for AgentStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            engine.begin_run();
            engine.note_missing_tools(self);
        }
    }
}

impl Reduce for AgentAbort {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.set_main_activity(origin, Activity::Stopping);
    }
}

impl Reduce for AgentDone {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let end = (origin.depth == 0).then(|| run_end(self));
        // A run that was stopped before its start is unknown to the view.
        if !engine.lane_and_core(origin).0.is_in_run(&self.run_id) {
            match origin.depth {
                0 => engine.begin_own_run(&self.run_id),
                _ => engine.lane_and_core(origin).0.begin_run(&self.run_id),
            }
        }
        let (lane, core) = engine.lane_and_core(origin);
        let unstored = lane.end_run(core, end);
        if let Some(run) = engine.subagents.get_mut(&*origin.agent).filter(|_| origin.depth > 0) {
            run.is_stopped = self.status == RunStatus::Aborted;
        }
        if let Some(end) = unstored {
            engine.add_unstored_block(Content::End(end));
        }
        if origin.depth == 0 {
            // Open blocks of background sub-agents stay open.
            let goes_on = |agent: &str| {
                let is_its = |row: &AgentRow| row.name.as_str() == agent;
                let mut rows = engine.core.view.agents.iter();
                rows.any(|row| row.goes_on() && (is_its(row) || is_descendant(agent, row.name.as_str())))
            };
            let ended: Vec<_> = engine.children.keys().filter(|agent| !goes_on(agent)).cloned().collect();
            for agent in ended {
                if let Some(lane) = engine.children.get_mut(&agent) {
                    lane.end_run(&mut engine.core, None);
                }
            }
            engine.end_run();
            engine.core.typed_command = None;
            engine.change_queue(|queue| queue.iter_mut().for_each(|queued| queued.steers = false));
            if self.status == RunStatus::Completed {
                engine.send_next();
            }
        }
    }
}

/// Whether `agent` is a descendant of `other` in the tree of sub-agents.
fn is_descendant(agent: &str, other: &str) -> bool {
    agent.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
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
        let (lane, core) = engine.lane_and_core(origin);
        lane.show_messages(core, &self.messages);
    }
}

impl Reduce for SessionOpenTurn {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.open_turn(core, &self.message);
    }
}

impl Reduce for ToolResultsAfter {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        if lane.is_new(&self.assistant) {
            lane.show_answer_with_results(core, &self.assistant, &self.results);
        }
    }
}

impl Reduce for SessionSwitch {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            engine.begin_session(&self.entries);
        }
    }
}

impl Reduce for SessionEntry {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        engine.show_entry(&self.entry);
    }
}

impl Reduce for SessionEnd {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            self.entries.iter().for_each(|entry| engine.show_entry(entry));
        }
    }
}

impl Engine {
    /// Shows an entry that a plugin appended for the person; sub-agents have no session of their own.
    fn show_entry(&mut self, entry: &CustomEntry) {
        match entry.audience {
            Audience::Hidden => {}
            Audience::Person | Audience::Model => self.own.show_entry(&mut self.core, entry),
        }
    }
}

impl Reduce for TurnBefore {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.discard_turn(core);
        engine.discard_agent_text(origin);
        engine.set_main_activity(origin, Activity::Waiting { model: Text::line(&self.model.to_string()) });
    }
}

impl Reduce for TurnAfter {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        // The totals of a run come only when the calls of the turn have ended.
        engine.count_agent_turn(origin, &self.usage);
    }
}

impl Reduce for UsageUpdate {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            return engine.set_usage(self);
        }
        let (context, cost) = (self.turn.usage.context() + self.turn.usage.output, self.cost);
        engine.change_agents(|agents| {
            if let Some(row) = find_row(agents, &origin.agent) {
                (row.context_tokens, row.cost) = (Some(context), cost);
            }
        });
        engine.set_agent_tokens(origin, self.total.read() + self.total.output);
    }
}

fn find_row<'a>(agents: &'a mut [AgentRow], name: &str) -> Option<&'a mut AgentRow> {
    let name = Text::line(name);
    agents.iter_mut().rev().find(|row| row.name == name)
}

impl Reduce for SteerInject {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth > 0 {
            return;
        }
        // The texts as typed: handlers of `input` may have changed or dropped them.
        let texts: Vec<String> =
            self.sent.iter().map(|message: &std::sync::Arc<Message>| message.text()).collect();
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
        engine.add_note(
            NoteLevel::Warning,
            &format!(
                "to make room in the context window: {what} left out of requests from here on (the session keeps all)"
            ),
        );
    }
}

impl Reduce for ContextFill {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if origin.depth == 0 {
            let usable = self.usable.unwrap_or_default();
            let gauge = ContextGauge::new(self.tokens, usable, self.compactions);
            let last = self.last.filter(|_| self.compactions > 0);
            let last = last.map(|last| LastCompaction { before: last.before, after: last.after, age_ms: 0 });
            engine.core.set_compaction_age(self.age_ms);
            return engine.set_gauge(gauge.map(|gauge| ContextGauge { last, ..gauge }));
        }
        let gauge = ContextGauge::new(self.tokens, self.usable.unwrap_or_default(), self.compactions);
        engine.change_agents(|agents| {
            if let Some(row) = find_row(agents, &origin.agent) {
                row.gauge = gauge;
            }
        });
    }
}

impl Reduce for ContextCompaction {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let note = self.note.as_deref().unwrap_or_default();
        if origin.depth == 0 && engine.run.is_none() {
            match self.stage {
                CompactionStage::Began => engine.begin_compaction(self.before),
                CompactionStage::Done
                | CompactionStage::Failed
                | CompactionStage::Stopped
                | CompactionStage::Cancelled
                | CompactionStage::Deferred
                | CompactionStage::Undone
                | CompactionStage::Restored => engine.end_compaction(),
            }
        }
        match self.stage {
            CompactionStage::Began => {
                engine.set_main_activity(origin, Activity::Compacting { before: self.before });
            }
            CompactionStage::Done => {
                engine.set_main_activity(origin, Activity::Starting);
                // A compaction on request has an answer of its own, and one that was prepared in the background
                // saves little.
                let is_own = match self.trigger {
                    CompactionTrigger::Hard | CompactionTrigger::Overflow => origin.depth == 0,
                    CompactionTrigger::Manual | CompactionTrigger::Soft => false,
                };
                if is_own && self.after < self.before {
                    let Self { before, after, .. } = self;
                    let text = format!(
                        "compacted: about {before} tokens are {after} now; /uncompact takes it back, the session \
                         keeps everything"
                    );
                    engine.add_note(NoteLevel::Info, &text);
                }
            }
            CompactionStage::Deferred => engine.set_main_activity(origin, Activity::Starting),
            CompactionStage::Failed if origin.depth == 0 => {
                engine.add_note(NoteLevel::Warning, &format!("compaction freed too little: {note}"));
            }
            CompactionStage::Cancelled if origin.depth == 0 => {
                engine
                    .add_note(NoteLevel::Warning, &format!("the conversation was not made smaller: {note}"));
            }
            // A failed compaction ends the run, whose end shows it.
            CompactionStage::Failed | CompactionStage::Stopped | CompactionStage::Cancelled => {}
            CompactionStage::Restored if origin.depth == 0 => {
                engine.add_note(
                    NoteLevel::Info,
                    "everything is sent again: the window of this model has the room",
                );
            }
            // A request to take a text back was answered. The text may still be in the next request.
            CompactionStage::Undone if origin.depth == 0 => engine.clear_context_fill(),
            CompactionStage::Undone | CompactionStage::Restored => {}
        }
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
            gauge: None,
            cost: None,
            tokens: 0,
            turns: 0,
            is_background: self.background,
            calls: 0,
            elapsed_ms: 0,
        };
        engine.subagents.insert(self.child.to_string(), SubagentRun::begin(engine.core.now));
        engine.change_agents(|agents| agents.push(row));
    }
}

impl Reduce for SpawnComplete {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        engine.show_agent_times();
        engine.change_agents(|agents| {
            if let Some(row) = find_row(agents, &self.child) {
                (row.state, row.cost) = (AgentState::Done, self.stats.cost);
            }
        });
    }
}

impl Reduce for SpawnError {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        engine.show_agent_times();
        let is_stopped = engine.subagents.get(&self.child).is_some_and(|run| run.is_stopped);
        let state = if is_stopped { AgentState::Stopped } else { AgentState::Failed };
        engine.change_agents(|agents| {
            if let Some(row) = find_row(agents, &self.child) {
                (row.state, row.cost) = (state, self.stats.cost);
            }
        });
    }
}

impl Reduce for ViewBlock {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        if let Err(why) = lane.show_or_hold_plugin(core, self) {
            let text = format!(
                "left out what {} shows as `{}`: {why}",
                Text::line(&self.source),
                Text::line(&self.key)
            );
            engine.add_note(NoteLevel::Warning, &text);
        }
    }
}
