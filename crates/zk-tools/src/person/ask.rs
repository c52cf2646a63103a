use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{Display, ToolError, ToolOutput};
use zk_core::service::{Selection, ToolCx, UiAnswer};

use super::{InteractionTool, ask, interaction, parse};
use crate::args;
use crate::text::one_line;

/// Maximum number of choices of a question.
const MAX_CHOICES: usize = 10;

/// Maximum number of bytes of a question, and of all its choices.
const MAX_QUESTION_BYTES: usize = 4_000;

/// Advice for a model without a person to answer.
const NEXT: &str = "decide by yourself, and say in your answer what you assumed";

/// Tool `ask_user`: asks the person to pick a choice or to type an answer.
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

interaction!(AskUser);

async fn ask_user(args: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
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
    let answer = answer(&question, options, descriptions, &cx.cx).await?;
    let (text, shown) = match answer {
        Some(answer) => (format!("The user answers: {answer}"), one_line(&answer, 200)),
        None => (format!("The user does not want to answer; {NEXT}"), "not answered".to_owned()),
    };
    Ok(ToolOutput::text(text).with_display(Display::Line { text: shown }))
}

async fn answer(
    question: &str,
    options: Vec<String>,
    descriptions: Vec<String>,
    cx: &Cx,
) -> Result<Option<String>, ToolError> {
    let asked = Selection::new(question, options.clone()).described(descriptions).accepting_words();
    match ask(asked.into(), cx, NEXT).await? {
        UiAnswer::Choice { index } => Ok(options.into_iter().nth(index)),
        UiAnswer::Text { text } => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        UiAnswer::No { message } => Ok(message),
        UiAnswer::Once
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::MoreSession { .. }
        | UiAnswer::MoreAlways { .. }
        | UiAnswer::Contained
        | UiAnswer::Absent => Ok(None),
    }
}
