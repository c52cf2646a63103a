use std::collections::HashSet;
use std::sync::Arc;

use zk_core::model::{CallId, Message, Role, ToolCall, ToolResult, TurnId, TurnUsage};
use zk_core::service::{Audience, CustomEntry, Entry, EntryKind, LiveEntries};

use super::lane::{AgentBlocks, CutOff};
use super::{Engine, EngineInput};
use crate::queues::Queues;
use crate::record::{AgentRecord, Records, RunRecord, StoredCall};
use crate::{Block, BlockId, CallState, Effect, Lines, Patch, View};

/// Rebuilds the blocks of a stored session from its entries, from the first to the leaf. They equal those
/// seen live except notices: see [`Block::is_stored`]. Of an interrupted run, events after its last turn may
/// be missing.
#[must_use]
pub fn rebuild(entries: &[Entry]) -> Vec<Arc<Block>> {
    let mut engine = Engine::new();
    engine.apply(0, EngineInput::Begin(entries));
    engine.core.view.into_view().blocks
}

/// All lines of a block's body, from the entries of its session; `None` if it has none.
#[must_use]
pub fn body_of(entries: &[Entry], id: &BlockId) -> Option<Lines> {
    let mut engine = Engine::new();
    engine.core.unlimit_bodies();
    engine.apply(0, EngineInput::Begin(entries));
    engine.core.expand_body(id);
    engine.core.patches.into_iter().find_map(|patch| match patch {
        Patch::Body { lines, .. } => Some(lines),
        Patch::Reset { .. }
        | Patch::Open { .. }
        | Patch::Grow { .. }
        | Patch::Change { .. }
        | Patch::Close { .. }
        | Patch::Remove { .. }
        | Patch::Ask { .. }
        | Patch::Answered { .. }
        | Patch::Queue { .. }
        | Patch::Status { .. }
        | Patch::Agents { .. }
        | Patch::Jobs { .. }
        | Patch::Checklist { .. } => None,
    })
}

/// Stored turn whose results are missing, since it was interrupted.
struct OpenTurn<'a> {
    turn_id: &'a TurnId,
    message: &'a Arc<Message>,
    /// The summaries of the calls that began.
    begun: Queues<&'a CallId, Option<&'a String>>,
    ended: Queues<&'a CallId, &'a ToolResult>,
}

impl<'a> OpenTurn<'a> {
    fn is_closed_by(&self, message: &Message, usage: Option<&TurnUsage>) -> bool {
        let ids = |message: &Message| message.calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        usage.is_some_and(|usage| usage.turn_id == *self.turn_id) || ids(message) == ids(self.message)
    }

    /// Progress and facts of the next call with this id. A model may give two calls one id.
    fn take_outcome(&mut self, call_id: &CallId, records: &mut Records<'_>) -> CutOff {
        let begun = self.begun.take(call_id);
        let result = self.ended.take(call_id).cloned();
        let state = match &result {
            Some(result) if result.is_error => CallState::Failed,
            Some(_) => CallState::Done,
            None if begun.is_some() => CallState::OutcomeUnknown,
            None => CallState::NotRun,
        };
        let call = records.take_call(self.turn_id, call_id).or_else(|| {
            begun.map(|summary| StoredCall { summary: summary.cloned(), display: None, elapsed_ms: None })
        });
        CutOff { state, call, result }
    }
}

/// State of the restoration of a stored session.
#[derive(Default)]
struct Restoring<'a> {
    records: Records<'a>,
    run: RunRecord,
    /// Number of blocks before the run.
    from: usize,
    /// Ids of the sub-agents' blocks that are shown.
    agents: HashSet<BlockId>,
    /// Answer whose calls' results follow.
    answer: Option<(&'a Arc<Message>, Option<&'a TurnId>, Option<OpenTurn<'a>>)>,
    open: Option<OpenTurn<'a>>,
    /// Number of plugin entries whose positions are in the run's record.
    placed: usize,
    /// Entries stored with the end of the run.
    late: Vec<&'a CustomEntry>,
}

impl Engine {
    /// Replaces the shown session by a stored or new one.
    pub(super) fn begin_session(&mut self, entries: &[Entry]) {
        let View { switches, queue, cards, jobs, .. } = std::mem::take(&mut self.core.view).into_view();
        // Queued texts belong to the session that is left. They return to the person, who may send them again.
        let given_back = queue.iter().map(|queued| queued.text.unsanitised().to_owned());
        self.core.effects.extend(given_back.map(|text| Effect::GiveBack { text }));
        self.core.forget_bodies();
        (self.own, self.run, self.compaction) = (AgentBlocks::default(), None, None);
        self.agents_kept.clear();
        self.children.clear();
        self.restore(entries);
        self.run_from = self.core.view.blocks.len();
        self.core
            .view
            .edit_fields(|view| (view.switches, view.cards, view.jobs) = (switches + 1, cards, jobs));
        self.core.patches.clear();
        self.core.patches.push(Patch::Reset { view: Box::new(View::clone(&self.core.view)) });
    }

