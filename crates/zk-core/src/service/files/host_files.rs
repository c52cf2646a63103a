use std::path::{Path, PathBuf};

/// Reader of zk's own files on this host: settings, instructions, ignore files, trust, hooks.
///
/// A project can put anything under those names: a pipe that never answers, a link to an endless device, a
/// file larger than the memory, a file of another user. Every implementation guarantees: only regular files
/// are opened, opening and reading never wait for another process, at most [`HostRead::max_bytes`] is held in
/// memory, and the checks are made on the opened file. Calls block on file access.
///
/// Files that a model reads and writes go through [`Files`](super::Files) instead.
pub trait HostFiles: Send + Sync {
    /// Reads one file within the limits of `how`.
    ///
    /// # Errors
    /// [`HostFileError`] when the file is missing, not regular, too large, of a wrong owner or outside of its
    /// directory.
    fn read(&self, path: &Path, how: &HostRead) -> Result<HostFile, HostFileError>;
    /// Returns the owner of this file or directory, without following a link at the end.
    ///
    /// # Errors
    /// [`HostFileError`] when the path does not exist or the owner cannot be determined.
    fn owner(&self, path: &Path) -> Result<FileOwner, HostFileError>;
}

/// Limits for reading one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRead {
    /// Size limit of the content in bytes.
    pub max_bytes: usize,
    /// Treatment of a file above the size limit.
    pub overflow: Overflow,
    /// Whether to refuse files of any owner but the current user and the administrator.
    pub own_only: bool,
    /// Directory that the file has to lie in, after resolving all links.
    pub beneath: Option<PathBuf>,
}

impl HostRead {
    /// Limits the size only; a file above `max_bytes` is an error.
    #[must_use]
    pub fn whole(max_bytes: usize) -> Self {
        Self { max_bytes, overflow: Overflow::Refuse, own_only: false, beneath: None }
    }

    /// Also refuses files of other users, for names that the author of a project controls.
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
    /// The beginning of the file is read, and [`HostFile::cut`] is set.
    Cut,
}

/// Content of a host file, possibly cut at a maximum size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Bytes of the file, at most [`HostRead::max_bytes`].
    pub bytes: Vec<u8>,
    /// Whether the file has more content than was read.
    pub cut: bool,
}

/// Owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The user who runs this process, or the system's administrator.
    Trusted,
    /// Another user.
    Other {
        /// Numeric id of the user.
        uid: u32,
    },
}

/// Reason for which a host file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HostFileError {
    /// The file does not exist.
    #[error("it does not exist")]
    Missing,
    /// The path leads to a directory, pipe, device or socket.
    #[error("it is {what}, not a regular file")]
    NotRegular {
        /// Kind of the file, in words.
        what: &'static str,
    },
    /// The file is above the size limit.
    #[error("it is larger than {max_bytes} bytes")]
    TooLarge {
        /// Size limit in bytes.
        max_bytes: usize,
    },
    /// The file belongs to another user.
    #[error("it belongs to another user (uid {uid})")]
    ForeignOwner {
        /// Numeric id of the owner.
        uid: u32,
    },
    /// The file lies outside of the required directory.
    #[error("it is a link that leads out of {}", directory.display())]
    Outside {
        /// Required directory.
        directory: PathBuf,
    },
    /// The file system reported an error.
    #[error("{0}")]
    Io(#[source] std::io::Error),
}

impl HostFileError {
    /// Whether the file does not exist.
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
