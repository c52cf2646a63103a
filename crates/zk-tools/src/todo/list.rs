use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zk_core::model::{CheckItem, CheckState, Display};

use crate::text::one_line;

/// Maximum number of to-dos that a request names.
const MAX_NAMED_TODOS: usize = 12;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// Description of the task.
    #[schemars(description = "")]
    pub content: String,
    /// Status of the to-do.
    #[schemars(description = "")]
    pub status: TodoStatus,
}

/// Status of a to-do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(description = "")]
pub enum TodoStatus {
    #[schemars(description = "")]
    /// Nothing was done yet.
    Pending,
    #[schemars(description = "")]
    /// To-do in progress.
    InProgress,
    #[schemars(description = "")]
    /// To-do that is done.
    Completed,
}

impl TodoStatus {
    fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[~]",
            Self::Completed => "[x]",
        }
    }
}

/// List for people. Also returns whether items were added, removed or changed since `before`, beyond their
/// state.
pub(super) fn display(list: &[Todo], before: &[Todo]) -> Display {
    let item = |todo: &Todo| {
        let state = match todo.status {
            TodoStatus::Pending => CheckState::Open,
            TodoStatus::InProgress => CheckState::Current,
            TodoStatus::Completed => CheckState::Done,
        };
        CheckItem { text: one_line(&todo.content, 300), state }
    };
    let contents = |list: &[Todo]| list.iter().map(|todo| todo.content.clone()).collect::<Vec<_>>();
    let reshaped = contents(list) != contents(before);
    Display::Checklist { items: list.iter().map(item).collect(), reshaped }
}

/// The list for models, a line for each.
pub(super) fn lines(list: &[Todo]) -> Vec<String> {
    list.iter().map(|todo| format!("{} {}", todo.status.mark(), one_line(&todo.content, 300))).collect()
}

/// Counts the to-dos that are done, in progress and pending.
pub(super) fn tally(list: &[Todo]) -> String {
    let count = |status| list.iter().filter(|todo| todo.status == status).count();
    format!(
        "{} done, {} in progress, {} pending",
        count(TodoStatus::Completed),
        count(TodoStatus::InProgress),
        count(TodoStatus::Pending)
    )
}

/// Reminder of the open tasks, in one line; `None` if all are done.
pub(super) fn reminder(list: &[Todo]) -> Option<String> {
    let open: Vec<&Todo> = list.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
    if open.is_empty() {
        return None;
    }
    // Replaces angle brackets, so that a model reads a to-do as text and not as a tag.
    let plain = |text: &str| one_line(text, 100).replace('<', "‹").replace('>', "›");
    let named = open
        .iter()
        .take(MAX_NAMED_TODOS)
        .map(|todo| format!("{} {}", todo.status.mark(), plain(&todo.content)));
    let mut text = format!(
        "to-do list, {} of {} done: {}",
        list.len() - open.len(),
        list.len(),
        named.collect::<Vec<_>>().join("; ")
    );
    if let Some(more) = open.len().checked_sub(MAX_NAMED_TODOS).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more"));
    }
    Some(text)
}