    pub(super) fn restore(&mut self, entries: &[Entry]) {
        // Entries that the model looked up in removed history are not shown.
        let entries = entries.get(LiveEntries::looked_up(entries).len()..).unwrap_or_default();
        let mut state = Restoring { records: Records::of(entries), ..Restoring::default() };
        for entry in entries {
            match &entry.kind {
                EntryKind::Message { message, usage } => {
                    self.own.restore_plugins(&mut self.core, &mut state.run);
                    if let Some(turn) = usage {
                        let tokens = turn.usage.context() + turn.usage.output;
                        self.core.view.edit_fields(|view| view.status.context_tokens = Some(tokens));
                    }
                    if message.role == Role::Assistant {
                        self.restore_answer(&mut state, message, usage.as_deref());
                    } else {
                        self.restore_results(&mut state, message);
                        self.own.show_messages(&mut self.core, std::slice::from_ref(message));
                    }
                }
                EntryKind::OpenTurn { turn_id, message, .. } => {
                    self.restore_cut_off(&mut state);
                    let (begun, ended) = (Queues::default(), Queues::default());
                    state.open = Some(OpenTurn { turn_id, message, begun, ended });
                }
                EntryKind::CallBegin { call_id, summary, .. } => {
                    if let Some(turn) = &mut state.open {
                        turn.begun.push(call_id, summary.as_ref());
                    }
                }
                EntryKind::CallEnd { result, .. } => {
                    if let Some(turn) = &mut state.open {
                        turn.ended.push(&result.call_id, result);
                    }
                }
                EntryKind::RunStart { run_id } => {
                    self.restore_cut_off(&mut state);
                    self.restore_agents(&mut state);
                    self.own.begin_run(run_id);
                    state.run = state.records.take_run(run_id);
                    // Block ids of sub-agents are only unique within a run: in imported sessions, first
                    // sub-agents of two runs may have the same name.
                    state.agents.clear();
                    state.from = self.core.view.blocks.len();
                    let placed = state.run.plugins.iter().filter(|plugin| plugin.is_entry);
                    state.placed = placed.count();
                }
                EntryKind::RunEnd { .. } => {
                    self.own.restore_plugins(&mut self.core, &mut state.run);
                    let _ = self.own.end_run(&mut self.core, None);
                    self.restore_agents(&mut state);
                    if let Some(end) = state.run.end.take() {
                        self.own.restore_end(&mut self.core, end);
                    }
                    for entry in std::mem::take(&mut state.late) {
                        self.own.show_entry(&mut self.core, entry);
                    }
                }
                EntryKind::Custom(entry) => self.restore_entry(&mut state, entry),
                EntryKind::CallData { .. }
                | EntryKind::Usage { .. }
                | EntryKind::Leaf { .. }
                | EntryKind::Label { .. }
                | EntryKind::Model { .. }
                | EntryKind::Thinking { .. } => {}
            }
        }
        self.restore_cut_off(&mut state);
        self.restore_agents(&mut state);
    }

    fn restore_answer<'a>(
        &mut self,
        state: &mut Restoring<'a>,
        message: &'a Arc<Message>,
        usage: Option<&'a TurnUsage>,
    ) {
        let closed = state.open.take_if(|turn| turn.is_closed_by(message, usage));
        self.restore_cut_off(state);
        if message.calls().next().is_some() {
            state.answer = Some((message, usage.map(|usage| &usage.turn_id), closed));
        } else {
            self.own.restore_answer(&mut self.core, message, None, &mut state.run, |_| (None, None));
        }
    }

    fn restore_results(&mut self, state: &mut Restoring<'_>, results: &Message) {
        let Some((answer, turn_id, mut open)) = state.answer.take() else { return };
        // The records of a continued run tell the outcome of calls that did not run.
        let was_cut_off = state.run.end.is_none() && !self.own.is_recorded(&state.run);
        let records = &mut state.records;
        let stored = |call: &ToolCall| match &mut open {
            None => (turn_id.and_then(|turn_id| records.take_call(turn_id, &call.id)), None),
            Some(open) => {
                let CutOff { state, call, .. } = open.take_outcome(&call.id, records);
                let is_said = match state {
                    CallState::OutcomeUnknown => true,
                    CallState::NotRun => was_cut_off && call.is_none(),
                    _ => false,
                };
                (call, is_said.then_some(state))
            }
        };
        self.own.restore_answer(&mut self.core, answer, Some(results), &mut state.run, stored);
    }

    /// Shows an interrupted turn, if there is one.
    fn restore_cut_off(&mut self, state: &mut Restoring<'_>) {
        let Some(mut turn) = state.open.take() else { return };
        let (message, records) = (turn.message, &mut state.records);
        self.own.restore_open_turn(&mut self.core, message, |call| turn.take_outcome(&call.id, records));
    }

    /// Inserts the blocks of sub-agents at their recorded positions.
    fn restore_agents(&mut self, state: &mut Restoring<'_>) {
        let mut agents = std::mem::take(&mut state.run.agents);
        // Records are stored when blocks close, and some of them twice, since a failed append may have
        // succeeded.
        agents.sort_by_key(|record| record.at);
        let mut shown = Vec::with_capacity(agents.len());
        for AgentRecord { at, block, lines } in agents {
            if !state.agents.insert(block.id.clone()) {
                continue;
            }
            if let Some(agent) = &block.agent {
                let lane = self.children.entry(agent.name.as_str().into());
                lane.or_insert_with(|| AgentBlocks::of_agent(agent.clone())).continue_ids_after(&block.id);
            }
            if let Some(lines) = lines {
                self.core.restore_body(&block.id, lines);
            }
            let at = usize::try_from(at).unwrap_or(usize::MAX).saturating_add(state.from);
            shown.push((at, Arc::new(block)));
        }
        self.core.view.insert(shown.into_iter());
    }

    fn restore_entry<'a>(&mut self, state: &mut Restoring<'a>, entry: &'a CustomEntry) {
        match entry.audience {
            Audience::Hidden => {}
            // The block of the entry is in the run's record, with its position.
            Audience::Person | Audience::Model if state.placed > 0 => state.placed -= 1,
            Audience::Person | Audience::Model if state.run.end.is_some() => state.late.push(entry),
            Audience::Person | Audience::Model => self.own.show_entry(&mut self.core, entry),
        }
    }
}
