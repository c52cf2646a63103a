use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use zk_core::model::{
    CallId, Display, Message, ModelRef, Role, ThinkingLevel, ToolCall, ToolResult, TurnId, TurnUsage,
};
use zk_core::service::{COMPACTION_ENTRY, CompactionMark, CustomEntry, Entry, EntryKind, WINDOW_OWNER};

use super::{
    BRANCH_SUMMARY, RecordedCall, RecordedCompaction, RecordedRequest, RecordedRun, RecordedTurn, Recording,
    WindowStep,
};
use crate::log::{CallFacts, MAX_REQUESTS, PartFacts, RequestFacts, RunFacts};

/// Largest number of message digests that the requests of a recording have together, shared ones counted each time.
const MAX_PARTS: usize = 16 << 20;

/// Progress of a call of the open turn.
#[derive(Default)]
struct Progress {
    args: Option<Value>,
    began: bool,
    ended: Option<Ended>,
}

#[derive(Clone, Default)]
struct Ended {
    result: Option<ToolResult>,
    display: Option<Display>,
    details: Option<Value>,
}

/// Happenings between two runs.
#[derive(Default)]
struct BeforeRun {
    messages: Vec<Arc<Message>>,
    compactions: Vec<RecordedCompaction>,
    steps: Vec<WindowStep>,
}

#[derive(Default)]
struct Reader<'a> {
    recording: Recording,
    model: Option<ModelRef>,
    thinking: ThinkingLevel,
    /// Answer with calls whose process may have died.
    open: Option<(&'a TurnId, &'a Arc<Message>, &'a TurnUsage)>,
    /// Answer with calls whose results follow.
    answer: Option<(&'a Arc<Message>, Option<&'a TurnUsage>)>,
    /// Happenings since the last run ended, which belong to the next one.
    before: BeforeRun,
    /// Facts about calls by turn and id; a model may give two calls one id.
    progress: HashMap<(TurnId, CallId), Vec<Progress>>,
}

impl Recording {
    /// Reads the runs of a session from its entries, from the first to the leaf.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Self {
        let mut reader = Reader::default();
        for entry in entries {
            reader.add_entry(entry);
        }
        reader.keep_provisional_answer();
        let mut recording = reader.recording;
        let mut room = MAX_PARTS;
        for facts in RunFacts::all(entries) {
            recording.add_facts(facts, &mut room);
        }
        recording
    }

    fn add_facts(&mut self, facts: RunFacts, room: &mut usize) {
        for model in facts.models {
            if !self.models.contains(&model) {
                self.models.push(model);
            }
        }
        let Some(run) = self.runs.iter_mut().find(|run| run.id.is_some() && run.id == facts.run_id) else {
            return;
        };
        // A few bytes of a foreign pack can stand for very many digests. Such requests are not compared.
        let parts = count_message_digests(&facts.requests);
        if let Some(rest) = room.checked_sub(parts).filter(|_| facts.requests.len() <= MAX_REQUESTS) {
            *room = rest;
            run.requests = Some(recorded_requests(facts.requests));
        }
        let side_calls = facts.side_calls_before.into_iter().chain(facts.side_calls);
        run.side_calls = side_calls.map(|side| (side.request, side.text)).collect();
        for CallFacts { turn_id, call_id, args, raw, verdict } in facts.calls {
            let turn = run.turns.iter_mut().find(|turn| turn.id.as_ref() == Some(&turn_id));
            let Some(call) = turn.and_then(|turn| turn.calls.iter_mut().find(|call| *call.id() == call_id))
            else {
                continue;
            };
            if let Some(args) = args {
                call.args = args;
            }
            (call.raw, call.verdict) = (raw, verdict);
        }
    }
}

/// Number of message digests that the requests have together.
fn count_message_digests(requests: &[RequestFacts]) -> usize {
    let (mut all, mut now) = (0usize, 0usize);
    for request in requests {
        now = now.min(request.kept).saturating_add(request.messages.len());
        all = all.saturating_add(now);
    }
    all
}

fn recorded_requests(facts: Vec<RequestFacts>) -> Vec<RecordedRequest> {
    let (mut system, mut tools): (Arc<[PartFacts]>, Arc<[PartFacts]>) = (Arc::default(), Arc::default());
    let mut messages: Vec<Arc<PartFacts>> = Vec::new();
    let mut requests = Vec::with_capacity(facts.len());
    for request in facts {
        system = request.system.map_or(system, Into::into);
        tools = request.tools.map_or(tools, Into::into);
        messages.truncate(request.kept);
        messages.extend(request.messages.into_iter().map(Arc::new));
        requests.push(RecordedRequest {
            turn_id: request.turn_id,
            model: request.model,
            thinking: request.thinking,
            system: system.clone(),
            tools: tools.clone(),
            messages: messages.clone(),
        });
    }
    requests
}

