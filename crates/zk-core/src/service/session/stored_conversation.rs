use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Entry, SessionInfo};
use crate::kernel::Plugin;
use crate::model::{EntryId, Message, SessionId};

/// A session as it is stored.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// The line of a listing.
    pub info: SessionInfo,
    /// The entries from the first to the leaf, as far as they can be read.
    pub entries: Vec<Entry>,
    /// Notices of what cannot be read, in words.
    pub notices: Vec<String>,
}

/// Visitor of the entries of a session, each with its bytes as JSON: see [`SessionStore::scan`](super::SessionStore::scan).
pub type EntryVisitor = Box<dyn FnMut(Entry, usize) -> ControlFlow<()> + Send>;

/// Summary of a session whose entries were visited.
#[derive(Clone, Debug)]
pub struct SessionScan {
    /// The line of a listing.
    pub info: SessionInfo,
    /// Notices of entries that cannot be read, in words.
    pub notices: Vec<String>,
}

/// Entries that a conversation goes on from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveEntries {
    /// Oldest first: of the entries that were left out those that are looked up later, then one for each sum of the others
    /// (usage, model, thinking level, the run that goes on), then the branch from some entry to the leaf.
    pub entries: Vec<Entry>,
    /// Place in `entries` of the first one from which on nothing is left out: its beginning where nothing is.
    pub tail: usize,
    /// Messages of the conversation before the tail.
    pub earlier: u64,
}

impl LiveEntries {
    /// Id of the entries that are sums of others.
    pub const SUM: &str = "earlier";

    /// Returns the entries of a conversation that were looked up in what is left out.
    #[must_use]
    pub fn looked_up(entries: &[Entry]) -> &[Entry] {
        let end = entries.iter().position(|entry| entry.id.as_str() == Self::SUM).unwrap_or_default();
        entries.get(..end).unwrap_or_default()
    }

    /// All entries of a session.
    #[must_use]
    pub fn whole(entries: Vec<Entry>) -> Self {
        Self { entries, tail: 0, earlier: 0 }
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.tail == 0
    }

    /// The entries from which on nothing is left out.
    #[must_use]
    pub fn tail(&self) -> &[Entry] {
        self.entries.get(self.tail..).unwrap_or_default()
    }

    /// The first entry after what is left out, if anything is.
    #[must_use]
    pub fn begins_at(&self) -> Option<&EntryId> {
        self.tail().first().filter(|_| !self.is_whole()).map(|entry| &entry.id)
    }
}

/// A stored conversation to resume: its session, messages, entries and recorder.
#[derive(Clone)]
pub struct StoredConversation {
    /// The open session.
    pub session: SessionId,
    /// The message history that requests start from.
    pub messages: Vec<Arc<Message>>,
    /// The stored entries that it goes on from ([`LiveEntries`]), for `session:loaded`.
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
