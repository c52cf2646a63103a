mod ask;
mod callback;
mod exact_rule;
mod grant;
mod scripts;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use zk_core::events::{DecidedBy, PermissionDecided, Ruling, SessionLoaded, ToolGate, TurnBefore};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Scope, Stage};
use zk_core::model::Effects;
use zk_core::service::{
    CallDecision, CallGuard, CallJudge, CallJudgement, Files, ParkedCall, ParkedQuestion,
};

use exact_rule::call_bytes;
use grant::{CallKey, Grant, commands_beside};
use scripts::named_scripts;

pub use callback::{AskedCall, allow_if};

use crate::mode::{Mode, ModeSwitch};

/// Time limit of a person's answer; without one the call is refused.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Additional wait of the gate beyond the question's time limit, so that the question reports the time-out.
const GATE_MARGIN: Duration = Duration::from_secs(5);

/// Time limit of a judge: more than a slow file system takes.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Error of a judge that panicked.
const JUDGE_PANICKED: &str = "the judge of permissions panicked, so this call does not run";

/// Reason for a question about a call of a tool that asks each time.
const ASKS_EACH_TIME: &str = "ask: its tool asks about each call, and no rule allows it for you";

/// Gate that asks before a call with side effects, for its agent and all descendants.
///
/// Runs as the last gate, on the final arguments. Choices for the session apply to all agents of the tree
/// until the conversation is replaced; *always* is offered if the host [remembers it](Self::remembering). A
/// [`CallJudge`] of the host decides first: a denied call is refused without a question, an allowed call
/// runs, and approvals offered by the judge are offered with the question. If the judge panics or takes too
/// long, the call is refused. Each decision is emitted as [`PermissionDecided`] before the call runs; if
/// recording fails, the call is refused.
///
/// In a leg of a run that outlives its worker ([`Leg`](zk_core::service::Leg)), a call that nobody is here to approve is parked:
/// the question is stored, and the gate looks up its answer when a later leg asks again about exactly this call.
///
/// Without a judge, the workspace and the sandbox are unknown, and the mode applies to the declared effects
/// of a call: `read-only` refuses every call that does more than read, `all` allows every call that stays in
/// the sandbox or container, and the modes between them ask. A judge shares the mode of the gate:
/// `PermissionGate::new(judge.modes().clone())`.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_permission::{Mode, PermissionGate};
///
/// let bus = Bus::new();
/// bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
/// ```
#[derive(Debug)]
pub struct PermissionGate {
    granted: Arc<Granted>,
}

/// Grants of the person for the rest of the session.
#[derive(Debug, Default)]
struct Granted {
    /// Project in which *always* answers are remembered.
    project: Option<PathBuf>,
    modes: ModeSwitch,
    grants: Mutex<BTreeSet<Grant>>,
    /// Signal of each new grant, which may answer other pending questions.
    added: Notify,
    /// Advice on how to let a call run, by the name of the mode that would.
    advice: Option<fn(&str) -> String>,
    judging: Option<Duration>,
}

/// Decision on a call.
struct Decided {
    by: DecidedBy,
    /// Reason for a refusal; `None` if the call runs.
    refusal: Option<String>,
    /// Text recorded with the decision besides the judge's reasons.
    note: String,
    /// Question on which the call is parked instead, in a run that outlives its worker.
    question: Option<Box<ParkedQuestion>>,
}

impl Decided {
    fn allowed(by: DecidedBy, note: &str) -> Self {
        Self { by, refusal: None, note: note.to_owned(), question: None }
    }

    fn refused(by: DecidedBy, refusal: impl Into<String>, note: &str) -> Self {
        Self { by, refusal: Some(refusal.into()), note: note.to_owned(), question: None }
    }

    /// The call waits for the answer to `question`.
    fn parked(reason: String, question: ParkedQuestion) -> Self {
        let question = Some(Box::new(question));
        Self { by: DecidedBy::Nobody, refusal: Some(reason), note: String::new(), question }
    }
}

impl PermissionGate {
    /// Creates the gate with a fixed mode, or with a [`ModeSwitch`].
    #[must_use]
    pub fn new(mode: impl Into<ModeSwitch>) -> Self {
        Self { granted: Arc::new(Granted { modes: mode.into(), ..Granted::default() }) }
    }

    /// Offers *always this exact call*, which the host's [`Trust`](zk_core::service::Trust) remembers for `project`,
    /// canonical, under the kind [`PermissionGate::TRUST_KIND`].
    #[must_use]
    pub fn remembering(self, project: impl Into<PathBuf>) -> Self {
        self.with(|granted| granted.project = Some(project.into()))
    }

