use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use zk_core::events::SessionLoaded;
use zk_core::kernel::{Cx, Scope};
use zk_core::service::{ContextId, EntryKind, NewEntry, SessionLog, StoreError};

use super::Todo;

/// Maximum number of agents whose lists are kept.
const MAX_AGENTS: usize = 64;

/// Kind of the session's entries that have a list.
const KIND: &str = "todo";

/// Version of the data in these entries.
const VERSION: u32 = 1;

/// The to-do lists of a tree of agents, one for each conversation: `cx.service::<Todos>()`.
///
/// The list of the root agent is stored in its session, and restored with it.
#[derive(Default)]
pub struct Todos {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Scope through which the session is appended to.
    scope: Option<Scope>,
    /// Lists that were used last, newest first.
    lists: VecDeque<(Option<Arc<ContextId>>, Vec<Todo>)>,
}

impl fmt::Debug for Todos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Todos").field("lists", &self.state().lists.len()).finish_non_exhaustive()
    }
}

impl Todos {
    /// The list of the conversation that `cx` belongs to.
    #[must_use]
    pub fn of(&self, cx: &Cx) -> Vec<Todo> {
        let context = cx.service::<ContextId>();
        let state = self.state();
        state.lists.iter().find(|(of, _)| *of == context).map(|(_, list)| list.clone()).unwrap_or_default()
    }

    /// Replaces the list of the conversation that `cx` belongs to.
    ///
    /// # Errors
    /// [`StoreError`] when the session cannot keep it; it holds all the same until the program ends.
    pub async fn write(&self, cx: &Cx, list: Vec<Todo>) -> Result<(), StoreError> {
        let data = json!({ "todos": list });
        self.put_list(cx, list);
        let scope = self.state().scope.clone();
        // A sub-agent has no session of its own.
        let log = cx.service::<dyn SessionLog>().filter(|_| cx.origin().depth == 0);
        let (Some(log), Some(scope)) = (log, scope) else { return Ok(()) };
        log.append(&scope, NewEntry::hidden(KIND, VERSION, data)).await.map(drop)
    }

    pub(super) fn set_scope(&self, scope: Scope) {
        self.state().scope = Some(scope);
    }

    pub(super) fn clear_scope(&self) {
        self.state().scope = None;
    }

    /// Restores the list of a loaded session's branch; empty if the branch has none.
    pub(super) fn restore(&self, event: &SessionLoaded, cx: &Cx) {
        let source = self.state().scope.as_ref().map(|scope| scope.source().to_string());
        let stored = event.entries.iter().rev().find_map(|entry| match &entry.kind {
            EntryKind::Custom(own) if own.kind == KIND && Some(&own.source) == source.as_ref() => Some(own),
            _ => None,
        });
        let list = stored
            .filter(|entry| entry.version == VERSION)
            .and_then(|entry| serde_json::from_value(entry.data.value().get_mut("todos")?.take()).ok());
        self.state().lists.clear();
        self.put_list(cx, list.unwrap_or_default());
    }

    fn put_list(&self, cx: &Cx, list: Vec<Todo>) {
        let context = cx.service::<ContextId>();
        let mut state = self.state();
        state.lists.retain(|(of, _)| *of != context);
        state.lists.truncate(MAX_AGENTS - 1);
        state.lists.push_front((context, list));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
