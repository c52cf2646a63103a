use serde_json::Value;
use zk_core::events::{
    BudgetOutcome, Coercion, DecidedBy, PermissionDecided, RunBudgetReached, ToolAfter, ToolBatch,
    ToolBefore, ToolBegin, ToolBlocked, ToolBudgetExceeded, ToolEnd, ToolParked, ToolProgress, ToolRemark,
    ToolSkipped, ToolUnknown, ValidationCoerce, ValidationReject,
};
use zk_core::kernel::Origin;
use zk_core::model::{CallId, ToolResult};

use super::{Engine, Reduce};
use crate::blocks::call::location_paths;
use crate::engine::lane::CallBlock;
use crate::{CallState, Content, NoteLevel, Patch, Text};

impl Engine {
    /// Records a state of a call, and updates its block.
    fn set_call_state(
        &mut self,
        origin: &Origin,
        call_id: &CallId,
        state: CallState,
        note: impl FnOnce(&mut crate::record::CallFact),
    ) {
        let (lane, core) = self.lane_and_core(origin);
        let Some(fact) = lane.facts.find_or_add(call_id) else { return };
        note(fact);
        let (summary, reason) = (fact.summary.clone(), fact.reason.clone());
        let (kind, places, line) = (fact.kind, fact.locations.clone(), fact.line);
        if let Some(block) = lane.turn.open_call(core, call_id) {
            core.change_block(&block.id, |content| {
                if let Content::Call(call) = content {
                    call.state = state;
                    call.reason = reason.as_deref().map(Text::line);
                    if let Some(summary) = &summary {
                        call.summary = Text::line(summary);
                    }
                    call.kind = kind;
                    call.locations = places.iter().map(|path| Text::line(path)).collect();
                    call.line = line;
                }
            });
            lane.turn.count_call(core, &block);
        }
    }

    /// Marks a call as not run, with the reason.
    fn set_call_not_run(
        &mut self,
        origin: &Origin,
        call_id: &CallId,
        state: CallState,
        reason: Option<&str>,
    ) {
        self.set_call_state(origin, call_id, state, |fact| {
            fact.state = Some(state);
            fact.reason = reason.map(str::to_owned);
        });
        // The counts of the turn's calls are part of the activity of running calls.
        self.show_running_calls();
    }
}

impl Reduce for ToolBatch {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        for group in self.groups.iter().filter(|group| !group.kind.is_other()) {
            for call in &group.calls {
                let (lane, core) = engine.lane_and_core(origin);
                if let Some(fact) = lane.facts.find_or_add(&call.call_id) {
                    fact.kind = group.kind;
                }
                if let Some(CallBlock { id, .. }) = lane.turn.open_call(core, &call.call_id) {
                    core.change_block(&id, |content| {
                        if let Content::Call(call) = content {
                            call.kind = group.kind;
                        }
                    });
                }
            }
        }
    }
}

impl Reduce for ToolBegin {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        // The call is recorded from here on, even if it is stopped before it runs.
        if let Some(fact) = engine.lane_and_core(origin).0.facts.find_or_add(&self.call.call_id) {
            fact.summary = Some(self.summary.clone());
            (fact.kind, fact.locations) = (self.kind, location_paths(&self.locations));
            fact.line = self.locations.first().and_then(|place| place.line);
        }
    }
}

impl Reduce for PermissionDecided {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if let Some(fact) = engine.lane_and_core(origin).0.facts.find_or_add(&self.call.call_id) {
            fact.refused_by = (!self.allowed).then(|| (self.by, self.reasons.clone()));
        }
    }
}

/// Reason for a refused call, for a person; `reason` is advice for the model.
fn refusal_reason(by: DecidedBy, reasons: &[String], reason: &str) -> String {
    match by {
        // A message of the person to the model follows a colon.
        DecidedBy::Person => match reason.split_once(": ") {
            Some((_, words)) => format!("you said: {words}"),
            None => "you said no".to_owned(),
        },
        DecidedBy::EarlierAnswer => "you said no before".to_owned(),
        DecidedBy::Nobody => "nobody was here to be asked".to_owned(),
        DecidedBy::Policy if !reasons.is_empty() => reasons.join("; "),
        DecidedBy::Policy | DecidedBy::Plugin => reason.to_owned(),
    }
}

impl Reduce for ToolBefore {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let summary = self.summary.clone();
        engine.set_call_state(origin, &self.call.call_id, CallState::Running, |fact| {
            fact.summary = Some(summary);
            fact.is_running = true;
        });
        if origin.depth == 0
            && let Some(run) = &mut engine.run
        {
            run.calls.push((self.call.call_id.clone(), Text::line(&self.summary)));
        }
        engine.show_running_calls();
    }
}

impl Reduce for ToolProgress {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        if let Some(CallBlock { id, .. }) = lane.turn.open_call(core, &self.call.call_id) {
            core.emit(Patch::Grow { id, delta: Text::new(&self.text) });
        }
    }
}

