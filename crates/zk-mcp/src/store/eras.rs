//! Protocol era of a server, remembered between programs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Era of the protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEra {
    /// Revision 2026-07-28 and later: requests are independent of each other.
    Modern,
    /// Revisions 2025-03-26 to 2025-11-25, or 2024-11-05 over standard input and output: begins with a
    /// handshake.
    Handshake,
    /// Revision 2024-11-05 over HTTP: one stream of events, and a separate address for messages.
    EventStream,
}

impl ServerEra {
    /// Returns the era's name: `modern`, `handshake` or `event-stream`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Handshake => "handshake",
            Self::EventStream => "event-stream",
        }
    }

    /// Returns the era with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Modern, Self::Handshake, Self::EventStream].into_iter().find(|era| era.as_str() == name)
    }
}

/// Store of servers' eras by [identity](crate::ServerConfig::identity), so that the next program need not
/// probe. A stored era is a guess: if it fails, the server is probed.
pub trait EraStore: Send + Sync {
    /// Returns the last era of the server, if it is known and recent.
    fn load(&self, identity: &str) -> Option<ServerEra>;

    /// Stores an era. Failures are ignored, since the era can be probed again.
    fn save(&self, identity: &str, era: ServerEra);
}

/// Store of eras in memory.
#[derive(Debug, Default)]
pub struct MemoryEras(Mutex<BTreeMap<String, ServerEra>>);

impl EraStore for MemoryEras {
    fn load(&self, identity: &str) -> Option<ServerEra> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(identity).copied()
    }

    fn save(&self, identity: &str, era: ServerEra) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.to_owned(), era);
    }
}
