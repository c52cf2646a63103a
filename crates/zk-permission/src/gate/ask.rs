//! Questions to a person, or a plugin in their place, about a call.

use std::sync::Arc;

use zk_core::events::{DecidedBy, PermissionDecided, PermissionReply, PermissionRequest, ToolGate};
use zk_core::kernel::{BoxError, Cx, Item};
use zk_core::model::SessionId;
use zk_core::service::{
    Approval, CallDecision, CallJudge, CallJudgement, CallOffer, Connections, Leg, ParkedQuestion, Question,
    Questions, Tool, Ui, UiAnswer, Wider, WiderKind, WithinLeg,
};

use super::exact_rule::ExactRule;
use super::grant::{CallKey, Grant};
use super::{ANSWER_TIMEOUT, Decided, Granted};
use crate::approvals::{ApprovalKind, call_offer};
use crate::mode::Mode;

/// Reason for a question about a call without a judge.
const UNJUDGED: &str = "ask: it may change something, and the mode asks about that";

/// Reason for a question about a call that is to leave a sandbox or container, in every mode.
const LEAVES: &str = "ask: it leaves the sandbox or container, and that is always asked about";

impl Granted {
    /// Asks a person, unless an earlier answer decides.
    pub(super) async fn ask(
        &self,
        gate: &ToolGate,
        tool: &Arc<dyn Tool>,
        judged: Option<(&Arc<dyn CallJudge>, &CallJudgement)>,
        by_rule: bool,
        cx: &Cx,
    ) -> Result<Decided, BoxError> {
        // Leaving a sandbox or container is asked about in mode `all`, too: the person chose that execution context.
        let stays = !gate.effects.leaves_context();
        if !by_rule && stays && self.modes.now() == Mode::All {
            return Ok(Decided::allowed(DecidedBy::Policy, PermissionDecided::MODE_ALLOWS_ALL));
        }
        let key = CallKey::of(gate, cx).await;
        let key = key.as_ref();
        if !by_rule && self.allows(gate, key, judged.is_some()) {
            return Ok(Decided::allowed(DecidedBy::EarlierAnswer, "allowed for this session"));
        }
        // An ask rule asks every time, whatever was answered before.
        let remembered = key.filter(|_| !by_rule);
        let rule = remembered.and_then(|key| ExactRule::of(gate, key, self.project.as_deref(), cx));
        if rule.as_ref().is_some_and(ExactRule::is_trusted) {
            return Ok(Decided::allowed(DecidedBy::EarlierAnswer, "exactly this call is allowed for good"));
        }
        if let Some(decided) = self.ask_plugins(gate, by_rule, cx).await? {
            return Ok(decided);
        }
        let leg = cx.service::<Leg>();
        let questions = cx.service::<Questions>().filter(|questions| questions.is_attended());
        let why = || {
            format!(
                "`{}` changes things and nobody is here to approve it{}",
                gate.call.display_name,
                self.refusal_advice(judged)
            )
        };
        let is_within_leg = cx.service::<WithinLeg>().is_some();
        let unasked = || match is_within_leg {
            true => Decided::refused(
                DecidedBy::Nobody,
                format!(
                    "{}. A sub-agent inside of a call cannot wait for a person: say so in your answer. Delegated with `background`, \
                     the task is a run of its own, which waits",
                    why()
                ),
                "a sub-agent inside of a call cannot wait for a person",
            ),
            false => Decided::refused(DecidedBy::Nobody, why(), "nobody was here to be asked"),
        };
        if leg.is_none() && questions.is_none() {
            return Ok(unasked());
        }
        let (connections, contained) = match judged {
            Some((judge, _)) => connections(gate, judge).await,
            None => (None, None),
        };
        // An answer in the session of a run holds for equal calls, on any worker.
        let is_exact = judged.is_some() || leg.is_some();
        let session = self.session_grant(gate, key, is_exact).filter(|_| !by_rule);
        let mut parked_digest = None;
        if let Some((leg, key)) = leg.zip(key) {
            let id = cx.service::<SessionId>();
            let digest = key.parked_digest(&gate.effects, connections.as_ref(), id.as_deref())?;
            // An answer that lasts is none to a rule that asks every time.
            if let Some(answer) = leg.answer(&gate.call, &digest, !by_rule) {
                return Ok(self.apply_answer(&answer, (Some(key), session), rule.as_ref(), None, cx).await);
            }
            parked_digest = Some(digest);
        }
        let approval = Approval {
            tool: gate.call.name.clone(),
            args: gate.args.clone(),
            effects: gate.effects.clone(),
            preview: tool.preview(&gate.args, &gate.place).await,
            session: session.as_ref().map(Grant::describe),
            always: rule.as_ref().map(ExactRule::describe),
            reasons: question_reasons(judged, stays),
            connections,
            ..Approval::default()
        };
        let Some(questions) = questions else {
            let Some(digest) = parked_digest else { return Ok(unasked()) };
            let question = Question::Approve(Box::new(approval));
            let reasons = judged.map(|(_, judgement)| judgement.reasons.join("\n")).unwrap_or_default();
            let why = if reasons.is_empty() { "nobody was here to be asked".to_owned() } else { reasons };
            return Ok(Decided::parked(why, ParkedQuestion { digest, question }));
        };
        let offers = self.offers(gate, tool, judged, cx).filter(|_| !by_rule).unwrap_or_default();
        let mut wider = offers.iter().map(shown_offer);
        let approval = Approval { wider: wider.next(), more: wider.collect(), contained, ..approval };
        let meanwhile = async {
            if by_rule {
                std::future::pending().await
            } else {
                self.wait_until_allowed(gate, key, judged.map(|(judge, _)| judge)).await
            }
        };
        let answer = tokio::select! {
            answer = questions.ask(Question::Approve(Box::new(approval)), cx, ANSWER_TIMEOUT) => answer,
            () = meanwhile => return Ok(Decided::allowed(DecidedBy::Person, "an answer to another question allows it")),
        };
        let offered = judged.map(|(judge, _)| (judge, offers.as_slice()));
        Ok(self.apply_answer(&answer, (key, session), rule.as_ref(), offered, cx).await)
    }

