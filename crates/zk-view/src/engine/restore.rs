use std::sync::Arc;

use zk_core::model::{CallId, Display, Message, Role, ToolCall, ToolContent, TurnId, TurnUsage};
use zk_core::service::{Entry, EntryKind};

use super::{Engine, In};
use crate::record::{Records, RunRecord};
use crate::{Block, BlockId, CallState, Lines, Patch};

/// The blocks of a stored session, from its entries (the first to the leaf). They equal those seen live, but for
/// notices and what sub-agents did: see [`Block::is_stored`].
#[must_use]
pub fn rebuild(entries: &[Entry]) -> Vec<Arc<Block>> {
    let mut engine = Engine::new();
    engine.apply(0, In::Restored(entries));
    std::mem::take(&mut engine.core.view.blocks)
}

/// All lines of the body of a block, from the entries of its session; nothing if it has none.
#[must_use]
pub fn body_of(entries: &[Entry], id: &BlockId) -> Option<Lines> {
    let mut engine = Engine::new();
    engine.core.keep_all_bodies();
    engine.apply(0, In::Restored(entries));
    engine.core.expand(id);
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
        | Patch::Agents { .. } => None,
    })
}

/// A stored turn whose results have not come yet.
struct OpenTurn<'a> {
    turn_id: &'a TurnId,
    message: &'a Arc<Message>,
    begun: Vec<&'a CallId>,
    ended: Vec<(&'a CallId, ToolContent, bool)>,
}

impl OpenTurn<'_> {
    fn is_closed_by(&self, message: &Message, usage: Option<&TurnUsage>) -> bool {
        let ids = |message: &Message| message.calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        usage.is_some_and(|usage| usage.turn_id == *self.turn_id) || ids(message) == ids(self.message)
    }

    fn state(&self, call: &ToolCall) -> (CallState, Option<(ToolContent, bool)>) {
        let ended = self.ended.iter().find(|(id, ..)| **id == call.id);
        match ended {
            Some((_, content, true)) => (CallState::Failed, Some((content.clone(), true))),
            Some((_, content, false)) => (CallState::Done, Some((content.clone(), false))),
            None if self.begun.contains(&&call.id) => (CallState::OutcomeUnknown, None),
            None => (CallState::NotRun, None),
        }
    }
}

impl Engine {
    /// Shows a stored session in an empty view.
    pub(super) fn restore(&mut self, entries: &[Entry]) {
        let mut records = Records::of(entries);
        let mut run = RunRecord::default();
        let mut answer: Option<(&Arc<Message>, Option<&TurnId>)> = None;
        let mut open: Option<OpenTurn<'_>> = None;
        for entry in entries {
            match &entry.kind {
                EntryKind::Message { message, usage } => {
                    self.own.restore_plugins(&mut self.core, &mut run);
                    if message.role == Role::Assistant {
                        if let Some(turn) =
                            open.take().filter(|turn| !turn.is_closed_by(message, usage.as_ref()))
                        {
                            self.restore_cut_off(&turn);
                        }
                        if message.calls().next().is_some() {
                            answer = Some((message, usage.as_ref().map(|usage| &usage.turn_id)));
                        } else {
                            self.own.restore_answer(&mut self.core, message, None, &mut run, |_| None);
                        }
                    } else {
                        if let Some((answer, turn_id)) = answer.take() {
                            let display = |call: &ToolCall| ended(&records, turn_id, &call.id);
                            let results = Some(&**message);
                            self.own.restore_answer(&mut self.core, answer, results, &mut run, display);
                        }
                        self.own.messages(&mut self.core, std::slice::from_ref(message));
                    }
                }
                EntryKind::OpenTurn { turn_id, message, .. } => {
                    if let Some(turn) = open.take() {
                        self.restore_cut_off(&turn);
                    }
                    open = Some(OpenTurn { turn_id, message, begun: Vec::new(), ended: Vec::new() });
                }
                EntryKind::CallBegin { call_id, .. } => {
                    if let Some(turn) = &mut open {
                        turn.begun.push(call_id);
                    }
                }
                EntryKind::CallEnd { call_id, result, .. } => {
                    if let Some(turn) = &mut open {
                        turn.ended.push((call_id, result.content.clone(), result.is_error));
                    }
                }
                EntryKind::RunStart { run_id } => {
                    if let Some(turn) = open.take() {
                        self.restore_cut_off(&turn);
                    }
                    self.own.begin_run(run_id);
                    run = records.run(run_id);
                }
                EntryKind::RunEnd { .. } => {
                    self.own.restore_plugins(&mut self.core, &mut run);
                    let _ = self.own.end_run(&mut self.core, None);
                    if let Some(end) = run.end.take() {
                        self.own.restore_end(&mut self.core, end);
                    }
                }
                EntryKind::CallData { .. }
                | EntryKind::Usage { .. }
                | EntryKind::Model { .. }
                | EntryKind::Thinking { .. }
                | EntryKind::Custom(_) => {}
            }
        }
        if let Some(turn) = open {
            self.restore_cut_off(&turn);
        }
    }

    fn restore_cut_off(&mut self, turn: &OpenTurn<'_>) {
        self.own.restore_open_turn(&mut self.core, turn.message, |call| turn.state(call));
    }
}

/// What the session says itself of the end of a call.
fn ended(records: &Records, turn_id: Option<&TurnId>, call_id: &CallId) -> Option<(Option<Display>, u64)> {
    let is_it =
        |(turn, call, ..): &&(TurnId, CallId, Option<Display>, u64)| Some(turn) == turn_id && call == call_id;
    records.ends.iter().find(is_it).map(|(.., display, elapsed)| (display.clone(), *elapsed))
}
