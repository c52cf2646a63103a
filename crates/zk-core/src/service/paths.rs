use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How every file tool reaches files: paths are resolved, contained in the allowed roots, and opened so that
/// a link swapped in meanwhile cannot lead outside.
///
/// Paths are as the model writes them: absolute, or relative to `cwd`, the directory of the turn; a leading
/// `@` is dropped. Calls block for as long as the file system does; tools run them on a blocking thread.
pub trait Paths: Send + Sync {
    /// The directories file tools may work in; the first is the main one.
    fn roots(&self) -> Vec<PathBuf>;
    /// The canonical place a path stands for, whether or not something is there yet.
    ///
    /// # Errors
    /// [`PathError`] when it lies outside the roots or cannot be looked at.
    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError>;
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// [`PathError`] as for [`Paths::resolve`], and when it is missing or no regular file.
    fn open(&self, at: &Resolved) -> Result<File, PathError>;
    /// What is there, without following a link at the end.
    ///
    /// # Errors
    /// [`PathError`], also when nothing is there.
    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError>;
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
    /// Replaces or creates a file as a whole: no reader sees half of it, and mode, owner and the identity of
    /// a link are kept. Missing directories are made.
    ///
    /// # Errors
    /// [`PathError`]; the old content is still there then.
    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError>;
}

/// A path inside the roots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// Absolute, without links or `..`: different spellings of one file are equal.
    pub path: PathBuf,
    /// How to show it: relative to the main root where it is below it.
    pub shown: String,
}

/// What a walk visits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// Also what ignore files leave out.
    pub ignored: bool,
}

/// Something that a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Where it is.
    pub at: Resolved,
    /// What it was when its directory was read.
    pub kind: FileKind,
}

/// What is to be known of a walk that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkReport {
    /// Ignore files that were not used, each with the reason.
    pub notices: Vec<String>,
}

/// What is at a path.
#[derive(Clone, Debug)]
pub struct FileStat {
    /// File, directory, link or something else.
    pub kind: FileKind,
    /// Size in bytes.
    pub len: u64,
    /// Last change, where the system knows.
    pub modified: Option<SystemTime>,
    /// Device and inode: the file's identity however it is spelled.
    pub identity: (u64, u64),
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// Whether the file is new.
    pub created: bool,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It leads outside the allowed roots.
    #[error("`{path}` is outside the allowed directories ({roots}); use a path inside them")]
    Outside {
        /// As written.
        path: String,
        /// The roots.
        roots: String,
    },
    /// It is one of the files that are never read, or never written, by tools.
    #[error("`{path}` may not be {access}: {why}")]
    Protected {
        /// As written.
        path: String,
        /// `read` or `written`.
        access: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Nothing is there.
    #[error("`{path}` does not exist{hint}")]
    Missing {
        /// As written.
        path: String,
        /// A near match, or empty.
        hint: String,
    },
    /// It is not what the operation needs.
    #[error("`{path}` is {what}, not {wanted}")]
    Kind {
        /// As written.
        path: String,
        /// What it is.
        what: &'static str,
        /// What was needed.
        wanted: &'static str,
    },
    /// The path itself is not usable.
    #[error("`{path}` is not a usable path: {why}")]
    Invalid {
        /// As written.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// The system said no.
    #[error("cannot {doing} `{path}`: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// As written.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}
