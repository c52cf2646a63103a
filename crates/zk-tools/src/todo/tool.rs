use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{Approved, CallKind, Concurrency, Display, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};

use super::list::{display, lines, tally};
use super::{Todo, Todos};
use crate::args;
use crate::text::count;

/// Limit of the to-dos of a list.
const MAX_TODOS: usize = 100;

/// Size limit of one to-do, in bytes.
const MAX_TODO_BYTES: usize = 1_000;

/// Replaces the to-do list of the conversation.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::service::Tool;
/// use zk_tools::{TodoWrite, Todos};
///
/// let tool = TodoWrite::new(Arc::new(Todos::default()));
/// let args = serde_json::json!({ "todos": [{ "content": "test", "status": "completed" }] });
/// assert_eq!(tool.summary(&args), "to-do list: 1 done, 0 in progress, 0 pending");
/// ```
#[derive(Debug)]
pub struct TodoWrite {
    spec: Arc<ToolSpec>,
    todos: Arc<Todos>,
}

/// Shows the to-do list of the conversation.
#[derive(Debug)]
pub struct TodoRead {
    spec: Arc<ToolSpec>,
    todos: Arc<Todos>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WriteArgs {
    todos: Vec<Todo>,
}

#[derive(JsonSchema)]
struct ReadArgs {}

impl TodoWrite {
    /// Creates the tool for these lists.
    #[must_use]
    pub fn new(todos: Arc<Todos>) -> Self {
        Self { spec: args::spec::<WriteArgs>("todo_write", "Replace your to-do list."), todos }
    }
}

impl TodoRead {
    /// Creates the tool for these lists.
    #[must_use]
    pub fn new(todos: Arc<Todos>) -> Self {
        Self { spec: args::spec::<ReadArgs>("todo_read", "Show your to-do list."), todos }
    }
}

#[async_trait]
impl Tool for TodoWrite {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let WriteArgs { todos } = call.parse()?;
        if todos.len() > MAX_TODOS {
            let text = format!("a list may have {MAX_TODOS} to-dos, this one has {}; join some", todos.len());
            return Err(ToolError::invalid(text));
        }
        for (todo, number) in todos.iter().zip(1..) {
            if todo.content.trim().is_empty() || todo.content.len() > MAX_TODO_BYTES {
                let text = format!("to-do {number} must have a `content` of 1 to {MAX_TODO_BYTES} bytes");
                return Err(ToolError::invalid(text));
            }
        }
        let display = display(&todos, &self.todos.of(&cx.cx));
        let mut text = if todos.is_empty() {
            "The to-do list is empty".to_owned()
        } else {
            format!("{}: {}", count(todos.len(), "to-do"), tally(&todos))
        };
        if let Err(error) = self.todos.write(&cx.cx, todos).await {
            text.push_str(&format!(
                " (it holds until this program ends; the session cannot keep it: {error})"
            ));
        }
        Ok(ToolOutput::text(text).with_display(display))
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Plan)
    }

    fn summary(&self, args: &Value) -> String {
        let todos = args.get("todos").cloned().unwrap_or_default();
        let list: Vec<Todo> = serde_json::from_value(todos).unwrap_or_default();
        format!("to-do list: {}", tally(&list))
    }

    fn prompt(&self) -> Option<&str> {
        Some(
            "Work of three steps or more: keep a to-do list with `todo_write`, one of it in progress, and mark each done \
             as soon as it is.",
        )
    }
}

#[async_trait]
impl Tool for TodoRead {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let list = self.todos.of(&cx.cx);
        if list.is_empty() {
            let text = "there are no to-dos; `todo_write` makes some";
            return Ok(ToolOutput::text(text).with_display(Display::Line { text: "no to-dos".to_owned() }));
        }
        let text = lines(&list).join("\n");
        Ok(ToolOutput::text(text).with_display(display(&list, &list)))
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Plan)
    }

    fn summary(&self, _: &Value) -> String {
        "to-do list".to_owned()
    }
}
