//! The way of speaking that a server was found to have.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Era of the protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEra {
    /// Revision 2026-07-28 and later: every request stands for itself.
    Modern,
    /// Revisions 2025-03-26 to 2025-11-25, or 2024-11-05 over standard input and output: a handshake first.
    Handshake,
    /// Revision 2024-11-05 over HTTP: one stream of events, and an address for messages beside it.
    EventStream,
}

impl ServerEra {
    /// Returns the name: `modern`, `handshake` or `event-stream`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Handshake => "handshake",
            Self::EventStream => "event-stream",
        }
    }

    /// The era of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Modern, Self::Handshake, Self::EventStream].into_iter().find(|era| era.as_str() == name)
    }
}

/// Store of the eras of servers, by the [identity](crate::ServerConfig::identity) of the server, so that the
/// next program does not probe again. A stored era is a guess: where it fails, the server is probed.
pub trait EraStore: Send + Sync {
    /// The era that the server had last, if that is known and not too long ago.
    fn load(&self, identity: &str) -> Option<ServerEra>;

    /// Keeps an era. One that cannot be kept is probed again.
    fn save(&self, identity: &str, era: ServerEra);
}

/// Eras that are forgotten with the process.
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
