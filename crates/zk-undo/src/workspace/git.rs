//! Git's own record of a workspace: the index, which is read and never refreshed, and the objects. Nothing is
//! written, and neither git nor anything that a repository names is run.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_hash::ObjectId;
use gix_index::entry::{Flags, Mode, Stage};
use gix_object::{FindExt, FindHeader};
use serde::{Deserialize, Serialize};

use crate::UndoError;
use crate::objects::Objects;
use crate::state::Stamp;

/// Largest file of a repository's own that is read, in bytes: configuration, rules, names of directories.
pub(crate) const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Largest index that is read, in bytes.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// A repository and the place of a workspace in it.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    /// Directory with the index.
    git_dir: PathBuf,
    /// Directory with objects and configuration, which linked work trees share.
    common_dir: PathBuf,
    /// Root of the work tree.
    pub(crate) root: PathBuf,
    /// Path of the workspace below the root, with a slash at the end; empty at the root.
    prefix: Vec<u8>,
}

impl Repository {
    /// Finds the repository of a workspace; `None` if there is none, or one in a format that is not supported.
    pub(crate) fn of(workspace: &Path) -> Option<Self> {
        let root = workspace.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
        let dot = root.join(".git");
        let git_dir = if dot.is_dir() {
            dot
        } else {
            let text = read_text(&dot)?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = read_text(&git_dir.join("commondir"));
        let common_dir = common.map_or_else(|| git_dir.clone(), |dir| git_dir.join(dir.trim()));
        let config = read_text(&common_dir.join("config"))?.to_ascii_lowercase();
        let is_sha256 = |(name, given): (&str, &str)| {
            name.trim() == "objectformat" && given.trim().trim_matches('"').starts_with("sha256")
        };
        if config.lines().filter_map(|line| line.split_once('=')).any(is_sha256) {
            return None;
        }
        let below = workspace.strip_prefix(root).ok()?;
        let mut prefix = below.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let root = root.to_owned();
        Some(Self { git_dir, common_dir, root, prefix })
    }

    /// Inode of the repository, by which another repository at the same path is recognised.
    pub(crate) fn identity(&self) -> Option<u64> {
        std::fs::metadata(&self.common_dir).ok().map(|metadata| metadata.ino())
    }

    /// Path of the repository's own settings.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.common_dir.join("config")
    }

    /// Sizes of the repository's objects.
    pub(crate) fn sizes(&self) -> ObjectSizes {
        ObjectSizes(gix_odb::at(self.common_dir.join("objects"), gix_hash::Kind::Sha1).ok())
    }

    /// Path of the repository's own ignore rules, which count beside its ignore files.
    pub(crate) fn exclude_path(&self) -> PathBuf {
        self.common_dir.join("info/exclude")
    }

    /// Path of the repository's own attributes, which count beside its attribute files.
    pub(crate) fn attributes_path(&self) -> PathBuf {
        self.common_dir.join("info/attributes")
    }

    /// Reads the index, or returns `before` if the file is still the same. The index is read from a copy in the
    /// journal, since git may replace the file.
    pub(crate) fn read_index(
        &self,
        before: Option<&Arc<Index>>,
        objects: &Objects,
    ) -> Result<Option<Arc<Index>>, UndoError> {
        let path = self.git_dir.join("index");
        // A pipe in place of the index is never opened.
        if !std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        let file = File::open(&path).map_err(UndoError::io("read", &path))?;
        let metadata = file.metadata().map_err(UndoError::io("read", &path))?;
        let version = (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        let same =
            before.filter(|before| before.about.version == version && before.about.prefix == self.prefix);
        if let Some(before) = same {
            return Ok(Some(before.clone()));
        }
        if metadata.len() > MAX_INDEX_BYTES {
            return Ok(None);
        }
        let Some(hash) = objects.put_file(&file, metadata.len())? else { return Ok(None) };
        let about = AboutIndex { hash, version, prefix: self.prefix.clone() };
        Ok(Index::open(about, objects).map(Arc::new))
    }

    /// Content of a blob of `size` bytes; `None` if the repository does not have it, or has another size.
    pub(crate) fn blob(&self, hex: &str, size: u64) -> Option<Vec<u8>> {
        let id = ObjectId::from_hex(hex.as_bytes()).ok()?;
        let objects = gix_odb::at(self.common_dir.join("objects"), gix_hash::Kind::Sha1).ok()?;
        let mut buffer = Vec::new();
        let blob = objects.find_blob(&id, &mut buffer).ok()?;
        let is_whole =
            blob.data.len() as u64 == size && blob_id(blob.data).is_some_and(|found| found == *hex);
        is_whole.then(|| blob.data.to_vec())
    }
}

/// Sizes of the objects of a repository, by their headers alone.
#[derive(Default)]
pub(crate) struct ObjectSizes(Option<gix_odb::Handle>);

impl std::fmt::Debug for ObjectSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectSizes").finish_non_exhaustive()
    }
}

impl ObjectSizes {
    /// Whether the object of a tracked file is as large as the file; false for one that is not there.
    pub(crate) fn equals_file(&self, tracked: &Tracked<'_>) -> bool {
        let header = self.0.as_ref().and_then(|objects| objects.try_header(&tracked.entry.id).ok().flatten());
        header.is_some_and(|header| header.size == tracked.size())
    }
}

