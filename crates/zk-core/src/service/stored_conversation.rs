use std::fmt;
use std::sync::Arc;

use super::Entry;
use crate::kernel::Plugin;
use crate::model::{Message, SessionId};

/// A stored conversation to resume: its session, messages, entries and recorder.
#[derive(Clone)]
pub struct StoredConversation {
    /// The open session.
    pub session: SessionId,
    /// The message history that requests start from.
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
