use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::service::Resolved;

use crate::WorktreeError;
use crate::beneath::path_from_bytes;
use crate::git::Git;

/// Name of the tool that applies patches.
pub(crate) const APPLY_TOOL: &str = "apply_changes";

/// Maximum size of all contents of a patch, in bytes.
pub(crate) const MAX_PATCH_BYTES: usize = 64 << 20;

/// Content of a file on one side of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_executable: bool,
}

/// Change of one file; `None` for a side without the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileChange {
    /// Path relative to the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) old: Option<Content>,
    pub(crate) new: Option<Content>,
}

/// Changes of one agent in its copy.
#[derive(Debug)]
pub(crate) struct Patch {
    /// Root of the repository that the copy was made of.
    pub(crate) root: PathBuf,
    pub(crate) changes: Vec<FileChange>,
    /// File with the patch, in the format of `git apply`.
    pub(crate) file: PathBuf,
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

impl Patch {
    /// Reads what changed between two trees of `git_dir`.
    pub(crate) async fn read(
        git: &Git,
        git_dir: &Path,
        tree: &Path,
        (old, new): (&str, &str),
    ) -> Result<(Vec<FileChange>, Vec<u8>), WorktreeError> {
        let listed = ["diff-tree", "-r", "-z", "--no-renames", old, new];
        let listed = git.output_on(git_dir, tree, &listed).await?;
        let mut parts = listed.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let (mut changes, mut total) = (Vec::new(), 0_usize);
        while let (Some(facts), Some(path)) = (parts.next(), parts.next()) {
            let facts = String::from_utf8_lossy(facts).into_owned();
            let fields: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old_id, new_id, _] = fields.as_slice() else { continue };
            let path = path_from_bytes(path);
            let mut side = async |mode: &str, id: &str| -> Result<Option<Content>, WorktreeError> {
                let is_executable = match mode {
                    "000000" => return Ok(None),
                    "100644" => false,
                    "100755" => true,
                    mode => {
                        let what = if mode == "160000" { "a repository in it" } else { "a changed link" };
                        let why = format!("it is {what}, which a patch cannot bring back");
                        return Err(WorktreeError::io("take", tree.join(&path), why));
                    }
                };
                let size = git.output_on(git_dir, tree, &["cat-file", "-s", id]).await?;
                let size = String::from_utf8_lossy(&size).trim().parse().unwrap_or(usize::MAX);
                total = total.saturating_add(size);
                if total > MAX_PATCH_BYTES {
                    let why = format!("the changes have more than {MAX_PATCH_BYTES} bytes");
                    return Err(WorktreeError::io("take", tree, why));
                }
                let bytes = git.output_on(git_dir, tree, &["cat-file", "blob", id]).await?;
                Ok(Some(Content { bytes, is_executable }))
            };
            let (old, new) = (side(old_mode, old_id).await?, side(new_mode, new_id).await?);
            changes.push(FileChange { path, old, new });
        }
        let text =
            ["diff-tree", "-p", "--binary", "--no-renames", "--no-ext-diff", "--no-textconv", old, new];
        Ok((changes, git.output_on(git_dir, tree, &text).await?))
    }
}

/// Change of one file of the workspace, with the file's present content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) at: Resolved,
    /// Path relative to the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) now: Option<Content>,
    pub(crate) then: Option<Content>,
}

/// Outcome of comparing a patch with the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Edits that apply without a conflict.
    Edits(Vec<Edit>),
    /// Files that the agent and the workspace changed in the same place.
    Conflict(Vec<PathBuf>),
}

/// Pending patches of a conversation's agents, and the agent that changed each file last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patches(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) waiting: BTreeMap<String, Arc<Patch>>,
    /// Agent whose applied patch changed a file last, by the absolute path of the file.
    pub(crate) writers: BTreeMap<PathBuf, String>,
    /// Plans as last shown to the person, by agent; `None` if the plan failed.
    pub(crate) shown: BTreeMap<String, Option<Plan>>,
}

impl Patches {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find_pending(&self, agent: &str) -> Option<Arc<Patch>> {
        self.lock().waiting.get(agent).cloned()
    }
}

/// Numbers of added and removed lines of a patch's text.
pub(crate) fn count_lines(text: &[u8]) -> (u64, u64) {
    let (mut added, mut removed, mut is_hunk) = (0, 0, false);
    for line in text.split(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            is_hunk = false;
        } else if line.starts_with(b"@@ ") {
            is_hunk = true;
        } else if is_hunk {
            match line.first() {
                Some(b'+') => added += 1,
                Some(b'-') => removed += 1,
                _ => {}
            }
        }
    }
    (added, removed)
}
