mod blobs;
mod guarded_paths;
mod host_files;
mod isolation;
mod regular;
mod state_files;
mod workspaces;

use std::borrow::Cow;
use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use blobs::{BlobError, BlobId, Blobs};
pub use guarded_paths::{GuardedPath, PathGuard, RunBy};
pub use host_files::{FileOwner, HostFile, HostFileError, HostFiles, HostRead, Overflow};
pub use isolation::{CopyChanges, IsolatedCopy, Isolation, IsolationError};
pub use regular::{open_regular, read_regular};
pub use state_files::{StateFileError, StateFiles, StateLock, make_private_dir};
pub use workspaces::{
    Checkpoint, CheckpointOf, MAX_WORKSPACE_REF_BYTES, WorkspaceError, WorkspaceRef, Workspaces,
};

/// File access for all file tools, wherever the files are: on this machine, in a container, on another host,
/// in an editor's buffers. Paths are resolved, confined to the allowed roots, and opened so that a link
/// swapped in meanwhile cannot lead outside.
///
/// Walks and searches are one call each, so that a remote context answers them where the files are. All types
/// are serialisable for that.
///
/// Paths are as the model writes them: absolute, or relative to `cwd`, the working directory of the turn; a
/// leading `@` is dropped. Calls block on file access; tools make them on a blocking thread. Only
/// [`Files::read_cached`] never blocks.
pub trait Files: Send + Sync {
    /// Returns the directories that file tools may work in, the main one first.
    fn roots(&self) -> Vec<PathBuf>;
    /// Resolves a path to its canonical form, whether or not the file exists yet.
    ///
    /// # Errors
    /// [`PathError`] when the path lies outside of the roots or cannot be inspected.
    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError>;
    /// Opens a regular file for reading, as a whole or only the bytes of `range`.
    ///
    /// # Errors
    /// [`PathError`] as for [`Files::resolve`], and when the file is missing or not regular.
    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError>;
    /// Returns the metadata of a path, without following a link at the end.
    ///
    /// # Errors
    /// [`PathError`], also when the path does not exist.
    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError>;
    /// Reads a small regular file from memory without blocking, if its path and all its bytes are cached: a
    /// combination of [`Files::resolve`], [`Files::open`] and [`Files::stat`] that a tool may call on the
    /// thread of its run. `None` says nothing about the file; fall back to the blocking calls.
    fn read_cached(&self, cwd: &Path, path: &str, max_bytes: usize) -> Option<CachedFile> {
        let _ = (cwd, path, max_bytes);
        None
    }
    /// Lists the names in a directory, sorted, with their metadata.
    ///
    /// # Errors
    /// [`PathError`], also when the path is no directory.
    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError>;
    /// Visits the files and directories below a directory, depth first and sorted by name; for a file it
    /// visits just that file. `.git` is left out, links are visited but not followed, and no path outside of
    /// the roots is ever visited, whatever is swapped in meanwhile. Unreadable directories are skipped.
    ///
    /// # Errors
    /// [`PathError`] when the walk cannot begin.
    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError>;
    /// Whether [`Files::search`] is supported. Otherwise no tool offers a search.
    fn can_search(&self) -> bool {
        true
    }
    /// Searches the text of all files that a walk visits, in the order of the walk. Ends early once `stop` is
    /// cancelled.
    ///
    /// # Errors
    /// [`PathError`] when the search cannot begin, for example [`PathError::Pattern`].
    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError>;
    /// Calls `changed` for changes at a path and below it, until the watch is dropped. Changes close in time
    /// may be reported once.
    ///
    /// # Errors
    /// [`PathError`], also when this context does not support watches.
    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        let _ = changed;
        Err(PathError::Invalid { path: at.shown.clone(), why: "changes cannot be watched here".into() })
    }
    /// Replaces or creates a whole file atomically: no reader sees half of it, and mode, owner and the
    /// identity of a link are kept. Missing directories are created.
    ///
    /// # Errors
    /// [`PathError`]; the old content is unchanged then.
    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError>;
}

/// Callback for each change that a watch reports.
pub type OnChange = Arc<dyn Fn(&Resolved) + Send + Sync>;

/// An active file watch; dropping it ends the watch.
pub trait FileWatch: Send {}

/// A resolved path inside the roots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resolved {
    /// Absolute path without links or `..`, so that different spellings of one file are equal.
    pub path: PathBuf,
    /// Path for display: relative to the main root if below it.
    pub shown: String,
}

/// Options of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkOptions {
    /// Whether to visit files that ignore files exclude.
    pub ignored: bool,
    /// Glob that a file's path below the start has to match, such as `src/**/*.rs`.
    pub only: Option<String>,
    /// Whether entries carry their modification time.
    pub dates: bool,
}

/// A file, directory or link that a walk visited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// Resolved path of the entry.
    pub at: Resolved,
    /// Kind of the entry at the time its directory was read.
    pub kind: FileKind,
    /// Modification time, if [`WalkOptions::dates`] is set and the time is known.
    pub modified: Option<SystemTime>,
}

