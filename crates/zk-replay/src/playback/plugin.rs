use std::sync::Arc;

use zk_core::events::ToolGate;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, Stage};
use zk_core::service::{Clock, PendingQuestion, Question, Questions, RunControl, Tool, UiAnswer};

use super::Playback;
use super::provider::stop_run;
use super::tools::{ReplayedTool, was_stopped_before};

impl Plugin for Playback {
    fn name(&self) -> &str {
        "replay"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let playback = self.clone();
        scope.decorate_all::<dyn Tool>(move |inner| {
            Arc::new(ReplayedTool { inner, playback: playback.clone() })
        });
        scope.provide_service::<dyn Clock>(self.clock());
        if self.is_attended() {
            self.answer_questions(scope);
        }
        let gating = self.clone();
        scope.on_sync_at(Stage::Early, move |gate: &ToolGate, cx: &Cx| {
            // A call that ended in this turn stops the run itself.
            let has_ended = gating.turn().is_some_and(|(_, _, turn)| turn.last_ended().is_some());
            let is_stopped = !has_ended && gating.recorded_call(&gate.call).is_some_and(was_stopped_before);
            if is_stopped && let Some(control) = cx.service::<dyn RunControl>() {
                stop_run(&*control);
            }
            None
        });
        Ok(())
    }
}

impl Playback {
    /// Answers the questions on a bus.
    fn answer_questions(&self, scope: &Scope) {
        scope.provide_service::<Questions>(Arc::new(self.questions().clone()));
        let front_end = self.questions().attach();
        let answering = self.clone();
        scope.spawn(async move {
            let mut front_end = front_end;
            loop {
                for pending in front_end.pending() {
                    // An answer that is not offered leaves the question to its time limit; `Absent` always is.
                    let _ = front_end.answer(pending.id, pending.digest, answering.answer(&pending));
                }
                front_end.changed().await;
            }
        });
    }

    /// Answers a question as in the recording: yes to a call that ran there, no to every other.
    fn answer(&self, pending: &PendingQuestion) -> UiAnswer {
        let no = UiAnswer::No { message: None };
        match &pending.question {
            Question::Approve(approval) => {
                let Some((_, _, turn)) = self.turn() else { return no };
                let of_tool = || turn.calls.iter().filter(|call| call.call.name == approval.tool);
                let known = of_tool().find(|call| call.args == approval.args).or_else(|| of_tool().next());
                if known.is_some_and(|call| call.began) { UiAnswer::Once } else { no }
            }
            Question::Confirm { .. } | Question::Trust(_) | Question::Select(_) | Question::Input { .. } => {
                no
            }
        }
    }
}