    /// Sets the advice for a call refused because nobody could approve it, by the name of the permission mode
    /// that would allow it.
    #[must_use]
    pub fn advising(self, advice: fn(&str) -> String) -> Self {
        self.with(|granted| granted.advice = Some(advice))
    }

    /// Sets the time limit of the judge, 20 s by default; beyond it the call is refused.
    #[must_use]
    pub fn judging_within(self, limit: Duration) -> Self {
        self.with(|granted| granted.judging = Some(limit))
    }

    fn with(self, change: impl FnOnce(&mut Granted)) -> Self {
        let Granted { project, modes, advice, judging, .. } = &*self.granted;
        let mut granted = Granted {
            project: project.clone(),
            advice: *advice,
            judging: *judging,
            modes: modes.clone(),
            ..Granted::default()
        };
        change(&mut granted);
        Self { granted: Arc::new(granted) }
    }

    /// Kind of remembered calls in the trust store.
    pub const TRUST_KIND: &'static str = "command";

    /// Bytes in the trust store for a permanently allowed call in the directory `cwd`: the model's arguments,
    /// the declared effects, and the present content in `files` of the named programs and scripts. `None` for
    /// a call that cannot be remembered: a directory whose path is not UTF-8, programs of more than 1 MiB.
    #[must_use]
    pub fn remembered_bytes(
        files: &dyn Files,
        cwd: &Path,
        tool: &str,
        args: &Value,
        effects: &Effects,
    ) -> Option<Vec<u8>> {
        let scripts = named_scripts(files, cwd, args, effects).ok()?;
        call_bytes(cwd, tool, args, commands_beside(effects, args).as_ref(), scripts.as_ref())
    }
}

impl Plugin for PermissionGate {
    fn name(&self) -> &'static str {
        "permission"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let last =
            HookOptions { time_limit: Some(ANSWER_TIMEOUT + GATE_MARGIN), ..HookOptions::from(Stage::Late) };
        scope.handle_at::<ToolGate, _>(last, self.granted.clone());
        scope.provide_service(Arc::new(CallGuard));
        let modes = self.granted.modes.clone();
        scope.on_sync(move |_: &TurnBefore, _: &Cx| modes.begin_turn());
        // Grants of one session do not hold in the next.
        let granted = self.granted.clone();
        scope.on_sync(move |_: &SessionLoaded, cx: &Cx| {
            granted.granted().clear();
            if let Some(judge) = cx.service::<dyn CallJudge>() {
                judge.forget_session();
            }
        });
        Ok(())
    }
}

impl Handler<ToolGate> for Granted {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        // The loop reports the unknown tool to the model.
        let Some(tool) = gate.tool.as_ref().filter(|_| !gate.is_decided()) else { return Ok(None) };
        let judge = cx.service::<dyn CallJudge>();
        let judgement = match &judge {
            Some(judge) => Some(self.judge(gate, judge).await?),
            None => None,
        };
        let asks = tool.asks_each_time() && self.modes.now() != Mode::All;
        let judgement = if asks { judgement.map(asked_each_time) } else { judgement };
        let judged = judge.as_ref().zip(judgement.as_ref());
        let decided = match judged {
            Some((_, judgement)) => match judgement.decision {
                CallDecision::Allow => Decided::allowed(DecidedBy::Policy, ""),
                CallDecision::Deny => self.deny(judged, ""),
                CallDecision::Ask { by_rule } => self.ask(gate, tool, judged, by_rule, cx).await?,
            },
            // Only the declared effects are known.
            None if gate.effects.is_read_only() && !asks => {
                Decided::allowed(DecidedBy::Policy, "it only reads")
            }
            None if self.modes.now() == Mode::ReadOnly => self.deny(None, "the mode is read-only"),
            None => self.ask(gate, tool, None, asks, cx).await?,
        };
        if let Decided { refusal: Some(reason), question: Some(question), .. } = decided {
            // Decided, and recorded, once there is an answer.
            return Ok(Some(Ruling::Park(ParkedCall::asking(*question, reason))));
        }
        let refusal = decided.refusal.clone();
        cx.emit(self.record(gate, decided, judgement)).await?;
        Ok(refusal.map(Ruling::refuse))
    }
}

/// Judgement of a call whose tool asks each time: an allow rule has no effect.
fn asked_each_time(judgement: CallJudgement) -> CallJudgement {
    let decision = CallDecision::Ask { by_rule: true };
    match judgement.decision {
        CallDecision::Allow => {
            let (reasons, allowed_by) = (vec![ASKS_EACH_TIME.to_owned()], Some(Mode::All.to_string()));
            CallJudgement { decision, reasons, allowed_by, ..judgement }
        }
        CallDecision::Ask { .. } => CallJudgement { decision, ..judgement },
        CallDecision::Deny => judgement,
    }
}

