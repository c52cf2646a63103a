use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_core::model::SessionId;

/// Beginning of a conversation.
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

/// The conversation that the hooks are in.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    /// Id of the conversation, once an event has named it.
    pub(super) id: Option<SessionId>,
    /// Beginning of the conversation, until its hooks were told.
    pub(super) began: Option<Began>,
    /// Whether its hooks were told that it began.
    pub(super) is_begun: bool,
    /// Words of hooks for the model, until a run takes them along.
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
