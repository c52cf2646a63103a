use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Entry, SessionInfo, UnfinishedRun};
use crate::kernel::Plugin;
use crate::model::{EntryId, Message, SessionId};

/// Stored content of a session.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// Summary of the session.
    pub info: SessionInfo,
    /// Readable entries of the present branch, from the root to the leaf.
    pub entries: Vec<Entry>,
    /// Messages about entries that cannot be read.
    pub notices: Vec<String>,
}

/// Callback for the entries of a session, each with its JSON size in bytes: see
/// [`SessionStore::scan`](super::SessionStore::scan).
pub type EntryVisitor = Box<dyn FnMut(Entry, usize) -> ControlFlow<()> + Send>;

/// Result of visiting a session's entries.
#[derive(Clone, Debug)]
pub struct SessionScan {
    /// Summary of the session.
    pub info: SessionInfo,
    /// Messages about entries that cannot be read.
    pub notices: Vec<String>,
}

/// Entries that a resumed conversation continues from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveEntries {
    /// Entries in the order of writing: left-out entries that are looked up on demand, then summaries of the
    /// other left-out entries (usage, model, thinking level, unfinished run), then the branch from some entry
    /// to the leaf.
    pub entries: Vec<Entry>,
    /// Index in `entries` from which the branch is complete; 0 if no entry is left out.
    pub tail: usize,
    /// Number of messages before the tail.
    pub earlier: u64,
}

impl LiveEntries {
    /// Id of the entries that summarise left-out entries.
    pub const SUM: &str = "earlier";

    /// Returns the left-out entries among `entries` that were looked up individually.
    #[must_use]
    pub fn looked_up(entries: &[Entry]) -> &[Entry] {
        let end = entries.iter().position(|entry| entry.id.as_str() == Self::SUM).unwrap_or_default();
        entries.get(..end).unwrap_or_default()
    }

    /// Creates a value with all entries of a session.
    #[must_use]
    pub fn whole(entries: Vec<Entry>) -> Self {
        Self { entries, tail: 0, earlier: 0 }
    }

    /// Whether no entry of the session is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.tail == 0
    }

    /// Returns the complete last part of the branch.
    #[must_use]
    pub fn tail(&self) -> &[Entry] {
        self.entries.get(self.tail..).unwrap_or_default()
    }

    /// Returns the id of the tail's first entry, if entries before it are left out.
    #[must_use]
    pub fn begins_at(&self) -> Option<&EntryId> {
        self.tail().first().filter(|_| !self.is_whole()).map(|entry| &entry.id)
    }
}

/// A stored conversation to resume: its session, messages, entries and recorder.
#[derive(Clone)]
pub struct StoredConversation {
    /// Id of the open session.
    pub session: SessionId,
    /// Message history that requests begin with.
    pub messages: Vec<Arc<Message>>,
    /// Stored entries that the session continues from ([`LiveEntries`]), for `session:loaded`.
    pub entries: Arc<[Entry]>,
    /// Plugin that appends new entries to the session.
    pub recorder: Arc<dyn Plugin>,
    /// Run to go on with, if the conversation was loaded for a leg of it.
    pub unfinished: Option<UnfinishedRun>,
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
