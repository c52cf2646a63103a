use std::path::{Path, PathBuf};

/// Reads the files of this host that zk itself relies on: settings, instructions, ignore files, trust, hooks.
///
/// A project can put anything under those names: a pipe that never answers, a link to an endless device, a
/// file larger than the memory, a file of somebody else. Every implementation keeps these promises: only
/// regular files are opened, opening and reading never wait for another process, no more than
/// [`HostRead::max_bytes`] is held in memory, and the checks are made on the file that was opened. Calls block
/// for as long as the file system does.
///
/// Files that a model reads and writes go through [`Files`](super::Files) instead.
pub trait HostFiles: Send + Sync {
    /// Reads one file.
    ///
    /// # Errors
    /// [`HostFileError`] when it is missing, no regular file, too large, of a wrong owner or out of its
    /// directory.
    fn read(&self, path: &Path, how: &HostRead) -> Result<HostFile, HostFileError>;
    /// Returns the owner of this file or directory; a link at the end is not followed.
    ///
    /// # Errors
    /// [`HostFileError`] when nothing is there or the system does not say.
    fn owner(&self, path: &Path) -> Result<FileOwner, HostFileError>;
}

/// The limits one read keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRead {
    /// The most that is read, in bytes.
    pub max_bytes: usize,
    /// Treatment of a file with more than that.
    pub overflow: Overflow,
    /// Whether files of others than the user running and the system's administrator are refused.
    pub own_only: bool,
    /// The directory the file must lie in, after all links.
    pub beneath: Option<PathBuf>,
}

impl HostRead {
    /// A file of at most `max_bytes`, whoever owns it and wherever it is; a larger one is an error.
    #[must_use]
    pub fn whole(max_bytes: usize) -> Self {
        Self { max_bytes, overflow: Overflow::Refuse, own_only: false, beneath: None }
    }

    /// Refuses files of other users, for reads of what whoever wrote a project could have put there.
    #[must_use]
    pub fn own_only(mut self) -> Self {
        self.own_only = true;
        self
    }
}

/// Treatment of a file above the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The read fails.
    Refuse,
    /// The beginning of the file is read, and [`HostFile::cut`] says so.
    Cut,
}

/// Content of a host file, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// The content, at most [`HostRead::max_bytes`] of it.
    pub bytes: Vec<u8>,
    /// Whether the file goes on.
    pub cut: bool,
}

/// Owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The user who runs this process, or the system's administrator.
    Trusted,
    /// Somebody else.
    Other {
        /// The user's number.
        uid: u32,
    },
}

/// Reason for which a host file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HostFileError {
    /// Nothing is there.
    #[error("it does not exist")]
    Missing,
    /// The path leads to no regular file.
    #[error("it is {what}, not a regular file")]
    NotRegular {
        /// Kind of the file, in words.
        what: &'static str,
    },
    /// The file is above the size limit.
    #[error("it is larger than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The file is somebody else's.
    #[error("it belongs to another user (uid {uid})")]
    ForeignOwner {
        /// The owner's number.
        uid: u32,
    },
    /// The file lies elsewhere.
    #[error("it is a link that leads out of {}", directory.display())]
    Outside {
        /// The directory it should be in.
        directory: PathBuf,
    },
    /// The system said no.
    #[error("{0}")]
    Io(#[source] std::io::Error),
}

impl HostFileError {
    /// Whether there is simply no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Missing => true,
            Self::NotRegular { .. }
            | Self::TooLarge { .. }
            | Self::ForeignOwner { .. }
            | Self::Outside { .. }
            | Self::Io(_) => false,
        }
    }
}
