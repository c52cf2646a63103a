use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Display, ToolError, ToolOutput};
use zk_core::service::{Question, ToolCx, UiAnswer};

use super::{InteractionTool, ask, interaction, parse};
use crate::args;
use crate::text::one_line;

/// Largest plan, in bytes.
const MAX_PLAN_BYTES: usize = 32_000;

/// Advice for a model without a person to read its plan.
const NEXT: &str = "end your turn with the plan as your answer, and carry nothing of it out";

/// Ways in which work continues after a plan's approval, in a host with modes: the service `cx.service::<dyn
/// PlanModes>()`. Asked again for each plan.
pub trait PlanModes: Send + Sync {
    /// Choices for the approval of a plan; the first one changes no mode.
    fn ways(&self) -> Vec<String>;

    /// Continues in the way with this index in [`ways`](Self::ways). Returns a note for the model about the
    /// new mode, if any.
    ///
    /// # Errors
    /// The reason why that is not possible; the plan still counts as approved.
    fn choose(&self, way: usize) -> Result<Option<String>, String>;
}

/// Tool `present_plan`: shows a plan to the person, who approves it, asks for changes or rejects it.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::PresentPlan;
///
/// let args = serde_json::json!({ "plan": "# Move the parser\n\n1. …" });
/// assert_eq!(PresentPlan::new().summary(&args), "present a plan: # Move the parser…");
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
            .summarized(|args| format!("present a plan: {}", one_line(args::text(args, "plan"), 100)))
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
    let ways = ways.unwrap_or_else(|| vec!["Approve".to_owned()]);
    let text = match verdict(&plan, &ways, &cx).await? {
        Verdict::Approved(way) => {
            let mut text = "The user approves the plan. Carry it out.".to_owned();
            match modes.map(|modes| modes.choose(way)) {
                Some(Ok(Some(holds))) => text.push_str(&format!(" {holds}")),
                Some(Err(why)) => text.push_str(&format!(" The mode stays as it is: {why}.")),
                Some(Ok(None)) | None => {}
            }
            text
        }
        Verdict::Change(Some(what)) => {
            format!("The user wants the plan changed: {what}\nChange it and present it again.")
        }
        Verdict::Change(None) => {
            "The user wants the plan changed and does not say how: ask, then present it again.".to_owned()
        }
        Verdict::Rejected(why) => {
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!("The user rejects the plan{why}. Carry nothing of it out; ask what to do instead.")
        }
    };
    let last = [String::new(), one_line(&text, 200)];
    let lines = plan.lines().map(str::to_owned).chain(last).collect();
    Ok(ToolOutput::text(text).with_display(Display::Lines { lines }))
}

async fn verdict(plan: &str, ways: &[String], cx: &ToolCx) -> Result<Verdict, ToolError> {
    let text = format!("{}\n\nGo ahead with this plan?", plan.trim_end());
    let mut options = ways.to_vec();
    options.extend(["Change it (say what)".to_owned(), "Reject it".to_owned()]);
    match ask(Question::Select { text, options }, &cx.cx, NEXT).await? {
        UiAnswer::Choice { index } if index < ways.len() => Ok(Verdict::Approved(index)),
        UiAnswer::Choice { index } if index == ways.len() => {
            let asked = Question::Input { text: "What should change in the plan?".to_owned() };
            Ok(Verdict::Change(match ask(asked, &cx.cx, NEXT).await? {
                UiAnswer::Text { text } => Some(text).filter(|text| !text.trim().is_empty()),
                UiAnswer::No { message } => message,
                UiAnswer::Once
                | UiAnswer::Session
                | UiAnswer::Always
                | UiAnswer::WiderSession
                | UiAnswer::WiderAlways
                | UiAnswer::Choice { .. }
                | UiAnswer::Absent => None,
            }))
        }
        UiAnswer::No { message } => Ok(Verdict::Rejected(message)),
        UiAnswer::Choice { .. }
        | UiAnswer::Once
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::Text { .. }
        | UiAnswer::Absent => Ok(Verdict::Rejected(None)),
    }
}