/// Report on a finished walk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkReport {
    /// Ignore files that could not be used, each with the reason.
    pub notices: Vec<String>,
}

/// Query of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuery {
    /// Regular expression in ripgrep's syntax.
    pub pattern: String,
    /// Whether matching ignores case.
    pub ignore_case: bool,
    /// Form of a result.
    pub mode: SearchMode,
    /// Number of lines to show around each match.
    pub context: usize,
    /// Options of the walk that visits the files.
    pub walk: WalkOptions,
    /// Number of leading results to skip, for paging.
    pub skip: usize,
    /// Number of results after which the search ends.
    pub wanted: usize,
    /// Size of all results in bytes after which the search ends.
    pub max_bytes: usize,
    /// Maximum number of bytes of a line that are shown.
    pub line_bytes: usize,
}

/// Form of a result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    /// The path of a file with a match.
    #[default]
    Files,
    /// A matching line or one near it: `path:12:text`, `path-11-text`.
    Content,
    /// A file with the number of its matching lines: `path:3`.
    Count,
}

/// Results of a search, with counts of omitted results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchFound {
    /// Formatted results, in the order of the paths.
    pub results: Vec<String>,
    /// Number of results that were skipped.
    pub skipped: usize,
    /// Whether the size limit ended the search.
    pub capped: bool,
    /// Number of files that could not be read, or have too long a line.
    pub unsearchable: usize,
    /// Number of files that tools may not read.
    pub protected: usize,
    /// Notices, as in [`WalkReport`].
    pub notices: Vec<String>,
}

/// Read-only access to files outside of the roots of [`Files`]: `cx.service::<OutsideFiles>()`. A host
/// provides it where a judge of calls decides about each such read, or asks a person. Credentials are refused
/// as everywhere.
#[derive(Clone)]
pub struct OutsideFiles(pub Arc<dyn Files>);

impl std::fmt::Debug for OutsideFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideFiles").finish_non_exhaustive()
    }
}

/// Metadata of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// Kind of the file.
    pub kind: FileKind,
    /// Size in bytes.
    pub len: u64,
    /// Modification time, if known.
    pub modified: Option<SystemTime>,
    /// Identity of the file, equal for all paths that lead to it.
    pub identity: FileIdentity,
}

/// Opaque identity of a file in its context: two paths lead to the same file if their identities are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileIdentity(String);

impl FileIdentity {
    /// Creates an identity from a text that is unique for the file in its context.
    pub fn new(identity: impl Into<String>) -> Self {
        Self(identity.into())
    }
}

/// A file read from the page cache as a whole, by [`Files::read_cached`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// Resolved path of the file.
    pub at: Resolved,
    /// Metadata of the file.
    pub stat: FileStat,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Other,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteReceipt {
    /// Whether the file was created.
    pub created: bool,
}

/// Reason for which a path cannot be used.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum PathError {
    /// The path leads outside of the allowed roots.
    #[error("`{path}` is outside the allowed directories ({roots}); use a path inside them")]
    Outside {
        /// The path as given.
        path: String,
        /// List of the roots, for display.
        roots: String,
    },
    /// The file is protected: tools may never read it, or never write it.
    #[error("`{path}` may not be {access}: {why}")]
    Protected {
        /// The path as given.
        path: String,
        /// `read` or `written`.
        access: Cow<'static, str>,
        /// Reason for the protection.
        why: Cow<'static, str>,
    },
    /// The path does not exist.
    #[error("`{path}` does not exist{hint}")]
    Missing {
        /// The path as given.
        path: String,
        /// Name of a similar file, or empty.
        hint: String,
    },
    /// The operation does not fit the kind of file at the path.
    #[error("`{path}` is {what}, not {wanted}")]
    Kind {
        /// The path as given.
        path: String,
        /// Actual kind of the file, in words.
        what: Cow<'static, str>,
        /// Required kind of the file, in words.
        wanted: Cow<'static, str>,
    },
    /// The text is not a valid path.
    #[error("`{path}` is not a usable path: {why}")]
    Invalid {
        /// The path as given.
        path: String,
        /// Reason for which the path is not usable.
        why: Cow<'static, str>,
    },
    /// A glob or regular expression is invalid.
    #[error("this is no usable {what}: {why}")]
    Pattern {
        /// `glob`, `pattern` or `regular expression`.
        what: Cow<'static, str>,
        /// Reason for which the pattern is invalid.
        why: String,
    },
    /// The file system reported an error.
    #[error("cannot {doing} `{path}`: {source}")]
    Io {
        /// Action that failed, as a verb.
        doing: Cow<'static, str>,
        /// The path as given.
        path: String,
        /// Cause of the failure; serialised as its text.
        #[serde(with = "io_error")]
        source: std::io::Error,
    },
}

mod io_error {
    use std::io::Error;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(error: &Error, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(error)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Error, D::Error> {
        String::deserialize(from).map(Error::other)
    }
}
