mod blobs;
mod guarded_paths;
mod host_files;
mod state_files;

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
pub use state_files::{StateFileError, StateFiles, StateLock};

/// Access of every file tool to files, wherever they are: on this machine, in a container, on another host,
/// in an editor's buffers. Paths are resolved, contained in the allowed roots, and opened so that a link
/// swapped in meanwhile cannot lead outside.
///
/// Walks and searches are one call each, so that a context that is far away answers them where the files are. All
/// types can be sent elsewhere.
///
/// Paths are as the model writes them: absolute, or relative to `cwd`, the directory of the turn; a leading
/// `@` is dropped. Calls block for as long as the file system does; tools run them on a blocking thread. Only
/// [`Files::read_cached`] never blocks.
pub trait Files: Send + Sync {
    /// The directories file tools may work in; the first is the main one.
    fn roots(&self) -> Vec<PathBuf>;
    /// The canonical place a path stands for, whether or not something is there yet.
    ///
    /// # Errors
    /// [`PathError`] when it lies outside the roots or cannot be looked at.
    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError>;
    /// Opens a regular file for reading: all of it, or those bytes of `range` that exist.
    ///
    /// # Errors
    /// [`PathError`] as for [`Files::resolve`], and when it is missing or no regular file.
    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError>;
    /// Returns the metadata of what is there, without following a link at the end.
    ///
    /// # Errors
    /// [`PathError`], also when nothing is there.
    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError>;
    /// Reads a small regular file without ever blocking, as far as its path and all of its bytes are in memory:
    /// what [`Files::resolve`], [`Files::open`] and [`Files::stat`] would give, in one call that a tool may make on
    /// the thread of its run. `None` says nothing about the file: the other calls do.
    fn read_cached(&self, cwd: &Path, path: &str, max_bytes: usize) -> Option<CachedFile> {
        let _ = (cwd, path, max_bytes);
        None
    }
    /// The names in a directory, sorted, each with what it is.
    ///
    /// # Errors
    /// [`PathError`], also when it is no directory.
    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError>;
    /// Visits what lies below a directory, depth first, in the order of the names; a file alone is visited by
    /// itself. `.git` is left out, links are named and not followed, and nothing outside the roots is ever named,
    /// whatever is swapped in meanwhile. Directories that cannot be read are passed over.
    ///
    /// # Errors
    /// [`PathError`], when the walk cannot begin.
    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError>;
    /// Whether [`Files::search`] works here. Where it does not, no tool offers a search.
    fn can_search(&self) -> bool {
        true
    }
    /// Searches the text of what a walk visits, in its order. Ends early once `stop` is cancelled.
    ///
    /// # Errors
    /// [`PathError`], when the search cannot begin, [`PathError::Pattern`] among them.
    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError>;
    /// Tells `changed` of changes at a path and below it, until the watch is dropped. Changes that come together may
    /// be told once.
    ///
    /// # Errors
    /// [`PathError`], also when this context cannot watch.
    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        let _ = changed;
        Err(PathError::Invalid { path: at.shown.clone(), why: "changes cannot be watched here".into() })
    }
    /// Replaces or creates a file as a whole: no reader sees half of it, and mode, owner and the identity of
    /// a link are kept. Missing directories are made.
    ///
    /// # Errors
    /// [`PathError`]; the old content is still there then.
    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError>;
}

/// Callback for each change that a watch sees.
pub type OnChange = Arc<dyn Fn(&Resolved) + Send + Sync>;

/// A watch that was begun; dropping it ends it.
pub trait FileWatch: Send {}

/// A path inside the roots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resolved {
    /// Absolute, without links or `..`: different spellings of one file are equal.
    pub path: PathBuf,
    /// Path as it is shown: relative to the main root where it is below it.
    pub shown: String,
}

/// Options of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkOptions {
    /// Whether files that ignore files leave out are walked too.
    pub ignored: bool,
    /// Glob that a file's path below the start has to match, such as `src/**/*.rs`.
    pub only: Option<String>,
    /// Whether the entries have their dates.
    pub dates: bool,
}

/// Something that a walk found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// Path of the entry.
    pub at: Resolved,
    /// Kind of the entry when its directory was read.
    pub kind: FileKind,
    /// Last change, if dates were asked for and the system knows.
    pub modified: Option<SystemTime>,
}

/// Report on a walk that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkReport {
    /// Ignore files that were not used, each with the reason.
    pub notices: Vec<String>,
}