impl<'a> Reader<'a> {
    fn add_entry(&mut self, entry: &'a Entry) {
        match &entry.kind {
            EntryKind::RunStart { run_id } => {
                self.keep_provisional_answer();
                let BeforeRun { messages, compactions, steps } = std::mem::take(&mut self.before);
                self.recording.runs.push(RecordedRun {
                    id: Some(run_id.clone()),
                    time_ms: entry.time_ms,
                    model: self.model.clone(),
                    thinking: self.thinking,
                    opening: messages,
                    compactions,
                    window_steps: steps,
                    ..RecordedRun::default()
                });
            }
            EntryKind::RunEnd { status, .. } => {
                self.keep_provisional_answer();
                if let Some(run) = self.recording.runs.last_mut() {
                    run.end = Some(*status);
                }
            }
            EntryKind::Model { model } => {
                self.model = Some(model.clone());
                self.change_run(|run| run.model = Some(model.clone()));
            }
            EntryKind::Thinking { level } => {
                self.thinking = *level;
                self.change_run(|run| run.thinking = *level);
            }
            EntryKind::Message { message, usage } => self.add_message(entry, message, usage.as_deref()),
            EntryKind::OpenTurn { turn_id, message, usage } => {
                self.keep_provisional_answer();
                self.open = Some((turn_id, message, usage));
            }
            EntryKind::CallBegin { turn_id, call_id, args, .. } => {
                let progress = Progress { args: Some(args.clone()), began: true, ended: None };
                self.progress.entry((turn_id.clone(), call_id.clone())).or_default().push(progress);
            }
            EntryKind::CallEnd { turn_id, call_id, result, display, details, .. } => {
                let ended = Ended {
                    result: Some((**result).clone()),
                    display: display.as_deref().cloned(),
                    details: details.clone(),
                };
                let known = self.progress.entry((turn_id.clone(), call_id.clone())).or_default();
                match known.iter_mut().find(|progress| progress.ended.is_none()) {
                    Some(progress) => progress.ended = Some(ended),
                    None => known.push(Progress { args: None, began: true, ended: Some(ended) }),
                }
            }
            EntryKind::CallData { turn_id, call_id, display, details, .. } => {
                let ended =
                    Ended { result: None, display: display.as_deref().cloned(), details: details.clone() };
                let progress = Progress { args: None, began: true, ended: Some(ended) };
                self.progress.entry((turn_id.clone(), call_id.clone())).or_default().push(progress);
            }
            EntryKind::Custom(custom) => self.add_custom_entry(custom),
            EntryKind::Usage { .. } | EntryKind::Leaf { .. } | EntryKind::Label { .. } => {}
        }
    }

    /// Changes the run that has begun and has no message yet.
    fn change_run(&mut self, change: impl FnOnce(&mut RecordedRun)) {
        let fresh = |run: &&mut RecordedRun| run.end.is_none() && run.turns.is_empty();
        if let Some(run) = self.recording.runs.last_mut().filter(fresh) {
            change(run);
        }
    }

    /// Run that entries belong to; one without id for those before any.
    fn run_or_new(&mut self, time_ms: u64) -> Option<&mut RecordedRun> {
        if self.recording.runs.is_empty() {
            let (model, thinking) = (self.model.clone(), self.thinking);
            self.recording.runs.push(RecordedRun { time_ms, model, thinking, ..RecordedRun::default() });
        }
        self.recording.runs.last_mut()
    }

    fn add_message(&mut self, entry: &Entry, message: &'a Arc<Message>, usage: Option<&'a TurnUsage>) {
        if message.injected_by.as_deref() == Some(BRANCH_SUMMARY) {
            self.answer = None;
            self.before.messages.push(message.clone());
            return;
        }
        if message.role == Role::Assistant {
            if message.calls().next().is_some() {
                self.answer = Some((message, usage));
                return;
            }
            self.resolve_provisional_answer(message, usage);
            let turn = self.next_turn(message, usage, None);
            if let Some(run) = self.run_or_new(entry.time_ms) {
                run.turns.push(turn);
            }
            return;
        }
        if let Some((answer, usage)) = self.answer.take() {
            self.resolve_provisional_answer(answer, usage);
            let turn = self.next_turn(answer, usage, Some(message));
            if let Some(run) = self.run_or_new(entry.time_ms) {
                run.turns.push(turn);
            }
            return;
        }
        let Some(run) = self.run_or_new(entry.time_ms) else { return };
        match run.turns.last_mut() {
            Some(turn) => turn.then.push(message.clone()),
            None => run.opening.push(message.clone()),
        }
    }

    /// Drops the provisional answer if this one completes it; otherwise keeps it as a turn of a process that died.
    fn resolve_provisional_answer(&mut self, answer: &Message, usage: Option<&TurnUsage>) {
        let ids = |message: &Message| message.calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        let closes = self.open.is_some_and(|(turn_id, open, _)| {
            usage.is_some_and(|usage| usage.turn_id == *turn_id) || ids(open) == ids(answer)
        });
        if !closes {
            self.keep_provisional_answer();
        }
    }

    /// Adds the provisional answer of a process that died as a turn.
    fn keep_provisional_answer(&mut self) {
        self.answer = None;
        let Some((turn_id, answer, usage)) = self.open.take() else { return };
        let mut turn = self.turn_of(answer, Some(usage), Some(turn_id), None);
        turn.is_cut_off = true;
        if let Some(run) = self.run_or_new(0) {
            run.turns.push(turn);
        }
    }

