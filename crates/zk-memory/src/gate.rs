//! Approval gate of the tool `remember`: a tainted context (prompt injection) needs a person's consent to the exact
//! text.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zk_core::events::{
    CallRef, DecidedBy, PermissionDecided, PermissionReply, PermissionRequest, Ruling, ToolGate,
};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Reach, Scope, Stage};
use zk_core::model::{Display, Effects, SessionId, ToolOutput};
use zk_core::service::{Approval, CallDecision, CallJudge, Question, Questions, UiAnswer};

use crate::MemoryError;
use crate::fact::REMEMBER;
use crate::shared::Shared;
use crate::tool::RememberArgs;

/// Time limit of the person's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);

/// Time that the gate's handler may take beyond the time limit of the answer.
const MARGIN: Duration = Duration::from_secs(5);

/// Maximum number of calls that a person agreed to and that the permission gate has not asked about yet.
const MAX_CONSENTS: usize = 16;

/// Handler of the gate, and of permission requests for calls that a person agreed to just now.
#[derive(Debug)]
pub(crate) struct MemoryGate {
    shared: Arc<Shared>,
    agreed: Mutex<VecDeque<CallRef>>,
}

impl MemoryGate {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, agreed: Mutex::default() })
    }

    pub(crate) fn register(self: &Arc<Self>, scope: &Scope) {
        let at = HookOptions {
            stage: Stage::Review,
            reach: Some(Reach::Descendants),
            time_limit: Some(ANSWER_LIMIT + MARGIN),
        };
        scope.handle_at::<ToolGate, _>(at, self.clone());
        let gate = self.clone();
        scope.on_sync(move |request: &PermissionRequest, _: &Cx| {
            // Prevents a second question about the same words.
            gate.take_agreed(&request.call).then_some(PermissionReply::Allow)
        });
    }

    fn take_agreed(&self, call: &CallRef) -> bool {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        let at = agreed.iter().position(|one| (&one.turn_id, &one.call_id) == (&call.turn_id, &call.call_id));
        at.and_then(|at| agreed.remove(at)).is_some()
    }

    fn record_agreed(&self, call: &CallRef) {
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        if agreed.len() == MAX_CONSENTS {
            agreed.pop_front();
        }
        agreed.push_back(call.clone());
    }

    /// Decision of the permission judge about a call; *ask* without a judge.
    async fn judge_call(gate: &ToolGate, cx: &Cx) -> Result<CallDecision, BoxError> {
        let Some(judge) = cx.service::<dyn CallJudge>() else {
            return Ok(CallDecision::Ask { by_rule: false });
        };
        let (name, effects, cwd) = (gate.call.name.clone(), gate.effects.clone(), gate.place.cwd.clone());
        Ok(tokio::task::spawn_blocking(move || judge.judge(&name, &effects, &cwd)).await?.decision)
    }

    /// Stores the words as a proposal, which stands in for the result of the call.
    async fn propose(&self, gate: &ToolGate, why: &str, cx: &Cx) -> Answer<ToolGate> {
        let args: RememberArgs = serde_json::from_value(gate.args.clone())?;
        let session = cx.service::<SessionId>();
        let fact = args.fact(&self.shared, session.as_deref());
        let stored = self.shared.blocking(move |store| store.propose(&fact)).await;
        let reasons = vec![format!("{why}, and nobody was here to be asked: kept as a proposal")];
        cx.emit(PermissionDecided::of(gate, false, DecidedBy::Nobody, reasons)).await?;
        Ok(Some(match stored {
            Ok(saved) => Ruling::Substitute(ToolOutput::text(format!(
                "Not kept yet: nobody is here to approve it, so it waits as the proposal {} until the user accepts it \
                 (`zk memory list --proposed`). Go on without it.",
                saved.id()
            ))),
            Err(error) => Ruling::refuse(error.to_string()),
        }))
    }
}

impl Handler<ToolGate> for MemoryGate {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.call.name != REMEMBER || gate.is_decided() || gate.tool.is_none() {
            return Ok(None);
        }
        let Some(text) = gate.input_str("text").map(str::to_owned) else { return Ok(None) };
        // Nobody is asked about words that are refused anyway.
        let checked = self.shared.store.check(&text);
        if let Err(error) = checked {
            return Ok(Some(Ruling::refuse(refusal_text(&error))));
        }
        let reasons = self.shared.taint.reasons(&text, cx);
        let decision = Self::judge_call(gate, cx).await?;
        let questions = cx.service::<Questions>().filter(|questions| questions.is_attended());
        match (decision, questions) {
            // The permission gate refuses.
            (CallDecision::Deny, _) => Ok(None),
            (CallDecision::Allow, _) if reasons.is_empty() => Ok(None),
            (CallDecision::Ask { .. }, Some(_)) if reasons.is_empty() => Ok(None),
            // The permission gate asks, and no earlier answer, plugin or mode counts for it.
            (CallDecision::Ask { by_rule: true }, Some(_)) => Ok(None),
            (CallDecision::Allow | CallDecision::Ask { .. }, None) => {
                let why = reasons
                    .first()
                    .map_or_else(|| "a person decides about it".to_owned(), |reason| taint_line(reason));
                self.propose(gate, &why, cx).await
            }
            (CallDecision::Allow | CallDecision::Ask { .. }, Some(questions)) => {
                let why: Vec<String> = reasons.iter().map(|reason| taint_line(reason)).collect();
                let approval = Approval {
                    tool: gate.call.name.clone(),
                    args: gate.args.clone(),
                    // The words are what is asked about, and not the file that they go to.
                    effects: Effects::Unknown,
                    preview: Some(Display::Lines { lines: why.clone() }),
                    reasons: why.clone(),
                    ..Approval::default()
                };
                let question = Question::Approve(Box::new(approval));
                match questions.ask(question, cx, ANSWER_LIMIT).await {
                    UiAnswer::Once => {
                        self.record_agreed(&gate.call);
                        Ok(Some(Ruling::Consent(format!("{}; answered: once", why.join("; ")))))
                    }
                    UiAnswer::No { message } => {
                        let said = message.map_or(String::new(), |message| format!(": {message}"));
                        let reasons = vec!["answered: no".to_owned()];
                        cx.emit(PermissionDecided::of(gate, false, DecidedBy::Person, reasons)).await?;
                        Ok(Some(Ruling::refuse(format!("the user does not want that remembered{said}"))))
                    }
                    UiAnswer::Absent => {
                        let why = why.first().cloned().unwrap_or_default();
                        self.propose(gate, &why, cx).await
                    }
                    UiAnswer::Session
                    | UiAnswer::Always
                    | UiAnswer::WiderSession
                    | UiAnswer::WiderAlways
                    | UiAnswer::MoreSession { .. }
                    | UiAnswer::MoreAlways { .. }
                    | UiAnswer::Contained
                    | UiAnswer::Choice { .. }
                    | UiAnswer::Text { .. } => Ok(Some(Ruling::refuse(
                        "the answer was neither yes nor no, so nothing was remembered",
                    ))),
                }
            }
        }
    }
}

fn taint_line(reason: &str) -> String {
    format!("you did not type all that the model read: {reason}")
}

/// Message to the model about a refused text.
fn refusal_text(error: &MemoryError) -> String {
    format!("nothing was remembered: {error}")
}