    /// Broader approvals offered with a call: the judge's offers, and approval of all tools of a server.
    fn offers(
        &self,
        gate: &ToolGate,
        tool: &Arc<dyn Tool>,
        judged: Option<(&Arc<dyn CallJudge>, &CallJudgement)>,
        cx: &Cx,
    ) -> Option<Vec<CallOffer>> {
        let (_, judgement) = judged?;
        let first = judgement.offer.clone()?;
        let server = tool.server().filter(|_| first.kind == WiderKind::Tool);
        let of_server = server.and_then(|server| {
            let tools = cx.bus().items::<dyn Tool>().into_iter();
            let is_its = |tool: &Item<dyn Tool>| tool.value.server().as_ref() == Some(&server);
            let names: Vec<String> =
                tools.filter(is_its).map(|tool| tool.value.spec().name.clone()).collect();
            names.contains(&gate.call.name).then_some(ApprovalKind::Tools { server: Some(server), names })
        });
        let project = self.project.as_deref().unwrap_or(&gate.place.cwd);
        Some(std::iter::once(first).chain(of_server.and_then(|kind| call_offer(&kind, project))).collect())
    }

    /// Answer of a plugin in place of the person, if any.
    async fn ask_plugins(
        &self,
        gate: &ToolGate,
        by_rule: bool,
        cx: &Cx,
    ) -> Result<Option<Decided>, BoxError> {
        if !cx.bus().has_listeners::<PermissionRequest>() {
            return Ok(None);
        }
        let (call, args, effects) = (gate.call.clone(), gate.args.clone(), gate.effects.clone());
        Ok(match cx.emit(PermissionRequest { call, args, effects, by_rule }).await? {
            Some(PermissionReply::Deny { reason }) => {
                Some(Decided::refused(DecidedBy::Plugin, reason, "a plugin denied it"))
            }
            Some(PermissionReply::Allow) if !by_rule => {
                Some(Decided::allowed(DecidedBy::Plugin, "a plugin allowed it"))
            }
            Some(PermissionReply::Allow) | None => None,
        })
    }

