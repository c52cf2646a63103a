//! The to-do list of a conversation: two tools, and what model and session are told of it.

mod list;
mod lists;
mod tool;

use std::sync::Arc;

use async_trait::async_trait;
use zk_core::events::SessionLoaded;
use zk_core::kernel::{BoxError, Cx, Reach, Scope};
use zk_core::service::{ContextMode, ContextProducer, PinnedContext};

pub use list::{Todo, TodoStatus};
pub use lists::Todos;
pub use tool::{TodoRead, TodoWrite};

/// Registers handlers that restore the list with its conversation, and show it to the model when it would be
/// lost.
pub(crate) fn register(todos: &Arc<Todos>, scope: &Scope) -> Result<(), BoxError> {
    todos.set_scope(scope.clone());
    let restored = todos.clone();
    // Of its own agent only: a sub-agent begins without a list.
    scope.on_sync_at(Reach::Own, move |event: &SessionLoaded, cx: &Cx| restored.restore(event, cx));
    let closing = todos.clone();
    scope.on_close(async move || closing.clear_scope());
    scope.provide_service(todos.clone());
    scope.provide::<dyn ContextProducer>("todo", Arc::new(OpenTodos(todos.clone())))?;
    scope.provide::<dyn PinnedContext>("todo", Arc::new(PinnedTodos(todos.clone())))?;
    Ok(())
}

/// Context producer that reminds a model of its open tasks with every request.
struct OpenTodos(Arc<Todos>);

#[async_trait]
impl ContextProducer for OpenTodos {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        Ok(list::reminder(&self.0.of(cx)))
    }
}

/// Keeps the list when the conversation is compacted.
struct PinnedTodos(Arc<Todos>);

#[async_trait]
impl PinnedContext for PinnedTodos {
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let list = self.0.of(cx);
        let is_open = list.iter().any(|todo| todo.status != TodoStatus::Completed);
        Ok(is_open
            .then(|| format!("[The to-do list, as you last wrote it]\n{}", list::lines(&list).join("\n"))))
    }
}
