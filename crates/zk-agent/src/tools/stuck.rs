use std::time::Duration;

use zk_core::kernel::Cx;
use zk_core::model::AgentError;
use zk_core::service::{Question, Questions, UiAnswer};

use super::CallHistory;

/// Time limit for a person to decide whether the run continues.
const PATIENCE: Duration = Duration::from_secs(600);

/// Asks a person whether a run that repeats a failure should continue. A yes allows the same number of
/// repetitions again.
pub(crate) async fn ask_to_go_on(error: &AgentError, cx: &Cx, history: &CallHistory) -> bool {
    let AgentError::Stuck { tool, failures } = error else { return false };
    let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
        return false;
    };
    let text = format!(
        "The model made the same call of `{tool}` {failures} times in a row, and it failed each time in the same \
         way. Go on?"
    );
    let goes_on = questions.ask(Question::Confirm { text }, cx, PATIENCE).await == UiAnswer::Once;
    if goes_on {
        history.repeats().forget();
    }
    goes_on
}
