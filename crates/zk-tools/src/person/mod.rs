//! Tools that wait: for the person, or for a time.

mod ask;
mod interaction;
mod plan;
mod wait;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::{Question, Questions, UiAnswer};

pub use ask::AskUser;
pub use interaction::InteractionTool;
use interaction::interaction;
pub(crate) use plan::Planning;
pub use plan::{PlanModes, PresentPlan};
pub use wait::Wait;

use crate::tool_support::stopped;

/// Time limit for a person to answer one question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Parses the arguments of a call.
fn parse<T: DeserializeOwned>(tool: &str, args: Value) -> Result<T, ToolError> {
    serde_json::from_value(args).map_err(|error| ToolError::misfit(tool, &error))
}

/// Asks the person. `next` is the advice for the model if there is no answer.
async fn ask(question: Question, cx: &Cx, next: &str) -> Result<UiAnswer, ToolError> {
    let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
        return Err(ToolError::new(ToolErrorKind::Denied, format!("nobody is here to be asked; {next}")));
    };
    match questions.ask(question, cx, ANSWER_TIMEOUT).await {
        UiAnswer::Absent if cx.is_stopped() => Err(stopped()),
        UiAnswer::Absent if !questions.is_attended() => {
            Err(ToolError::new(ToolErrorKind::Denied, format!("whoever was asked has left; {next}")))
        }
        UiAnswer::Absent => {
            let minutes = ANSWER_TIMEOUT.as_secs() / 60;
            Err(ToolError::new(
                ToolErrorKind::TimedOut,
                format!("no answer within {minutes} minutes; {next}"),
            ))
        }
        answer => Ok(answer),
    }
}
