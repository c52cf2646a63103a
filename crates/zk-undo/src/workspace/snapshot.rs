use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::objects::{Objects, hash_of};
use crate::path_text::SavedPath;
use crate::state::{Content, FileState, Stamp};
use crate::workspace::git::{AboutIndex, Index, Repository, blob_id};
use crate::{Change, UndoError};

/// State of a path, with the metadata by which a later change is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) state: FileState,
    pub(crate) stamp: Option<Stamp>,
    /// Whether an equal stamp later proves that the file is unchanged.
    pub(crate) is_settled: bool,
}

impl Known {
    pub(crate) fn absent() -> Self {
        Self { state: FileState::Absent, stamp: None, is_settled: true }
    }

    fn is_unchanged(&self, later: &Self) -> bool {
        let is_file = matches!(self.state, FileState::File { .. });
        self.state == later.state
            || is_file && self.is_settled && self.stamp.is_some() && self.stamp == later.stamp
    }
}

/// Directory and repository of a workspace, to tell them from others at the same path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    #[serde(with = "crate::path_text")]
    pub(crate) root: PathBuf,
    inode: u64,
    created_ns: Option<u64>,
    repository: Option<u64>,
}

impl Identity {
    pub(crate) fn of(root: &Path) -> Result<Self, UndoError> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::symlink_metadata(root).map_err(UndoError::io("read", root))?;
        let created = metadata.created().ok();
        let created_ns = created.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_ns = created_ns.and_then(|since| u64::try_from(since.as_nanos()).ok());
        let repository = Repository::of(root).and_then(|found| found.identity());
        Ok(Self { root: root.to_owned(), inode: metadata.ino(), created_ns, repository })
    }

    /// Checks that the workspace is still this one.
    pub(crate) fn check(&self) -> Result<(), UndoError> {
        let other = |why| UndoError::OtherWorkspace { root: self.root.clone(), why };
        let now = Self::of(&self.root).map_err(|_| other("it is gone or was moved"))?;
        if (now.inode, now.created_ns) != (self.inode, self.created_ns) {
            return Err(other("another directory is in its place"));
        }
        match (self.repository, now.repository) {
            (Some(before), Some(now)) if before != now => Err(other("it is another repository now")),
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// States of all files of a workspace at one time. Tracked files that are unchanged are in git's index alone.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) identity: Identity,
    /// Time at the start of the scan, in nanoseconds since 1970.
    pub(crate) taken_ns: u64,
    pub(crate) index: Option<Arc<Index>>,
    /// Modes of the unchanged tracked files: of plain files, and of programs.
    pub(crate) modes: (u32, u32),
    /// All other paths, relative to the root: untracked files, and those that differ from the index.
    pub(crate) files: BTreeMap<PathBuf, Known>,
    /// Ignored files, and ignored directories without their content.
    pub(crate) ignored: BTreeSet<PathBuf>,
    /// Files whose content is not kept.
    pub(crate) left_out: LeftOut,
}

/// Files of a workspace whose content is not kept, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    reasons: BTreeMap<&'static str, (u64, PathBuf)>,
}

impl LeftOut {
    pub(crate) fn add(&mut self, why: &'static str, path: &Path) {
        self.reasons.entry(why).or_insert_with(|| (0, path.to_owned())).0 += 1;
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (why, (count, example)) in &other.reasons {
            self.reasons.entry(why).or_insert_with(|| (0, example.clone())).0 += count;
        }
    }

    /// Descriptions of the files that are not kept, one for each reason.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let reason = |(why, (count, example)): (&&str, &(u64, PathBuf))| {
            let files = if *count == 1 { "1 file".to_owned() } else { format!("{count} files") };
            format!("{files} {why} (such as {})", example.display())
        };
        self.reasons.iter().map(reason).collect()
    }

    /// Line for the person about the files that are not kept; `None` if there are none.
    pub(crate) fn summary_line(&self) -> Option<String> {
        let reasons = self.reasons();
        (!reasons.is_empty()).then(|| format!("undo does not cover {}", reasons.join(", ")))
    }
}

impl Snapshot {
    pub(crate) fn root(&self) -> &Path {
        &self.identity.root
    }

    /// State of a path below the root.
    pub(crate) fn state_at(&self, path: &Path) -> Known {
        if let Some(known) = self.files.get(path) {
            return known.clone();
        }
        let found = self.index.as_ref().and_then(|index| {
            let tracked = index.find(index.positions(), path.as_os_str().as_bytes())?;
            let mode = if tracked.is_executable() { self.modes.1 } else { self.modes.0 };
            let content = Content::Git { id: tracked.id() };
            let state = FileState::File { mode, size: tracked.size(), content };
            Some(Known { state, stamp: Some(tracked.stamp()), is_settled: true })
        });
        found.unwrap_or_else(Known::absent)
    }