impl Reduce for ToolBlocked {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let decided = engine
            .lane_and_core(origin)
            .0
            .facts
            .find_or_add(&self.call.call_id)
            .and_then(|fact| fact.refused_by.take());
        let reason = match decided {
            Some((by, reasons)) => refusal_reason(by, &reasons, &self.reason),
            None => self.reason.clone(),
        };
        engine.set_call_not_run(origin, &self.call.call_id, CallState::Refused, Some(&reason));
    }
}

impl Reduce for ToolParked {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.set_call_not_run(origin, &self.call.call_id, CallState::Parked, Some(&self.reason));
    }
}

impl Reduce for ToolSkipped {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        // A call that had started was cut off.
        let is_running = |fact: &&mut crate::record::CallFact| fact.is_running;
        let facts = &mut engine.lane_and_core(origin).0.facts;
        let state = match facts.find_or_add(&self.call.call_id).filter(is_running) {
            Some(_) => CallState::OutcomeUnknown,
            None => CallState::Skipped,
        };
        // Other texts are advice for the model on its next step, which does not concern the person.
        let is_stopped = self.reason.starts_with("Aborted: the run was stopped");
        let is_by_person = engine.run.as_ref().is_some_and(|run| run.is_stopping());
        let reason = match (is_stopped, is_by_person) {
            (true, true) => "you stopped",
            (true, false) => "the run was stopped",
            (false, _) => self.reason.as_str(),
        };
        engine.set_call_not_run(origin, &self.call.call_id, state, Some(reason));
    }
}

impl Reduce for ToolUnknown {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.set_call_not_run(origin, &self.call.call_id, CallState::Unknown, None);
    }
}

impl Reduce for ValidationReject {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let issues = self.issues.join("; ");
        engine.set_call_not_run(origin, &self.call.call_id, CallState::Invalid, Some(&issues));
    }
}

impl Reduce for ToolEnd {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        if let Some(fact) = engine.lane_and_core(origin).0.facts.find_or_add(&self.call.call_id) {
            fact.summary = Some(self.summary.clone());
            fact.display.clone_from(&self.display);
            fact.elapsed_ms = Some(self.elapsed_ms);
            fact.is_stored = true;
        }
    }
}

impl Reduce for ToolAfter {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        let call_id = self.call.call_id.clone();
        let result = ToolResult { call_id, content: self.content.clone(), is_error: self.is_error };
        // A result that a gate substituted has no end event.
        if let Some(fact) = lane.facts.find_or_add(&self.call.call_id).filter(|fact| !fact.is_stored) {
            fact.display.clone_from(&self.display);
        }
        lane.end_call(core, &self.call, &result);
        if origin.depth == 0
            && let Some(run) = &mut engine.run
        {
            let ended = run.calls.iter().position(|(call_id, _)| *call_id == self.call.call_id);
            ended.map(|at| run.calls.remove(at));
        }
        if origin.depth > 0 {
            engine.count_agent_call(&origin.agent);
        }
        engine.show_running_calls();
    }
}

/// Maximum number of remarks on a call.
const MAX_REMARKS: usize = 8;

/// Maximum length of a value in a remark, in characters.
const MAX_VALUE_CHARS: usize = 60;

impl Reduce for ToolRemark {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        engine.add_remark(origin, &self.call.call_id, &self.text);
    }
}

impl Reduce for ValidationCoerce {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let shown = |value: &Value| {
            let text = value.to_string();
            let cut = if text.chars().nth(MAX_VALUE_CHARS).is_some() { "…" } else { "" };
            format!("{}{cut}", text.chars().take(MAX_VALUE_CHARS).collect::<String>())
        };
        for Coercion { key, from, to } in &self.coercions {
            let text = format!("`{key}` came as {} and was read as {}", shown(from), shown(to));
            engine.add_remark(origin, &self.call.call_id, &text);
        }
    }
}

impl Engine {
    /// Adds a remark on a call, shown with the result.
    fn add_remark(&mut self, origin: &Origin, call_id: &CallId, text: &str) {
        if let Some(fact) = self.lane_and_core(origin).0.facts.find_or_add(call_id)
            && fact.remarks.len() < MAX_REMARKS
        {
            fact.remarks.push(text.to_owned());
        }
    }
}

impl Reduce for ToolBudgetExceeded {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let text = format!(
            "{} was called more often than its budget of {} allows",
            Text::line(&self.tool),
            self.max
        );
        engine.add_note(NoteLevel::Info, &text);
    }
}

impl Reduce for RunBudgetReached {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let shortage = self.budget.describe_shortage(self.spent, self.wanted);
        let text = match self.outcome {
            // The question shows it, and the end of the run.
            BudgetOutcome::Asked | BudgetOutcome::Stopped => return,
            BudgetOutcome::Shortened { max_tokens } => {
                format!("{shortage}: this answer may have {max_tokens} tokens")
            }
            BudgetOutcome::Raised { to } => format!("the budget is {to} from now on"),
            BudgetOutcome::Lifted => "there is no budget any more".to_owned(),
        };
        engine.add_note(NoteLevel::Info, &text);
    }
}
