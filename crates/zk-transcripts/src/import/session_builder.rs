use std::collections::{HashMap, VecDeque};

use serde_json::json;
use zk_core::model::{
    Block, CallId, Compaction, EntryId, Message, MessageId, ModelRef, Role, RunId, StopReason, Thinking,
    ToolCall, ToolResult, TurnId, TurnUsage, Usage,
};
use zk_core::service::{
    Audience, COMPACTION_ENTRY, COMPACTION_VERSION, CustomEntry, Entry, EntryKind, RunStatus, WINDOW_OWNER,
};
use zk_view::{AdoptedAgent, RunEnd, adopted_run};

use super::outcome::{self, Outcome};

/// Text of the result of a call that has none in its transcript.
const NO_RESULT: &str = "The transcript has no result of this call.";

/// Author name of messages that another program put into a conversation.
pub(super) const PROGRAM: &str = "program";

/// Strategy name in the record of an imported compaction.
const STRATEGY: &str = "imported";

/// Builder of a session's entries from the messages of another program, in order.
pub(super) struct SessionBuilder {
    entries: Vec<Entry>,
    run: Option<Run>,
    turn: Option<Turn>,
    now: u64,
    compactions: u32,
    /// Number of results without a call, which are left out.
    pub(super) orphans: u64,
    /// Number of calls without a result.
    pub(super) unanswered: u64,
}

struct Run {
    id: RunId,
    /// Index of the run's first entry.
    from: usize,
    started_ms: u64,
    turns: u32,
    usage: Usage,
    cost: Option<f64>,
    is_cost_partial: bool,
    agents: Vec<AdoptedAgent>,
    is_stopped: bool,
}

/// Answer whose results are still coming.
struct Turn {
    /// Id of the answer in the other program, where several lines may be parts of one answer.
    group: String,
    time_ms: u64,
    model: Option<ModelRef>,
    content: Vec<Block>,
    stop: Option<StopReason>,
    usage: Option<(Usage, Option<f64>)>,
    results: HashMap<CallId, VecDeque<Outcome>>,
    has_results: bool,
}