    /// Carries out a person's answer. Approvals are stored on a thread that may block.
    async fn apply_answer(
        &self,
        answer: &UiAnswer,
        (key, session): (Option<&CallKey>, Option<Grant>),
        rule: Option<&ExactRule>,
        offered: Option<(&Arc<dyn CallJudge>, &[CallOffer])>,
        cx: &Cx,
    ) -> Decided {
        let unstored = |error: String| {
            if let Some(ui) = cx.service::<dyn Ui>() {
                ui.notify(&format!("allowed for this session only: {error}"));
            }
        };
        let allowed = |note: &str| Decided::allowed(DecidedBy::Person, note);
        let refused = |why: String, note: &str| Decided::refused(DecidedBy::Person, why, note);
        match answer {
            UiAnswer::Once => allowed("answered: once"),
            UiAnswer::Session => {
                session.into_iter().for_each(|session| self.grant(session));
                allowed("answered: this session")
            }
            UiAnswer::Always => {
                key.into_iter().for_each(|key| self.grant(Grant::Exact(key.clone())));
                if let Some(rule) = rule
                    && let Err(error) = rule.remember().await
                {
                    unstored(error.to_string());
                }
                allowed("answered: always exactly this")
            }
            UiAnswer::Contained => allowed(PermissionDecided::STAYS_IN_SANDBOX),
            UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::MoreSession { .. }
            | UiAnswer::MoreAlways { .. } => {
                let lasting = matches!(answer, UiAnswer::WiderAlways | UiAnswer::MoreAlways { .. });
                let at = match answer {
                    UiAnswer::MoreSession { index } | UiAnswer::MoreAlways { index } => index + 1,
                    _ => 0,
                };
                let chosen = offered.and_then(|(judge, offers)| Some((judge, offers.get(at)?)));
                if let Some((judge, offer)) = chosen {
                    let (judge, offer) = (Arc::clone(judge), offer.clone());
                    let stored = tokio::task::spawn_blocking(move || judge.remember(&offer, lasting)).await;
                    if let Err(error) = stored.unwrap_or_else(|error| Err(error.to_string())) {
                        unstored(error);
                    }
                    self.added.notify_waiters();
                }
                let how_long = if lasting { "always" } else { "this session" };
                let what = chosen.map_or("", |(_, offer)| offer.describes.as_str());
                allowed(&format!("answered: {how_long}, {what}"))
            }
            UiAnswer::No { message: Some(message) } => {
                refused(format!("the user declined this call: {message}"), "answered: no")
            }
            UiAnswer::No { message: None } => refused(
                "the user declined this call; do not try it again, ask what to do instead".to_owned(),
                "answered: no",
            ),
            UiAnswer::Absent => Decided::refused(
                DecidedBy::Nobody,
                "nobody answered whether this call may run; it was not the user who declined it",
                "nobody answered",
            ),
            UiAnswer::Choice { .. } | UiAnswer::Text { .. } => refused(
                "the answer was neither yes nor no, so this call was not made".to_owned(),
                "no such answer",
            ),
        }
    }

    /// Waits until another answer allows this call too.
    async fn wait_until_allowed(
        &self,
        gate: &ToolGate,
        key: Option<&CallKey>,
        judge: Option<&Arc<dyn CallJudge>>,
    ) {
        loop {
            let added = self.added.notified();
            let is_allowed_now = match judge {
                Some(judge) => {
                    let judgement = self.judge(gate, judge).await;
                    judgement.is_ok_and(|judgement| judgement.decision == CallDecision::Allow)
                }
                None => false,
            };
            if is_allowed_now || self.allows(gate, key, judge.is_some()) {
                return;
            }
            added.await;
        }
    }
}

/// Reasons for a question about a call.
fn question_reasons(judged: Option<(&Arc<dyn CallJudge>, &CallJudgement)>, stays: bool) -> Vec<String> {
    match judged {
        Some((_, judged)) => judged.reasons.clone(),
        None => vec![if stays { UNJUDGED } else { LEAVES }.to_owned()],
    }
}

fn shown_offer(offer: &CallOffer) -> Wider {
    Wider {
        kind: offer.kind,
        allows: offer.describes.clone(),
        label: offer.label.clone(),
        warning: offer.warning.clone(),
    }
}

/// Connections of a call in its sandbox. The second value is for a call that requested to leave the sandbox:
/// connections with which it could stay inside.
async fn connections(
    gate: &ToolGate,
    judge: &Arc<dyn CallJudge>,
) -> (Option<Connections>, Option<Connections>) {
    let leaves = gate.effects.leaves_context();
    // A call that needs hidden files would fail in the sandbox.
    if leaves && gate.args.get("outside").is_none_or(serde_json::Value::is_null) {
        return (None, None);
    }
    let (judge, tool, cwd) = (judge.clone(), gate.call.name.clone(), gate.place.cwd.clone());
    let effects = gate.effects.without_leaving();
    let found =
        tokio::task::spawn_blocking(move || judge.connections(&tool, &effects, &cwd)).await.ok().flatten();
    if leaves { (None, found) } else { (found, None) }
}
