use zk_core::model::{Message, ToolCall, ToolResult};

use super::{AgentBlocks, Core, parts};
use crate::facts::Facts;
use crate::record::{CallFact, RunRecord, StoredCall};
use crate::{CallState, Content, RunEnd};

/// Facts about a call of a stored, interrupted turn.
pub(in crate::engine) struct CutOff {
    pub(in crate::engine) state: CallState,
    pub(in crate::engine) call: Option<StoredCall>,
    pub(in crate::engine) result: Option<ToolResult>,
}

/// The blocks of a stored run.
impl AgentBlocks {
    /// Shows the end of a stored run.
    pub(in crate::engine) fn restore_end(&mut self, core: &mut Core, end: RunEnd) {
        self.add_block(core, None, Content::End(end));
    }

    /// Shows an answer of a stored run with the `results` of its calls.
    pub(in crate::engine) fn restore_answer(
        &mut self,
        core: &mut Core,
        answer: &Message,
        results: Option<&Message>,
        run: &mut RunRecord,
        mut stored: impl FnMut(&ToolCall) -> (Option<StoredCall>, Option<CallState>),
    ) {
        let number = self.answers;
        let at = run.turns.iter().position(|turn| turn.answer == number);
        let turn = at.map(|at| run.turns.remove(at)).unwrap_or_default();
        let mut facts = Facts::from_stored(turn.calls);
        self.thoughts_ms = turn.thoughts_ms;
        for call in answer.calls() {
            let (call_stored, state) = stored(call);
            let Some(fact) = facts.end_first(&call.id) else { continue };
            fact.state = fact.state.or(state);
            if let Some(StoredCall { summary, display, elapsed_ms, .. }) = call_stored {
                fact.summary = fact.summary.take().or(summary);
                fact.display = fact.display.take().or(display);
                fact.elapsed_ms = fact.elapsed_ms.or(elapsed_ms);
            }
        }
        match results {
            Some(results) => self.show_answer_blocks(core, answer, results, turn.texts.as_deref(), facts),
            None => self.match_parts(core, answer.id.as_ref(), &parts(answer, turn.texts.as_deref())),
        }
        self.answers += 1;
        self.clear_turn(core);
    }

    /// Shows the calls of a stored, interrupted turn; `state` returns the progress of each.
    pub(in crate::engine) fn restore_open_turn(
        &mut self,
        core: &mut Core,
        answer: &Message,
        mut state: impl FnMut(&ToolCall) -> CutOff,
    ) {
        self.match_parts(core, answer.id.as_ref(), &parts(answer, None));
        for (at, call) in answer.calls().enumerate() {
            let Some(block) = self.turn.call(at) else { continue };
            let CutOff { state, call: stored, result } = state(call);
            let fact = CallFact {
                state: Some(state),
                summary: stored.as_ref().and_then(|stored| stored.summary.clone()),
                display: stored.as_ref().and_then(|stored| stored.display.clone()),
                elapsed_ms: stored.and_then(|stored| stored.elapsed_ms),
                ..CallFact::new(call.id.clone())
            };
            let said = answer.id.as_ref();
            self.close_call(core, &block, said, (&call.id, &call.name), Some(&fact), result.as_ref());
        }
        self.clear_turn(core);
    }
}
