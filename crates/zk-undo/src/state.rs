use std::path::PathBuf;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// State of one path: the kind of the file, its mode and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileState {
    /// The path does not exist.
    Absent,
    /// A directory, without what is in it.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Size in bytes.
        size: u64,
        /// Place of the content.
        content: Content,
    },
    /// A symbolic link, which is never followed.
    Link {
        /// Target, as the link names it.
        #[serde(with = "crate::path_text")]
        target: PathBuf,
    },
    /// A device, pipe or socket, which no undo touches.
    Other,
}

/// Place where the content of a file is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum Content {
    /// An object of the workspace's own repository, which is only read.
    Git {
        /// Object id in hexadecimal.
        id: String,
    },
    /// A file of the journal.
    Kept {
        /// SHA-256 of the content in hexadecimal.
        hash: String,
    },
    /// Nowhere: the file is larger than the limits, or could not be read.
    LeftOut {
        /// Metadata by which a change of the file is noticed.
        stamp: Stamp,
    },
}

impl FileState {
    /// Whether the path exists in this state.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Whether an undo can bring this state back.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Absent | Self::Directory { .. } | Self::Link { .. } => true,
            Self::File { content, .. } => !matches!(content, Content::LeftOut { .. }),
            Self::Other => false,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// Change of one path: its states before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Absolute path.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// State before the change.
    pub before: FileState,
    /// State after the change.
    pub after: FileState,
}

/// Metadata of a file that changes when its content does. As wide as in git's index, so that both compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub(crate) modified: (u32, u32),
    pub(crate) changed: (u32, u32),
    pub(crate) inode: u32,
    pub(crate) size: u32,
}

/// Steps of a file system's clock: a file that changed this shortly before it was read may change again with
/// an equal stamp.
const CLOCK_STEP_NS: u64 = 20_000_000;

/// Coarsest step in which a file system keeps the time of a change.
const COARSE_STEP_NS: u64 = 2_000_000_000;

impl Stamp {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the low bits are compared with those in git's index"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            modified: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            inode: stat.st_ino as u32,
            size: stat.st_size as u32,
        }
    }

    /// Whether the file did not change within a step of the clock before `now_ns`.
    pub(crate) fn is_settled(&self, now_ns: u64) -> bool {
        self.changed_ns() < now_ns.saturating_sub(CLOCK_STEP_NS)
    }

    /// Whether the file was made, renamed or changed after `since_ns`.
    pub(crate) fn changed_since(&self, since_ns: u64) -> bool {
        self.changed_ns() >= since_ns.saturating_sub(CLOCK_STEP_NS)
    }

    /// Whether the content is older than `since_ns`, by more than the coarsest clock of a file system.
    pub(crate) fn is_written_before(&self, since_ns: u64) -> bool {
        let modified = u64::from(self.modified.0) * 1_000_000_000 + u64::from(self.modified.1);
        modified < since_ns.saturating_sub(COARSE_STEP_NS)
    }

    fn changed_ns(&self) -> u64 {
        u64::from(self.changed.0) * 1_000_000_000 + u64::from(self.changed.1)
    }
}
