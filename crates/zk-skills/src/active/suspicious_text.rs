//! Suspicious skills: a person decides whether a model may use them, and about the calls that follow.

use serde_json::json;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Display, Effects, ToolError, ToolErrorKind};
use zk_core::service::{
    Approval, CallDecision, CallJudge, Question, Questions, Trust, TrustItem, UiAnswer, visible_line,
};

use crate::active::skills::Skills;
use crate::skill::scan::{Suspicion, is_reviewed, scan};
use crate::skill::{Skill, place};

/// Kind of a suspicious skill's text in the trust store.
const TRUST_SCANNED: &str = "suspicious-skill";

/// Time limit for the person's decision.
const PERSON_TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

impl Skills {
    /// Asks the person about a text with suspicious lines, unless exactly this text was approved. Without a
    /// person it is refused. Returns whether it was allowed only once.
    pub(crate) async fn check_text(&self, skill: &Skill, body: &str, cx: &Cx) -> Result<bool, ToolError> {
        if is_reviewed(skill.source) {
            return Ok(false);
        }
        let found = scan(body);
        if found.is_empty() {
            return Ok(false);
        }
        let (project, place) = (self.project(), place(skill));
        let name = format!("{} {place}", skill.name());
        let item = TrustItem { project: &project, kind: TRUST_SCANNED, name: &name, bytes: body.as_bytes() };
        let trust = cx.service::<dyn Trust>();
        if trust.as_ref().is_some_and(|trust| trust.is_trusted(&item)) {
            return Ok(false);
        }
        let denied = |why: String| Err(ToolError::new(ToolErrorKind::Denied, why));
        let lines: Vec<String> = found.iter().map(describe).collect();
        let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
            return denied(format!(
                "the skill `{}` is suspicious, and nobody is there to approve it: {}. Go on without it; the user can give \
                 it with `/skill:{}`",
                skill.name(),
                lines.join("; "),
                skill.name()
            ));
        };
        match questions.ask(question(skill, &place, lines, trust.is_some()), cx, PERSON_TIME_LIMIT).await {
            UiAnswer::Once => Ok(true),
            UiAnswer::Always => match trust {
                Some(trust) => match trust.approve_in_background(&item).await {
                    Err(error) => denied(format!("the approval cannot be stored: {error}")),
                    Ok(()) => Ok(false),
                },
                None => Ok(false),
            },
            _ => denied(format!(
                "the user did not approve the skill `{}`, whose text is suspicious; go on without it",
                skill.name()
            )),
        }
    }
}

/// Asks about each call that a mode or rule would allow, once the agent has used a skill that was allowed
/// only once, until the end of the run.
pub(crate) async fn ask_after_single_consent(
    skills: &Skills,
    gate: &ToolGate,
    cx: &Cx,
) -> Result<Option<Ruling>, BoxError> {
    let Some(skill) = skills.allowed_once(cx).filter(|_| !gate.is_decided()) else { return Ok(None) };
    let (Some(judge), Some(tool)) = (cx.service::<dyn CallJudge>(), gate.tool.clone()) else {
        return Ok(None);
    };
    if gate.effects.is_read_only() {
        return Ok(None);
    }
    let (name, effects, cwd) = (gate.call.name.clone(), gate.effects.clone(), gate.place.cwd.clone());
    let judged = tokio::task::spawn_blocking(move || judge.judge(&name, &effects, &cwd)).await?;
    // Prevents a second question.
    if judged.decision != CallDecision::Allow {
        return Ok(None);
    }
    let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
        return Ok(Some(Ruling::refuse(format!(
            "the skill `{skill}` was allowed for once, and nobody is there to approve what is done while it is in use"
        ))));
    };
    let why = format!("asked because the skill `{skill}` was allowed for once");
    let approval = Approval {
        tool: gate.call.name.clone(),
        args: gate.args.clone(),
        effects: gate.effects.clone(),
        preview: tool.preview(&gate.args, &gate.place).await,
        reasons: vec![why.clone()],
        ..Approval::default()
    };
    Ok(Some(match questions.ask(Question::Approve(Box::new(approval)), cx, PERSON_TIME_LIMIT).await {
        UiAnswer::Once => Ruling::Consent(format!("{why}; answered: once")),
        UiAnswer::No { message: Some(message) } => {
            Ruling::refuse(format!("the user declined this call: {message}"))
        }
        _ => Ruling::refuse("the user declined this call"),
    }))
}

fn describe(found: &Suspicion) -> String {
    format!("line {} {}: {}", found.line, found.what, visible_line(&found.quote))
}

fn question(skill: &Skill, place: &str, found: Vec<String>, can_store: bool) -> Question {
    let mut lines = vec!["Lines of its text may be written to take your model over:".to_owned()];
    lines.extend(found);
    lines.push(format!("Read it first: {}", visible_line(place)));
    let always = "this skill in this project, for as long as its text stays as it is".to_owned();
    Question::Approve(Box::new(Approval {
        tool: "skills_use".to_owned(),
        args: json!({ "skill": skill.name() }),
        effects: Effects::none(),
        preview: Some(Display::Lines { lines }),
        always: can_store.then_some(always),
        ..Approval::default()
    }))
}