    fn next_turn(
        &mut self,
        answer: &Arc<Message>,
        usage: Option<&TurnUsage>,
        results: Option<&Message>,
    ) -> RecordedTurn {
        let open = self.open.take();
        let id = usage.map(|usage| &usage.turn_id).or(open.map(|(turn_id, _, _)| turn_id));
        self.turn_of(answer, usage.or(open.map(|(_, _, usage)| usage)), id, results)
    }

    fn turn_of(
        &mut self,
        answer: &Arc<Message>,
        usage: Option<&TurnUsage>,
        id: Option<&TurnId>,
        results: Option<&Message>,
    ) -> RecordedTurn {
        let mut results: Vec<Option<&ToolResult>> =
            results.map(|message| message.results().map(Some).collect()).unwrap_or_default();
        let calls = answer.calls().map(|call| {
            let known = id.and_then(|id| self.progress.get_mut(&(id.clone(), call.id.clone())));
            let progress = known.filter(|all| !all.is_empty()).map(|all| all.remove(0)).unwrap_or_default();
            let slot = results.iter_mut().find(|slot| slot.is_some_and(|result| result.call_id == call.id));
            recorded_call(call, progress, slot.and_then(Option::take))
        });
        RecordedTurn {
            calls: calls.collect(),
            id: id.cloned(),
            answer: answer.clone(),
            usage: usage.cloned(),
            then: Vec::new(),
            is_cut_off: false,
        }
    }

    fn add_custom_entry(&mut self, custom: &CustomEntry) {
        if custom.source != WINDOW_OWNER || custom.kind != COMPACTION_ENTRY {
            return;
        }
        // A run that died has no end; its window is made smaller by the next one.
        let is_between = self.recording.runs.last().is_none_or(|run| run.end.is_some());
        let number = match CompactionMark::of(custom) {
            Some(CompactionMark::Plan { number, .. }) => number,
            Some(CompactionMark::Undo) if is_between => {
                self.before.steps.push(WindowStep::Restore);
                return;
            }
            Some(CompactionMark::Undo | CompactionMark::Whole) | None => return,
        };
        let data = custom.data.value();
        let strategy = data.get("strategy").and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = texts_of(&data);
        if is_between {
            // One compaction may have several plans.
            let step = WindowStep::Reduce { number };
            if self.before.steps.last() != Some(&step) {
                self.before.steps.push(step);
            }
            self.before.compactions.push(RecordedCompaction { after_turns: 0, strategy, text });
        } else if let Some(run) = self.recording.runs.last_mut() {
            run.compactions.push(RecordedCompaction { after_turns: run.turns.len(), strategy, text });
        }
    }
}

/// Texts of a compaction's record, in order.
fn texts_of(data: &Value) -> String {
    match data {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) if key == "text" => text.clone(),
                other => texts_of(other),
            })
            .collect(),
        Value::Array(items) => items.iter().map(texts_of).collect(),
        _ => String::new(),
    }
}

fn recorded_call(call: &ToolCall, progress: Progress, result: Option<&ToolResult>) -> RecordedCall {
    let Progress { args, began, ended } = progress;
    let is_ended = ended.is_some();
    let ended = ended.unwrap_or_default();
    RecordedCall {
        args: args.unwrap_or_else(|| call.args.clone()),
        call: call.clone(),
        began,
        ended: is_ended,
        result: result.cloned().or(ended.result),
        raw: None,
        display: ended.display,
        details: ended.details,
        verdict: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kept: usize, new: usize) -> RequestFacts {
        let part = PartFacts { name: "user".to_owned(), bytes: 1, digest: "d".to_owned() };
        RequestFacts {
            turn_id: "t_1".into(),
            model: ModelRef::new("p", "m"),
            thinking: ThinkingLevel::default(),
            system: None,
            tools: None,
            kept,
            messages: vec![part; new],
        }
    }

    fn read(requests: Vec<RequestFacts>, room: &mut usize) -> bool {
        let run = RecordedRun { id: Some("r_1".into()), ..RecordedRun::default() };
        let mut recording = Recording { runs: vec![run], models: Vec::new() };
        recording.add_facts(RunFacts { run_id: Some("r_1".into()), requests, ..RunFacts::default() }, room);
        recording.has_requests()
    }

    #[test]
    fn requests_with_too_many_digests_are_not_read() {
        let few = || vec![request(0, 50), request(usize::MAX, 1)];
        let mut room = 101;
        assert!(read(few(), &mut room));
        assert_eq!(room, 0);
        assert!(!read(few(), &mut room));
        let mut room = MAX_PARTS;
        assert!(!read(vec![request(0, 0); MAX_REQUESTS + 1], &mut room));
        let mut hostile = vec![request(0, 50_000)];
        hostile.resize(MAX_REQUESTS, request(50_000, 0));
        assert!(!read(hostile, &mut room));
    }
}