impl SessionBuilder {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), run: None, turn: None, now: 0, compactions: 0, orphans: 0, unanswered: 0 }
    }

    /// Sets the time of later entries, in milliseconds since 1970. An earlier time than before is ignored.
    pub(super) fn set_time(&mut self, time_ms: Option<u64>) {
        self.now = self.now.max(time_ms.unwrap_or_default());
    }

    fn push(&mut self, time_ms: u64, kind: EntryKind) {
        let parent = self.entries.last().map(|entry| entry.id.clone());
        self.entries.push(Entry { id: EntryId::fresh(), parent, time_ms, kind });
    }

    fn push_message(&mut self, message: Message) -> Option<MessageId> {
        let message = message.identified();
        let id = message.id.clone();
        self.push(self.now, EntryKind::Message { message: message.shared(), usage: None });
        id
    }

    /// Adds a prompt of the person, which begins a run.
    pub(super) fn add_prompt(&mut self, content: Vec<Block>) {
        if content.is_empty() {
            return;
        }
        self.end_run();
        self.begin_run();
        self.push_message(Message::user(content));
    }

    /// Adds a message that the other program wrote.
    pub(super) fn add_injected(&mut self, by: &str, content: Vec<Block>) {
        if content.is_empty() {
            return;
        }
        self.flush_turn();
        if self.run.is_none() {
            self.begin_run();
        }
        self.push_message(Message { injected_by: Some(by.to_owned()), ..Message::user(content) });
    }

    /// Adds parts of an answer. Parts with the same `group` are one answer; without groups, a part after
    /// results begins a new answer.
    pub(super) fn add_answer(&mut self, group: &str, model: Option<&ModelRef>, parts: Vec<Block>) {
        let is_same = |turn: &Turn| match group {
            "" => !turn.has_results,
            group => turn.group == group,
        };
        if !self.turn.as_ref().is_some_and(is_same) {
            self.flush_turn();
        }
        if self.run.is_none() {
            self.begin_run();
        }
        let now = self.now;
        let turn = self.turn.get_or_insert_with(|| Turn {
            group: group.to_owned(),
            time_ms: now,
            model: None,
            content: Vec::new(),
            stop: None,
            usage: None,
            results: HashMap::new(),
            has_results: false,
        });
        if turn.model.is_none() {
            turn.model = model.cloned();
        }
        turn.content.extend(parts);
    }

    /// Ends the answer, so that the next part begins another one.
    pub(super) fn end_answer(&mut self) {
        self.flush_turn();
    }

    /// Sets the reason why the present answer ended.
    pub(super) fn set_stop(&mut self, stop: Option<StopReason>) {
        if let Some(turn) = &mut self.turn {
            turn.stop = stop.or(turn.stop.take());
        }
    }

    /// Sets tokens and cost of the present answer; later reports are ignored unless `replaces` is set.
    pub(super) fn set_usage(&mut self, usage: Usage, cost: Option<f64>, replaces: bool) {
        if let Some(turn) = &mut self.turn
            && (replaces || turn.usage.is_none())
        {
            turn.usage = Some((usage, cost));
        }
    }

    /// Adds the result of a call of the present answer.
    pub(super) fn add_result(&mut self, call_id: &str, outcome: Outcome) {
        let id = CallId::from(call_id);
        let is_call = |part: &Block| matches!(part, Block::ToolCall(call) if call.id == id);
        match &mut self.turn {
            Some(turn) if turn.content.iter().any(is_call) => {
                turn.has_results = true;
                turn.results.entry(id).or_default().push_back(outcome);
            }
            Some(_) | None => self.orphans += 1,
        }
    }

    /// Adds the result of a call, for a program that stores it with the call: further parts may belong to the
    /// same answer.
    pub(super) fn add_result_in_turn(&mut self, call_id: &str, outcome: Outcome) {
        let has_results = self.turn.as_ref().is_some_and(|turn| turn.has_results);
        self.add_result(call_id, outcome);
        if let Some(turn) = &mut self.turn {
            turn.has_results = has_results;
        }
    }

    /// Finds a call of the present answer, with its arguments.
    pub(super) fn find_call(&self, call_id: &str) -> Option<&ToolCall> {
        self.turn.as_ref()?.content.iter().find_map(|part| match part {
            Block::ToolCall(call) if call.id.as_str() == call_id => Some(call),
            _ => None,
        })
    }

    /// Adds a sub-agent of the present run.
    pub(super) fn add_agent(&mut self, name: &str, call_id: Option<&str>, entries: Vec<Entry>) {
        if self.run.is_none() || entries.is_empty() {
            return;
        }
        let Some(run) = &mut self.run else { return };
        let taken = |name: &str| run.agents.iter().any(|agent| agent.name == name);
        let base = if name.is_empty() { "agent" } else { name };
        let mut unique = base.to_owned();
        for number in 2.. {
            if !taken(&unique) {
                break;
            }
            unique = format!("{base} {number}");
        }
        run.agents.push(AdoptedAgent { name: unique, call_id: call_id.map(CallId::from), entries });
    }

    /// Marks the present run as stopped by the person.
    pub(super) fn mark_stopped(&mut self) {
        if let Some(run) = &mut self.run {
            run.is_stopped = true;
        }
    }

    /// Adds a summary that replaces everything before it.
    pub(super) fn add_compaction(&mut self, summary: &str, tokens_before: u64) {
        self.flush_turn();
        if self.run.is_none() {
            self.begin_run();
        }
        let part = Block::Compaction(Compaction { summary: summary.to_owned(), tokens_before });
        let message = Message { injected_by: Some("compaction".to_owned()), ..Message::user(vec![part]) };
        let Some(first) = self.push_message(message) else { return };
        self.compactions += 1;
        let data = json!({
            "what": "plan",
            "number": self.compactions,
            "strategy": STRATEGY,
            "trigger": "manual",
            "cut": { "first": first, "head": [] },
        });
        let custom = CustomEntry {
            source: WINDOW_OWNER.to_owned(),
            kind: COMPACTION_ENTRY.to_owned(),
            version: COMPACTION_VERSION,
            data: data.into(),
            audience: Audience::Hidden,
        };
        self.push(self.now, EntryKind::Custom(custom));
    }

    fn begin_run(&mut self) {
        let id = RunId::fresh();
        self.run = Some(Run {
            id: id.clone(),
            from: self.entries.len(),
            started_ms: self.now,
            turns: 0,
            usage: Usage::default(),
            cost: None,
            is_cost_partial: false,
            agents: Vec::new(),
            is_stopped: false,
        });
        self.push(self.now, EntryKind::RunStart { run_id: id });
    }

    fn end_run(&mut self) {
        self.flush_turn();
        let Some(run) = self.run.take() else { return };
        let status = if run.is_stopped { RunStatus::Aborted } else { RunStatus::Completed };
        let end = RunEnd {
            status,
            error: None,
            turns: run.turns,
            tokens_read: run.usage.read(),
            tokens_written: run.usage.output,
            cost: run.cost,
            cost_is_partial: run.is_cost_partial && run.cost.is_some(),
            duration_ms: self.now.saturating_sub(run.started_ms),
        };
        let own = self.entries.get(run.from..).unwrap_or_default();
        let end = (run.turns > 0).then_some(end);
        if let Some(record) = adopted_run(&run.id, own, &run.agents, end) {
            self.push(self.now, EntryKind::Custom(record));
        }
        self.push(self.now, EntryKind::RunEnd { run_id: run.id, status });
    }

    /// Appends the present answer with its results to the entries.
    fn flush_turn(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        turn.content.retain(|part| !is_empty_block(part));
        if turn.content.is_empty() {
            return;
        }
        let turn_id = TurnId::fresh();
        let calls: Vec<ToolCall> = Message::assistant(turn.content.clone()).calls().cloned().collect();
        let (usage, cost) = turn.usage.unwrap_or_default();
        if let Some(run) = &mut self.run {
            run.turns += 1;
            run.usage += usage;
            run.cost = match (run.cost, cost) {
                (Some(sum), Some(cost)) => Some(sum + cost),
                (sum, cost) => sum.or(cost),
            };
            run.is_cost_partial |= cost.is_none();
        }
        let model = turn.model.clone();
        // Facts about calls are looked up by their turn, so a turn with calls is stored.
        let known = turn.usage.is_some() || !calls.is_empty();
        let usage = model
            .clone()
            .filter(|_| known)
            .map(|model| Box::new(TurnUsage { turn_id: turn_id.clone(), model, usage, cost }));
        let stop =
            turn.stop.unwrap_or(if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse });
        let message = Message {
            role: Role::Assistant,
            origin: model,
            stop: Some(stop),
            ..Message::assistant(turn.content)
        };
        let message = message.identified().shared();
        self.push(turn.time_ms, EntryKind::Message { message, usage });
        if calls.is_empty() {
            return;
        }
        let mut results = Vec::with_capacity(calls.len());
        let mut facts = Vec::with_capacity(calls.len());
        for call in calls {
            let found = turn.results.get_mut(&call.id).and_then(VecDeque::pop_front);
            let found = found.unwrap_or_else(|| {
                self.unanswered += 1;
                Outcome::new(NO_RESULT.into(), true)
            });
            facts.push(EntryKind::CallData {
                turn_id: turn_id.clone(),
                call_id: call.id.clone(),
                summary: found.summary.or_else(|| outcome::summary(&call.name, &call.args)),
                display: found.display.map(Box::new),
                details: None,
                elapsed_ms: found.elapsed_ms,
            });
            let result = ToolResult { call_id: call.id, content: found.content, is_error: found.is_error };
            results.push(Block::ToolResult(result));
        }
        self.push_message(Message::user(results));
        for fact in facts {
            self.push(self.now, fact);
        }
    }

    /// Entries of a sub-agent: its messages without runs.
    pub(super) fn into_agent_entries(mut self) -> Vec<Entry> {
        self.flush_turn();
        self.entries
    }

    /// All entries.
    pub(super) fn finish(mut self) -> Built {
        self.end_run();
        let mut notices = Vec::new();
        if self.unanswered > 0 {
            notices.push(format!("{} calls have no result in the transcript", self.unanswered));
        }
        if self.orphans > 0 {
            notices.push(format!("{} results without a call were left out", self.orphans));
        }
        Built { entries: self.entries, notices }
    }
}

/// Built entries of a session, with notices for the person.
pub(super) struct Built {
    pub(super) entries: Vec<Entry>,
    pub(super) notices: Vec<String>,
}

fn is_empty_block(part: &Block) -> bool {
    match part {
        Block::Text(text) => text.text.is_empty(),
        Block::Thinking(Thinking { text, signature, redacted, .. }) => {
            text.is_empty() && signature.is_none() && redacted.is_none()
        }
        Block::Image(_)
        | Block::Document(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Compaction(_)
        | Block::Provider(_) => false,
    }
}
