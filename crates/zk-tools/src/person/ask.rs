use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use zk_core::model::{Approved, Display, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    CallPlace, Leg, ParkedCall, ParkedQuestion, Questions, Selection, Tool, ToolCx, UiAnswer,
};

use super::{InteractionTool, ask, parse};
use crate::args;
use crate::text::one_line;

/// Maximum number of choices of a question.
const MAX_CHOICES: usize = 10;

/// Maximum number of bytes of a question, and of all its choices.
const MAX_QUESTION_BYTES: usize = 4_000;

/// Advice for a model without a person to answer.
const NEXT: &str = "decide by yourself, and say in your answer what you assumed";

/// Tool `ask_user`: asks the person to pick a choice or to type an answer. In a run that outlives its worker, with nobody
/// there, the question parks the run, and its answer is the result of the call.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::AskUser;
///
/// let args = serde_json::json!({ "question": "Which port?" });
/// assert_eq!(AskUser::new().summary(&args), "Which port?");
/// ```
#[derive(Debug)]
pub struct AskUser(InteractionTool);

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    question: String,
    /// To choose from; without any, the answer is in words
    #[schemars(with = "Option<Vec<String>>")]
    options: Option<Vec<Choice>>,
    /// Of the options, in their order
    descriptions: Option<Vec<String>>,
}

/// Option of a question: as zk asks for it, or as models know it from other harnesses.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Choice {
    Text(String),
    Described {
        label: String,
        #[serde(default)]
        description: String,
    },
}

/// Returns texts and descriptions of options; `descriptions` take precedence over the options' own.
fn described(options: Vec<Choice>, mut descriptions: Vec<String>) -> (Vec<String>, Vec<String>) {
    let given = descriptions.len();
    let mut texts = Vec::with_capacity(options.len());
    for (place, option) in options.into_iter().enumerate() {
        let (text, description) = match option {
            Choice::Text(text) => (text, String::new()),
            Choice::Described { label, description } => (label, description),
        };
        texts.push(text);
        if place >= given {
            descriptions.push(description);
        }
    }
    let used =
        descriptions.iter().rposition(|text| !text.is_empty()).map_or(given, |last| given.max(last + 1));
    descriptions.truncate(used);
    (texts, descriptions)
}

impl AskUser {
    /// New tool.
    #[must_use]
    pub fn new() -> Self {
        let spec = args::spec::<Args>("ask_user", "Ask the user, and wait for the answer.");
        let tool = InteractionTool::of(spec, ask_user)
            .summarized(|args| one_line(args::text(args, "question"), 200))
            .prompting(
                "Ask with `ask_user` only what neither the task nor the project answers, before you build on a guess.",
            );
        Self(tool)
    }
}

impl Default for AskUser {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.0.spec()
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&self.0)
    }

    fn wait_before(&self, call: &Approved, place: &CallPlace) -> Option<ParkedCall> {
        let leg = place.cx.service::<Leg>()?;
        let is_attended = place.cx.service::<Questions>().is_some_and(|questions| questions.is_attended());
        if is_attended || stored_answer(&leg, call).is_some() {
            return None;
        }
        // The call itself tells the model of arguments that do not fit.
        let asked = read_question(call.args().clone()).ok()?;
        let question = ParkedQuestion { digest: digest_of(call.args()), question: asked.into() };
        Some(ParkedCall::asking(question, "the agent asks"))
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        match cx.cx.service::<Leg>().and_then(|leg| stored_answer(&leg, call)) {
            Some(answer) => Ok(tell_answer(answer, read_question(call.args().clone())?.options)),
            None => self.0.call(call, cx).await,
        }
    }
}

/// Answer to the question of a call that an earlier leg of the run asked.
fn stored_answer(leg: &Leg, call: &Approved) -> Option<UiAnswer> {
    leg.answer(call.call(), &digest_of(call.args()), false)
}

/// SHA-256 of the arguments, as hexadecimal text.
fn digest_of(args: &Value) -> String {
    Sha256::digest(args.to_string()).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

async fn ask_user(args: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
    let asked = read_question(args)?;
    let options = asked.options.clone();
    Ok(tell_answer(ask(asked.into(), &cx.cx, NEXT).await?, options))
}

/// Reads the question of a call.
///
/// # Errors
/// [`ToolError`] for arguments that do not fit.
fn read_question(args: Value) -> Result<Selection, ToolError> {
    let Args { question, options, descriptions } = parse("ask_user", args)?;
    let (options, descriptions) = described(options.unwrap_or_default(), descriptions.unwrap_or_default());
    let bytes = question.len() + options.iter().chain(&descriptions).map(String::len).sum::<usize>();
    if descriptions.len() > options.len() {
        return Err(ToolError::invalid("each of the `descriptions` belongs to one of the `options`"));
    }
    if question.trim().is_empty() || options.iter().any(|option| option.trim().is_empty()) {
        return Err(ToolError::invalid("neither the question nor an option may be empty"));
    }
    if bytes > MAX_QUESTION_BYTES || options.len() > MAX_CHOICES {
        let text = format!(
            "a question may have {MAX_CHOICES} options and {MAX_QUESTION_BYTES} bytes with them and their descriptions; ask for less"
        );
        return Err(ToolError::invalid(text));
    }
    Ok(Selection::new(question, options).described(descriptions).accepting_words())
}

/// Tells the model an answer to a question with these options.
fn tell_answer(answer: UiAnswer, options: Vec<String>) -> ToolOutput {
    let (text, shown) = match words_of(answer, options) {
        Some(answer) => (format!("The user answers: {answer}"), one_line(&answer, 200)),
        None => (format!("The user does not want to answer; {NEXT}"), "not answered".to_owned()),
    };
    ToolOutput::text(text).with_display(Display::Line { text: shown })
}

fn words_of(answer: UiAnswer, options: Vec<String>) -> Option<String> {
    match answer {
        UiAnswer::Choice { index } => options.into_iter().nth(index),
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
        | UiAnswer::Absent => None,
    }
}
