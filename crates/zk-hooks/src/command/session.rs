use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_core::model::SessionId;

/// Kind of a conversation's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    Startup,
    Resume,
    Clear,
}

impl Began {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
        }
    }
}

/// Conversation in which the hooks run.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    /// Id of the conversation, once an event named it.
    pub(super) id: Option<SessionId>,
    /// Kind of beginning, until the hooks have run.
    pub(super) began: Option<Began>,
    /// Whether the `SessionStart` hooks have run.
    pub(super) is_begun: bool,
    /// Texts of hooks for the model, until a run takes them.
    pub(super) context: Vec<String>,
}

impl Default for State {
    fn default() -> Self {
        Self { id: None, began: Some(Began::Startup), is_begun: false, context: Vec::new() }
    }
}

impl Session {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_context(&self, context: Option<String>) {
        self.state().context.extend(context.filter(|context| !context.trim().is_empty()));
    }
}