    /// Changes from this snapshot to `later`: paths with different states, with both states.
    pub(crate) fn changes(
        &self,
        later: &Self,
        objects: &Objects,
        look: &mut dyn FnMut(&Path) -> Result<Known, UndoError>,
    ) -> Result<Vec<Change>, UndoError> {
        let mut paths: BTreeSet<PathBuf> = self.files.keys().chain(later.files.keys()).cloned().collect();
        let about = |snapshot: &Self| snapshot.index.as_ref().map(|index| index.about.clone());
        if about(self) != about(later) || self.modes != later.modes {
            for index in [&self.index, &later.index].into_iter().flatten() {
                let all = index.positions().filter_map(|at| index.entry_at(at));
                paths.extend(all.map(|(path, _)| PathBuf::from(std::ffi::OsStr::from_bytes(path))));
            }
        }
        let mut changes = Vec::new();
        let mut older = BTreeSet::new();
        for relative in paths {
            let (before, mut after) = (self.state_at(&relative), later.state_at(&relative));
            if before.is_unchanged(&after) {
                continue;
            }
            let path = self.root().join(&relative);
            if !before.state.exists() && relative.ancestors().any(|path| self.ignored.contains(path)) {
                // The file is not new: a rule that made git ignore it is gone.
                continue;
            }
            if !before.state.exists() && after.stamp.is_some_and(|stamp| !stamp.changed_since(self.taken_ns))
            {
                // The file is older than the snapshot, in a place that was not scanned.
                continue;
            }
            if !after.state.exists() {
                after = look(&path)?;
            }
            if self.is_same(&before.state, &after.state, objects) {
                continue;
            }
            let is_older = after.stamp.is_some_and(|stamp| stamp.is_written_before(self.taken_ns));
            if !before.state.exists() && is_older && matches!(after.state, FileState::File { .. }) {
                older.insert(path.clone());
            }
            changes.push(Change { path, before: before.state, after: after.state });
        }
        self.drop_moved_in(&mut changes, &older, objects);
        Ok(changes)
    }

    /// Drops changes that add a file with an older content that no other path lost: the file was moved in from a place
    /// that is not covered, and an undo would remove the only copy.
    fn drop_moved_in(&self, changes: &mut Vec<Change>, older: &BTreeSet<PathBuf>, objects: &Objects) {
        if older.is_empty() {
            return;
        }
        let mut lost: BTreeSet<String> = BTreeSet::new();
        for change in changes.iter().filter(|change| !older.contains(&change.path)) {
            if let FileState::File { content, .. } = &change.before {
                match content {
                    Content::Git { id } => lost.insert(id.clone()),
                    Content::Kept { hash } => lost.insert(hash.clone()),
                    Content::LeftOut { .. } => false,
                };
            }
        }
        changes.retain(|change| {
            let FileState::File { size, content, .. } = &change.after else { return true };
            if !older.contains(&change.path) {
                return true;
            }
            match content {
                Content::Kept { hash } => {
                    let id = || blob_id(&std::fs::read(objects.path(hash)).ok()?);
                    lost.contains(hash) || id().is_some_and(|id| lost.contains(&id))
                }
                Content::Git { id } => {
                    let hash = || content_hash(self.root(), id, *size);
                    lost.contains(id) || hash().is_some_and(|hash| lost.contains(&hash))
                }
                Content::LeftOut { .. } => true,
            }
        });
    }

    /// Whether two states are equal although their contents may be in different places.
    fn is_same(&self, one: &FileState, other: &FileState, objects: &Objects) -> bool {
        match (one, other) {
            (
                FileState::File { mode: a, size: b, content: Content::Git { id } },
                FileState::File { mode: c, size: d, content: Content::Kept { hash } },
            )
            | (
                FileState::File { mode: c, size: d, content: Content::Kept { hash } },
                FileState::File { mode: a, size: b, content: Content::Git { id } },
            ) => {
                (a, b) == (c, d)
                    && (content_hash(self.root(), id, *b).as_ref() == Some(hash) && objects.has(hash))
            }
            _ => one == other,
        }
    }

    pub(crate) fn to_saved(&self) -> SavedSnapshot {
        SavedSnapshot {
            identity: self.identity.clone(),
            taken_ns: self.taken_ns,
            index: self.index.as_ref().map(|index| index.about.clone()),
            modes: self.modes,
            ignored: self.ignored.iter().cloned().map(SavedPath).collect(),
            files: self
                .files
                .iter()
                .map(|(path, known)| SavedFile { path: path.clone(), known: known.clone() })
                .collect(),
        }
    }
}

/// SHA-256 of the content of a git object, by its id, from the repository of a workspace.
pub(crate) fn content_hash(root: &Path, id: &str, size: u64) -> Option<String> {
    Some(hash_of(&Repository::of(root)?.blob(id, size)?))
}

/// Time in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Form in which the journal keeps a snapshot on disk while a call runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSnapshot {
    identity: Identity,
    taken_ns: u64,
    index: Option<AboutIndex>,
    modes: (u32, u32),
    ignored: Vec<SavedPath>,
    files: Vec<SavedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedFile {
    #[serde(with = "crate::path_text")]
    path: PathBuf,
    known: Known,
}

impl SavedSnapshot {
    pub(crate) fn open(self, objects: &Objects) -> Snapshot {
        Snapshot {
            identity: self.identity,
            taken_ns: self.taken_ns,
            index: self.index.and_then(|about| Index::open(about, objects)).map(Arc::new),
            modes: self.modes,
            ignored: self.ignored.into_iter().map(|SavedPath(path)| path).collect(),
            files: self.files.into_iter().map(|file| (file.path, file.known)).collect(),
            left_out: LeftOut::default(),
        }
    }
}