impl Granted {
    /// Returns the record of a decision.
    fn record(
        &self,
        gate: &ToolGate,
        decided: Decided,
        judgement: Option<CallJudgement>,
    ) -> PermissionDecided {
        let allowed = decided.refusal.is_none();
        let (judged, allowed_by) = match judgement {
            Some(judgement) => (judgement.reasons, judgement.allowed_by),
            None => (Vec::new(), Some("all".to_owned())),
        };
        let by = match decided.by {
            // Without the consents of a person it would have been refused earlier.
            DecidedBy::Policy | DecidedBy::Plugin if allowed && !gate.consents.is_empty() => {
                DecidedBy::Person
            }
            by => by,
        };
        let mut reasons = gate.consents.clone();
        reasons.extend(judged);
        if !decided.note.is_empty() {
            reasons.push(decided.note);
        }
        let allowed_by = allowed_by.filter(|_| !allowed);
        PermissionDecided { allowed_by, ..PermissionDecided::of(gate, allowed, by, reasons) }
    }

    /// Runs the judge, on a separate thread if it may wait for the file system.
    async fn judge(&self, gate: &ToolGate, judge: &Arc<dyn CallJudge>) -> Result<CallJudgement, BoxError> {
        let judge = judge.clone();
        let (tool, effects, cwd) = (gate.call.name.clone(), gate.effects.clone(), gate.place.cwd.clone());
        if judge.is_quick(&effects, &cwd) {
            let judging = AssertUnwindSafe(|| judge.judge(&tool, &effects, &cwd));
            return catch_unwind(judging).map_err(|_| JUDGE_PANICKED.into());
        }
        let judging = tokio::task::spawn_blocking(move || judge.judge(&tool, &effects, &cwd));
        let limit = self.judging.unwrap_or(JUDGE_TIMEOUT);
        match tokio::time::timeout(limit, judging).await {
            Ok(Ok(judgement)) => Ok(judgement),
            Ok(Err(_)) => Err(JUDGE_PANICKED.into()),
            Err(_) => {
                let limit = limit.as_secs_f32();
                Err(format!("the judge of permissions took longer than {limit} s, so this call does not run")
                    .into())
            }
        }
    }

    /// Refuses a call without a question.
    fn deny(&self, judged: Option<(&Arc<dyn CallJudge>, &CallJudgement)>, note: &str) -> Decided {
        let advice = self.refusal_advice(judged);
        let why = format!("this call is not allowed here, and nobody is asked about it{advice}");
        Decided::refused(DecidedBy::Policy, why, note)
    }

    /// Text after a refusal: advice on how to allow the call, and the judge's reasons.
    fn refusal_advice(&self, judged: Option<(&Arc<dyn CallJudge>, &CallJudgement)>) -> String {
        let mode = match judged {
            Some((_, judgement)) => judgement.allowed_by.as_deref(),
            None => Some("all"),
        };
        let reasons = judged.map(|(_, judgement)| judgement.reasons.as_slice()).unwrap_or_default();
        let how = match (mode, self.advice) {
            (Some(mode), Some(advice)) => advice(mode),
            (Some(mode), None) => format!("the permission mode `{mode}` would allow it"),
            (None, _) => "a rule stands against it in every permission mode".to_owned(),
        };
        let because: String = reasons.iter().map(|reason| format!("\n{reason}")).collect();
        format!("; {how}{because}")
    }

    fn grant(&self, grant: Grant) {
        self.granted().insert(grant);
        self.added.notify_waiters();
    }

    /// Session grant for a call: with a judge, which offers broader ones, exactly this call. `None` if the
    /// call is ambiguous.
    fn session_grant(&self, gate: &ToolGate, key: Option<&CallKey>, is_judged: bool) -> Option<Grant> {
        let key = key?;
        Some(if is_judged { Grant::Exact(key.clone()) } else { Grant::for_session(gate, key) })
    }

    fn allows(&self, gate: &ToolGate, key: Option<&CallKey>, is_judged: bool) -> bool {
        let session = self.session_grant(gate, key, is_judged);
        let granted = self.granted();
        key.is_some_and(|key| granted.contains(&Grant::Exact(key.clone())))
            || session.is_some_and(|session| granted.contains(&session))
    }

    fn granted(&self) -> MutexGuard<'_, BTreeSet<Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
