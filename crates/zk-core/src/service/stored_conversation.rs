use std::fmt;
use std::sync::Arc;

use super::Entry;
use crate::kernel::Plugin;
use crate::model::{Message, SessionId};

/// A conversation of a store that an agent goes on with, and everything that this takes.
#[derive(Clone)]
pub struct StoredConversation {
    /// Its session.
    pub session: SessionId,
    /// What the model is sent of it.
    pub messages: Vec<Arc<Message>>,
    /// The stored entries from the first to the leaf, for `session:loaded`.
    pub entries: Arc<[Entry]>,
    /// The plugin that appends new entries to the session.
    pub recorder: Arc<dyn Plugin>,
}

impl fmt::Debug for StoredConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredConversation")
            .field("session", &self.session)
            .field("messages", &self.messages.len())
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}
