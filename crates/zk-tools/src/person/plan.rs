use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Display, ToolError, ToolOutput};
use zk_core::service::{ContextMode, ContextProducer, Selection, ToolCx, UiAnswer};

use super::{InteractionTool, ask, interaction, parse};
use crate::args;
use crate::text::one_line;
use crate::tool_names::ToolNames;

/// Largest plan, in bytes.
const MAX_PLAN_BYTES: usize = 32_000;

/// Advice for a model without a person to read its plan.
const NEXT: &str = "end your turn with the plan as your answer, and carry nothing of it out";

/// Choices about a plan.
const GO_ON: &str = "Go on";
const CHANGE: &str = "Change it";
const NO: &str = "No";

/// Ways in which work continues after a plan's approval, in a host with modes: the service `cx.service::<dyn
/// PlanModes>()`. Asked again for each plan.
pub trait PlanModes: Send + Sync {
    /// Choices for the approval of a plan; the first one changes no mode.
    fn ways(&self) -> Vec<String>;

    /// Continues as described by the entry of [`ways`](Self::ways) with this index. Returns a note for the
    /// model about the new mode, if any.
    ///
    /// # Errors
    /// The reason for a failure; the plan still counts as approved.
    fn choose(&self, way: usize) -> Result<Option<String>, String>;

    /// Whether the model is planning: no call with side effects runs until a plan is approved.
    fn plans(&self) -> bool {
        false
    }
}

/// Text for a model that is to plan.
const PLANNING: &str = "plan mode: calls that change something are refused until the user approves a plan. Find out what \
    there is to know, then show the plan with";

/// Context producer that adds a reminder of plan mode to every request.
pub(crate) struct Planning;

#[async_trait]
impl ContextProducer for Planning {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let plans = cx.service::<dyn PlanModes>().is_some_and(|modes| modes.plans());
        let tool = ToolNames::of(cx).get("present_plan").filter(|_| plans);
        Ok(tool.map(|tool| format!("{PLANNING} `{tool}`")))
    }
}

/// Tool `present_plan`: shows a plan to the person, who approves it, asks for changes or rejects it.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::PresentPlan;
///
/// let args = serde_json::json!({ "plan": "# Move the parser\n\n1. …" });
/// assert_eq!(PresentPlan::new().summary(&args), "Plan");
/// ```
#[derive(Debug)]
pub struct PresentPlan(InteractionTool);

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Markdown
    plan: String,
}

impl PresentPlan {
    /// New tool.
    #[must_use]
    pub fn new() -> Self {
        let about = "Show the user a plan of what you are about to do, and wait for approval.";
        let tool = InteractionTool::of(args::spec::<Args>("present_plan", about), present_plan)
            .summarized(|_| "Plan".to_owned())
            .prompting(
                "Asked for a plan, read what you need, then show it with `present_plan` before you change anything.",
            );
        Self(tool)
    }
}

interaction!(PresentPlan);

/// Person's decision about a plan.
enum Verdict {
    Approved(usize),
    Change(Option<String>),
    Rejected(Option<String>),
}

async fn present_plan(args: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
    let Args { plan } = parse("present_plan", args)?;
    if plan.trim().is_empty() || plan.len() > MAX_PLAN_BYTES {
        let text = format!("a plan has 1 to {MAX_PLAN_BYTES} bytes, this one has {}", plan.len());
        return Err(ToolError::invalid(text));
    }
    let modes = cx.cx.service::<dyn PlanModes>();
    let ways = modes.as_ref().map(|modes| modes.ways()).filter(|ways| !ways.is_empty());
    let ways = ways.unwrap_or_else(|| vec![GO_ON.to_owned()]);
    let (text, outcome) = match verdict(&plan, &ways, &cx).await? {
        Verdict::Approved(way) => {
            let outcome = ways.get(way).map_or(GO_ON, String::as_str).to_owned();
            let mut text = "The user approves the plan. Carry it out.".to_owned();
            match modes.map(|modes| modes.choose(way)) {
                Some(Ok(Some(holds))) => text.push_str(&format!(" {holds}")),
                Some(Err(why)) => text.push_str(&format!(" The mode stays as it is: {why}.")),
                Some(Ok(None)) | None => {}
            }
            (text, outcome)
        }
        Verdict::Change(Some(what)) => (
            format!("The user wants the plan changed: {what}\nChange it and present it again."),
            format!("{CHANGE}: {}", one_line(&what, 200)),
        ),
        Verdict::Change(None) => (
            "The user wants the plan changed and does not say how: ask, then present it again.".to_owned(),
            CHANGE.to_owned(),
        ),
        Verdict::Rejected(why) => {
            let said = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            (
                format!("The user rejects the plan{said}. Carry nothing of it out; ask what to do instead."),
                why.map_or_else(|| NO.to_owned(), |why| format!("{NO}: {}", one_line(&why, 200))),
            )
        }
    };
    Ok(ToolOutput::text(text).with_display(Display::Markdown { text: plan, outcome }))
}

async fn verdict(plan: &str, ways: &[String], cx: &ToolCx) -> Result<Verdict, ToolError> {
    let mut options = ways.to_vec();
    options.extend([CHANGE.to_owned(), NO.to_owned()]);
    let mut descriptions = vec![String::new(); ways.len()];
    descriptions.push("type what should be different".to_owned());
    let shown = Display::Markdown { text: plan.trim_end().to_owned(), outcome: String::new() };
    let asked = Selection::new("Go on with this plan?", options).described(descriptions);
    match ask(asked.accepting_words().about(shown).into(), &cx.cx, NEXT).await? {
        UiAnswer::Choice { index } if index < ways.len() => Ok(Verdict::Approved(index)),
        UiAnswer::Choice { index } if index == ways.len() => {
            let asked = Selection::new("What should change in the plan?", Vec::new()).accepting_words();
            Ok(Verdict::Change(match ask(asked.into(), &cx.cx, NEXT).await? {
                UiAnswer::Text { text } => Some(text).filter(|text| !text.trim().is_empty()),
                UiAnswer::No { message } => message,
                UiAnswer::Once
                | UiAnswer::Session
                | UiAnswer::Always
                | UiAnswer::WiderSession
                | UiAnswer::WiderAlways
                | UiAnswer::MoreSession { .. }
                | UiAnswer::MoreAlways { .. }
                | UiAnswer::Contained
                | UiAnswer::Choice { .. }
                | UiAnswer::Absent => None,
            }))
        }
        UiAnswer::Text { text } => Ok(Verdict::Change(Some(text))),
        UiAnswer::No { message } => Ok(Verdict::Rejected(message)),
        UiAnswer::Choice { .. }
        | UiAnswer::Once
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::MoreSession { .. }
        | UiAnswer::MoreAlways { .. }
        | UiAnswer::Contained
        | UiAnswer::Absent => Ok(Verdict::Rejected(None)),
    }
}