/// Query of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuery {
    /// A regular expression in ripgrep's syntax.
    pub pattern: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// Form of a result.
    pub mode: SearchMode,
    /// Lines around each match that are shown too.
    pub context: usize,
    /// Options of the walk that finds the files.
    pub walk: WalkOptions,
    /// Number of results before those that are wanted.
    pub skip: usize,
    /// Number of results after the skipped ones that are enough.
    pub wanted: usize,
    /// Bytes of results that are enough.
    pub max_bytes: usize,
    /// Most bytes of a line that are shown.
    pub line_bytes: usize,
}

/// Form of a result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    /// A file with a match: its path.
    #[default]
    Files,
    /// A line that matches or is near one: `path:12:text`, `path-11-text`.
    Content,
    /// A file with the number of its matching lines: `path:3`.
    Count,
}

/// Results of a search, with counts of what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchFound {
    /// The results, in the order of the paths, as they are shown.
    pub results: Vec<String>,
    /// Number of results that were skipped.
    pub skipped: usize,
    /// Whether the cap in bytes was reached.
    pub capped: bool,
    /// Files that could not be read, or have a line too long.
    pub unsearchable: usize,
    /// Files that tools may not read.
    pub protected: usize,
    /// Notices, as in [`WalkReport`].
    pub notices: Vec<String>,
}

/// Files outside of the roots of [`Files`], for reading alone: `cx.service::<OutsideFiles>()`. A host provides it where a
/// judge of calls decides about each read there, or asks a person. Credentials are refused as anywhere.
#[derive(Clone)]
pub struct OutsideFiles(pub Arc<dyn Files>);

impl std::fmt::Debug for OutsideFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideFiles").finish_non_exhaustive()
    }
}

/// Metadata of what is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// File, directory, link or something else.
    pub kind: FileKind,
    /// Size in bytes.
    pub len: u64,
    /// Last change, where the system knows.
    pub modified: Option<SystemTime>,
    /// The file's identity, however it is spelled.
    pub identity: FileIdentity,
}

/// Identity of a file in its context: two are the same file if these are equal, and nothing else can be told from
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileIdentity(String);

impl FileIdentity {
    /// Makes an identity from what tells a file from all others of its context.
    pub fn new(identity: impl Into<String>) -> Self {
        Self(identity.into())
    }
}

/// A whole file that was read from the page cache, by [`Files::read_cached`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// The resolved path.
    pub at: Resolved,
    /// Metadata of the file.
    pub stat: FileStat,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Kinds of files.
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
    /// Whether the file is new.
    pub created: bool,
}

/// Reason for which a path cannot be used.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum PathError {
    /// The path leads outside the allowed roots.
    #[error("`{path}` is outside the allowed directories ({roots}); use a path inside them")]
    Outside {
        /// The path as it was written.
        path: String,
        /// The roots.
        roots: String,
    },
    /// The path is one of the files that are never read, or never written, by tools.
    #[error("`{path}` may not be {access}: {why}")]
    Protected {
        /// The path as it was written.
        path: String,
        /// `read` or `written`.
        access: Cow<'static, str>,
        /// Reason for the protection.
        why: Cow<'static, str>,
    },
    /// Nothing is there.
    #[error("`{path}` does not exist{hint}")]
    Missing {
        /// The path as it was written.
        path: String,
        /// A near match, or empty.
        hint: String,
    },
    /// The path is not what the operation needs.
    #[error("`{path}` is {what}, not {wanted}")]
    Kind {
        /// The path as it was written.
        path: String,
        /// Kind of the path, in words.
        what: Cow<'static, str>,
        /// Kind that was needed, in words.
        wanted: Cow<'static, str>,
    },
    /// The path itself is not usable.
    #[error("`{path}` is not a usable path: {why}")]
    Invalid {
        /// The path as it was written.
        path: String,
        /// Reason for which the path is not usable.
        why: Cow<'static, str>,
    },
    /// A glob or a regular expression is none.
    #[error("this is no usable {what}: {why}")]
    Pattern {
        /// `glob`, `pattern` or `regular expression`.
        what: Cow<'static, str>,
        /// Reason for which it is not usable.
        why: String,
    },
    /// The system said no.
    #[error("cannot {doing} `{path}`: {source}")]
    Io {
        /// Act that failed, as a verb.
        doing: Cow<'static, str>,
        /// The path as it was written.
        path: String,
        /// Cause of the failure; sent elsewhere, its text is left.
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
