use zk_core::model::{Display, Message, ToolCall, ToolContent, ToolResult};

use super::{Core, Lane, parts};
use crate::record::{CallFact, Facts, RunRecord};
use crate::{CallState, Content, RunEnd};

/// The blocks of a stored run.
impl Lane {
    /// Shows the end of a stored run.
    pub(in crate::engine) fn restore_end(&mut self, core: &mut Core, end: RunEnd) {
        self.add(core, Content::End(end));
    }

    /// Shows an answer of a stored run. `results` are those of its calls, if it has any.
    pub(in crate::engine) fn restore_answer(
        &mut self,
        core: &mut Core,
        answer: &Message,
        results: Option<&Message>,
        run: &mut RunRecord,
        display: impl Fn(&ToolCall) -> Option<(Option<Display>, u64)>,
    ) {
        let number = self.answers;
        let at = run.turns.iter().position(|turn| turn.answer == number);
        let turn = at.map(|at| run.turns.remove(at)).unwrap_or_default();
        let mut facts = Facts(turn.calls);
        for call in answer.calls() {
            if let Some((shown, elapsed)) = display(call)
                && let Some(fact) = facts.of(&call.id)
            {
                fact.is_over = true;
                fact.display = fact.display.take().or(shown);
                fact.elapsed_ms = fact.elapsed_ms.or(Some(elapsed));
            }
        }
        match results {
            Some(results) => self.show_pair(core, answer, results, turn.texts.as_deref(), facts),
            None => self.match_parts(core, &parts(answer, turn.texts.as_deref())),
        }
        self.answers += 1;
        self.end_turn(core);
    }

    /// Shows the calls of a stored turn that was cut off: `state` says how far each got.
    pub(in crate::engine) fn restore_open_turn(
        &mut self,
        core: &mut Core,
        answer: &Message,
        state: impl Fn(&ToolCall) -> (CallState, Option<(ToolContent, bool)>),
    ) {
        self.match_parts(core, &parts(answer, None));
        for (at, call) in answer.calls().enumerate() {
            let Some(id) = self.call_block(at) else { continue };
            let (state, result) = state(call);
            let fact = CallFact { state: Some(state), ..CallFact::new(call.id.clone()) };
            let result =
                result.map(|(content, is_error)| ToolResult { call_id: call.id.clone(), content, is_error });
            self.close_call(core, id, &call.id, &call.name, Some(&fact), result.as_ref());
        }
        self.end_turn(core);
    }
}