/// Whether a directory contains a repository, whatever its name: a bare one, or one apart from its work tree.
pub(crate) fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").symlink_metadata().is_ok() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// Object id that git gives a blob with this content.
pub(crate) fn blob_id(bytes: &[u8]) -> Option<String> {
    let id = gix_object::compute_hash(gix_hash::Kind::Sha1, gix_object::Kind::Blob, bytes).ok()?;
    Some(id.to_hex().to_string())
}

/// Reads a text of at most [`MAX_TEXT_BYTES`]; a link is followed, a pipe is never opened.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let is_file = std::fs::metadata(path).ok()?.is_file();
    let file = File::open(path).ok().filter(|_| is_file)?;
    let mut text = Vec::new();
    file.take(MAX_TEXT_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Git's index, with lookups of the entries below the workspace.
pub(crate) struct Index {
    state: gix_index::State,
    pub(crate) about: AboutIndex,
}

/// Identity of an index file and of its copy in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AboutIndex {
    /// Hash of the copy.
    hash: String,
    /// Inode, size and time of the file that was copied.
    version: (u64, u64, i64, i64),
    /// Path of the workspace below the root of its work tree.
    prefix: Vec<u8>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("about", &self.about).finish_non_exhaustive()
    }
}

/// A tracked file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked<'a> {
    pub(crate) position: usize,
    entry: &'a gix_index::Entry,
    is_racy: bool,
}

impl Index {
    /// Opens the copy of an index in the journal; `None` if it is no index, or a sparse one.
    pub(crate) fn open(about: AboutIndex, objects: &Objects) -> Option<Self> {
        let options = gix_index::decode::Options::default();
        // Git's checksum is not checked: the journal's own hash covers all bytes.
        let file =
            gix_index::File::at(objects.path(&about.hash), gix_hash::Kind::Sha1, true, options).ok()?;
        let state = gix_index::State::from(file);
        (!state.is_sparse()).then_some(Self { state, about })
    }

    /// Number of entries. All positions are smaller than this.
    pub(crate) fn len(&self) -> usize {
        self.state.entries().len()
    }

    /// Positions of the entries below the workspace.
    pub(crate) fn positions(&self) -> Range<usize> {
        self.range_with_prefix(0..self.len(), &self.about.prefix)
    }

    /// Positions, within `range`, of the entries whose paths in the workspace begin with `path`.
    pub(crate) fn positions_below(&self, range: Range<usize>, path: &[u8]) -> Range<usize> {
        self.range_with_prefix(range, &[&self.about.prefix, path].concat())
    }

    fn range_with_prefix(&self, range: Range<usize>, prefix: &[u8]) -> Range<usize> {
        let entries = self.state.entries().get(range.clone()).unwrap_or_default();
        let from = entries.partition_point(|entry| **entry.path(&self.state) < *prefix);
        let rest = entries.get(from..).unwrap_or_default();
        let count = rest.partition_point(|entry| entry.path(&self.state).starts_with(prefix));
        range.start + from..range.start + from + count
    }

    /// Tracked file at a path in the workspace, searched within `range`.
    pub(crate) fn find(&self, range: Range<usize>, path: &[u8]) -> Option<Tracked<'_>> {
        let entries = self.state.entries().get(range.clone())?;
        let skipped = self.about.prefix.len();
        let of = |entry: &gix_index::Entry| -> &[u8] {
            let whole: &[u8] = entry.path(&self.state);
            whole.get(skipped..).unwrap_or_default()
        };
        let found = entries.partition_point(|entry| of(entry) < path);
        let entry = entries.get(found).filter(|entry| of(entry) == path)?;
        Some(self.tracked(range.start + found, entry))
    }

    /// Tracked file at a position, with its path below the workspace.
    pub(crate) fn entry_at(&self, position: usize) -> Option<(&[u8], Tracked<'_>)> {
        let entry = self.state.entries().get(position)?;
        let whole: &[u8] = entry.path(&self.state);
        Some((whole.get(self.about.prefix.len()..)?, self.tracked(position, entry)))
    }

    fn tracked<'a>(&self, position: usize, entry: &'a gix_index::Entry) -> Tracked<'a> {
        let modified = (entry.stat.mtime.secs, entry.stat.mtime.nsecs);
        let (_, _, seconds, nanoseconds) = self.about.version;
        let is_racy = (i64::from(modified.0), i64::from(modified.1)) >= (seconds, nanoseconds);
        Tracked { position, entry, is_racy }
    }
}

impl Tracked<'_> {
    /// Whether the file has the content of its object, judged by its metadata. Never true for a file in a merge
    /// conflict.
    pub(crate) fn is_clean(&self, stamp: &Stamp) -> bool {
        !self.is_racy && self.is_blob() && self.stamp() == *stamp
    }

    /// Whether the entry names a blob with the content of a regular file.
    pub(crate) fn is_blob(&self) -> bool {
        matches!(self.entry.mode, Mode::FILE | Mode::FILE_EXECUTABLE)
            && self.entry.stage() == Stage::Unconflicted
            && !self.entry.flags.contains(Flags::INTENT_TO_ADD)
    }

    pub(crate) fn is_executable(&self) -> bool {
        self.entry.mode == Mode::FILE_EXECUTABLE
    }

    pub(crate) fn id(&self) -> String {
        self.entry.id.to_hex().to_string()
    }

    pub(crate) fn size(&self) -> u64 {
        u64::from(self.entry.stat.size)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let stat = &self.entry.stat;
        Stamp {
            modified: (stat.mtime.secs, stat.mtime.nsecs),
            changed: (stat.ctime.secs, stat.ctime.nsecs),
            inode: stat.ino,
            size: stat.size,
        }
    }
}
