//! All files of a bundle, in memory.

mod archive;
pub(crate) mod digest;
mod directory;
mod tar;
mod zip;

use std::collections::BTreeMap;
use std::path::PathBuf;

use zk_core::service::{HostFileError, visible_line};

/// Maximum total size of a bundle's files, in bytes.
pub(crate) const MAX_TREE_BYTES: usize = 64 << 20;

/// Maximum number of files in a bundle.
pub(crate) const MAX_FILES: usize = 10_000;

/// Maximum depth of a bundle's directories.
const MAX_DEPTH: usize = 24;

/// Maximum length of the path of a file in a bundle, in bytes.
const MAX_PATH_BYTES: usize = 512;

/// One file of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeFile {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether the file is executable.
    pub is_executable: bool,
}

/// Files of a bundle by their paths below its root, with `/` between their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, TreeFile>,
    total_bytes: usize,
}

/// Reason why files cannot be a bundle.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A directory or file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// Cause of the failure.
        source: HostFileError,
    },
    /// A link leads out of the bundle.
    #[error("{} is a link that leads out of the plugin; a plugin has all of its files in its own directory", path.display())]
    LeadsOut {
        /// The link.
        path: PathBuf,
    },
    /// A path has parts that are not allowed in a bundle.
    #[error("the path `{0}` leads out of the plugin")]
    OutsidePath(String),
    /// A name has characters that are not allowed in a bundle.
    #[error("the name `{0}` has control characters, a backslash or no UTF-8")]
    Name(String),
    /// There are too many files.
    #[error("it has more than {MAX_FILES} files or directories")]
    TooMany,
    /// The files are too large together.
    #[error("its files have more than {} MiB together, the last one is `{last}`", MAX_TREE_BYTES >> 20)]
    TooLarge {
        /// Path of the file that exceeded the limit.
        last: String,
    },
    /// Directories are nested too deeply.
    #[error("`{0}` lies deeper than {MAX_DEPTH} directories")]
    TooDeep(String),
    /// Two files have the same path.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// An archive has an entry that is neither a file nor a directory.
    #[error("the archive has `{path}`, which is {what}; a plugin has files and directories only")]
    Special {
        /// Path of the entry.
        path: String,
        /// Kind of the entry.
        what: &'static str,
    },
    /// The bytes are no archive that zk reads.
    #[error("it is no archive that zk can read: {0}")]
    Archive(String),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// File or directory that was not written.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
}

impl Tree {
    /// Adds a file.
    ///
    /// # Errors
    /// [`TreeError`] for a path that is not below the root, and when a limit is reached.
    pub fn insert(&mut self, path: &str, file: TreeFile) -> Result<(), TreeError> {
        check_path(path)?;
        let shown = || visible_line(path);
        if self.files.len() == MAX_FILES {
            return Err(TreeError::TooMany);
        }
        self.total_bytes = self.total_bytes.saturating_add(file.bytes.len());
        if self.total_bytes > MAX_TREE_BYTES {
            return Err(TreeError::TooLarge { last: shown() });
        }
        match self.files.insert(path.to_owned(), file) {
            Some(_) => Err(TreeError::Twice(shown())),
            None => Ok(()),
        }
    }

    /// Size of all files in bytes.
    pub(crate) fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Number of bytes that still fit into the tree.
    pub(crate) fn remaining_bytes(&self) -> usize {
        MAX_TREE_BYTES.saturating_sub(self.total_bytes)
    }

    /// File at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&TreeFile> {
        self.files.get(path)
    }

    /// Files with their paths, sorted.
    pub fn files(&self) -> impl Iterator<Item = (&str, &TreeFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether any file lies below this directory.
    #[must_use]
    pub fn has_dir(&self, dir: &str) -> bool {
        self.below(dir).next().is_some()
    }

    /// Files below a directory, with their paths below it; all files for the empty path.
    pub fn below(&self, dir: &str) -> impl Iterator<Item = (&str, &TreeFile)> {
        let start = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let from = start.clone();
        self.files.range(from..).map_while(move |(path, file)| Some((path.strip_prefix(&start)?, file)))
    }

    /// Part of the tree below a directory, as a tree of its own.
    #[must_use]
    pub fn subtree(&self, dir: &str) -> Self {
        let mut part = Self::default();
        for (path, file) in self.below(dir) {
            part.total_bytes += file.bytes.len();
            part.files.insert(path.to_owned(), file.clone());
        }
        part
    }
}

/// Checks that a path is below the root and consists of visible characters.
fn check_path(path: &str) -> Result<(), TreeError> {
    let shown = || visible_line(path);
    let is_odd =
        |c: char| c.is_control() || c == '\\' || c == '\u{2028}' || c == '\u{2029}' || c == '\u{202e}';
    if path.chars().any(is_odd) || path.len() > MAX_PATH_BYTES {
        return Err(TreeError::Name(shown()));
    }
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(TreeError::OutsidePath(shown()));
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err(TreeError::TooDeep(shown()));
    }
    Ok(())
}
