use std::hash::{DefaultHasher, Hasher};
use std::time::SystemTime;

use zk_core::service::FileStat;

/// Files above this size are told apart by size and date instead of content, and are not edited.
pub(crate) const HASHED_UP_TO: u64 = 64 * 1024 * 1024;

/// What tells one content of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    /// Of the bytes.
    Content {
        /// Their hash.
        hash: u64,
        /// Their number.
        len: u64,
    },
    /// Of a file too big to be read as a whole for this.
    Stamp {
        /// Its size.
        len: u64,
        /// Its date.
        modified: Option<SystemTime>,
    },
}

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::default();
        hasher.add(bytes);
        hasher.finish()
    }

    pub(crate) fn of_stat(stat: &FileStat) -> Self {
        Self::Stamp { len: stat.len, modified: stat.modified }
    }
}

/// Makes the fingerprint of a content that comes in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentHasher {
    hasher: DefaultHasher,
    len: u64,
}

impl ContentHasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.len += bytes.len() as u64;
    }

    pub(crate) fn finish(&self) -> Fingerprint {
        Fingerprint::Content { hash: self.hasher.finish(), len: self.len }
    }
}
