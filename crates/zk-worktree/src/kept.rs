//! Patches that wait for a review beyond the life of a process: a file with their contents, and an entry in the session.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::{CustomEntry, Entry, EntryKind, NewEntry, SessionLog, StateFiles, Ui, visible_line};

use crate::WorktreeError;
use crate::beneath::path_from_bytes;
use crate::blocking::blocking;
use crate::patch::{Content, FileChange, MAX_PATCH_BYTES, Patch, Patches};
use crate::sweep::{PATCHES, sweep_ended};

/// Kind of the entries in a session about patches.
const KIND: &str = "patch";
/// Version of the data in these entries, and of the files that they name.
const VERSION: u32 = 1;
/// Extension of the files with the contents of patches.
const EXTENSION: &str = "changes";
/// Maximum size of the description before the contents, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// Session entry about the patch of a sub-agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
enum Step {
    /// The patch waits for a review; the file lies in the directory of patches.
    Waits { agent: String, file: String },
    /// The patch was applied or discarded.
    Settled { agent: String },
}

/// Description of a patch in its file, before the bytes of the paths and contents.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// Length of the path of the repository's root.
    root: usize,
    added: u64,
    removed: u64,
    changes: Vec<ChangeHeader>,
}

/// Lengths of one change's path and contents.
#[derive(Debug, Serialize, Deserialize)]
struct ChangeHeader {
    path: usize,
    old: Option<SideHeader>,
    new: Option<SideHeader>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SideHeader {
    bytes: usize,
    is_executable: bool,
}

/// Keeper of the patches of a conversation.
pub(crate) struct Keeper {
    /// Directory of state, which holds the directory of patches.
    pub(crate) root: PathBuf,
    pub(crate) files: Arc<dyn StateFiles>,
    pub(crate) patches: Patches,
    /// Scope of the plugin, while it is installed.
    pub(crate) scope: Mutex<Option<Scope>>,
}

impl Keeper {
    fn scope(&self) -> Option<Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a patch of a conversation that is stored, so that a later process finds it. Patches of copies of copies
    /// end with the copy that they are for.
    pub(crate) async fn keep(&self, agent: &str, patch: &Patch, cx: &Cx) -> Result<(), WorktreeError> {
        let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), self.scope()) else { return Ok(()) };
        if cx.origin().depth > 0 {
            return Ok(());
        }
        let path = patch.file.with_extension(EXTENSION);
        let failed = |why: String| WorktreeError::io("keep", &path, why);
        let bytes = encode(patch).map_err(|error| failed(error.to_string()))?;
        let (files, to) = (self.files.clone(), path.clone());
        let written = blocking(move || files.replace(&to, &bytes)).await?;
        written.map_err(|error| failed(error.to_string()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stored = append(&*log, &scope, Step::Waits { agent: agent.to_owned(), file }).await;
        stored.map_err(failed)
    }

    /// Removes the files of a patch that was applied or discarded.
    pub(crate) async fn settle(&self, agent: &str, patch: &Patch, cx: &Cx) {
        self.patches.lock().waiting.remove(agent);
        let files = [patch.file.clone(), patch.file.with_extension(EXTENSION)];
        let _ = blocking(move || files.iter().for_each(|file| drop(std::fs::remove_file(file)))).await;
        if let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), self.scope()) {
            // Without the entry, a later process finds no file, and forgets the patch.
            let _ = append(&*log, &scope, Step::Settled { agent: agent.to_owned() }).await;
        }
    }

    /// Finds the patches that wait according to the entries of a session, and tells the person of those that this
    /// process did not know.
    pub(crate) async fn restore(&self, entries: &[Entry], cx: &Cx) {
        let Some(source) = self.scope().map(|scope| scope.source().to_string()) else { return };
        let own = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Custom(own) if own.source == source => Some(own),
            _ => None,
        });
        self.restore_waiting(waiting_in(own), cx).await;
    }

    /// Finds the patches of a session before its first run. Nothing is read from the session while no patch is kept.
    pub(crate) async fn restore_from_log(&self, cx: &Cx) {
        let dir = self.root.join(PATCHES);
        let has_kept = blocking(move || {
            let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
            names.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|name| name == EXTENSION))
        });
        if !has_kept.await.unwrap_or(false) {
            return;
        }
        if let (Some(log), Some(scope)) = (cx.service::<dyn SessionLog>(), self.scope())
            && let Ok(entries) = log.entries(&scope).await
        {
            self.restore_waiting(waiting_in(entries.iter()), cx).await;
        }
    }

    async fn restore_waiting(&self, mut waiting: BTreeMap<String, String>, cx: &Cx) {
        {
            let state = self.patches.lock();
            waiting.retain(|agent, _| !state.waiting.contains_key(agent));
        }
        if waiting.is_empty() {
            return;
        }
        let (root, files) = (self.root.clone(), self.files.clone());
        let read = blocking(move || {
            // Copies of the processes that made these patches may be left.
            sweep_ended(&root, &*files);
            let dir = root.join(PATCHES);
            let patch =
                |(agent, name): (String, String)| Some((agent, Arc::new(read_patch(&dir, &name, &*files)?)));
            waiting.into_iter().filter_map(patch).collect::<Vec<_>>()
        });
        let Ok(found) = read.await else { return };
        let ui = cx.service::<dyn Ui>();
        for (agent, patch) in found {
            if let Some(ui) = &ui {
                ui.notify(&visible_line(&format!(
                    "{} wait for a review: /changes shows them, and applies or discards them",
                    describe(&agent, &patch)
                )));
            }
            self.patches.lock().waiting.entry(agent).or_insert(patch);
        }
    }

    /// Clears the state of a conversation that was left. The files of its patches stay for its next start.
    pub(crate) fn forget(&self) {
        let mut state = self.patches.lock();
        (state.waiting, state.writers, state.shown) = Default::default();
    }
}

/// Description of a patch for the person: agent, lines and files.
pub(crate) fn describe(agent: &str, patch: &Patch) -> String {
    let files = match patch.changes.as_slice() {
        [one] => one.path.display().to_string(),
        all => format!("{} files", all.len()),
    };
    format!("changes of {agent} (+{} -{} in {files})", patch.added, patch.removed)
}

async fn append(log: &dyn SessionLog, scope: &Scope, step: Step) -> Result<(), String> {
    let data = serde_json::to_value(step).map_err(|error| error.to_string())?;
    let stored = log.append(scope, NewEntry::hidden(KIND, VERSION, data)).await;
    stored.map(drop).map_err(|error| error.to_string())
}

/// Names of the files of patches that wait, by agent.
fn waiting_in<'a>(entries: impl Iterator<Item = &'a CustomEntry>) -> BTreeMap<String, String> {
    let mut waiting = BTreeMap::new();
    for entry in entries.filter(|entry| entry.kind == KIND && entry.version == VERSION) {
        match entry.data.read::<Step>() {
            Ok(Step::Waits { agent, file }) => drop(waiting.insert(agent, file)),
            Ok(Step::Settled { agent }) => drop(waiting.remove(&agent)),
            Err(_) => {}
        }
    }
    waiting
}

/// Reads a kept patch; `None` if it was settled elsewhere, or its repository is gone.
fn read_patch(dir: &Path, name: &str, files: &dyn StateFiles) -> Option<Patch> {
    // A session may come from elsewhere, so that its names are not trusted.
    let is_name = Path::new(name).file_name().is_some_and(|only| only == name);
    let path = dir.join(name);
    let bytes =
        files.read(&path, MAX_HEADER_BYTES + 2 * MAX_PATCH_BYTES).ok().flatten().filter(|_| is_name)?;
    let patch = decode(&bytes, path.with_extension("patch"))?;
    patch.root.is_dir().then_some(patch)
}

fn encode(patch: &Patch) -> serde_json::Result<Vec<u8>> {
    let side = |side: &Option<Content>| {
        side.as_ref().map(|side| SideHeader { bytes: side.bytes.len(), is_executable: side.is_executable })
    };
    let change = |change: &FileChange| ChangeHeader {
        path: change.path.as_os_str().len(),
        old: side(&change.old),
        new: side(&change.new),
    };
    let header = Header {
        version: VERSION,
        root: patch.root.as_os_str().len(),
        added: patch.added,
        removed: patch.removed,
        changes: patch.changes.iter().map(change).collect(),
    };
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    bytes.extend(patch.root.as_os_str().as_bytes());
    for FileChange { path, old, new } in &patch.changes {
        bytes.extend(path.as_os_str().as_bytes());
        [old, new].into_iter().flatten().for_each(|side| bytes.extend(&side.bytes));
    }
    Ok(bytes)
}

/// Deserialises a kept patch; `None` if its bytes are damaged.
fn decode(bytes: &[u8], file: PathBuf) -> Option<Patch> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (header, mut rest) = bytes.split_at_checked(end)?;
    let header: Header =
        serde_json::from_slice(header).ok().filter(|header: &Header| header.version == VERSION)?;
    rest = rest.get(1..)?;
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at_checked(length)?;
        rest = left;
        Some(taken)
    };
    let root = path_from_bytes(take(header.root)?);
    let mut changes = Vec::new();
    for ChangeHeader { path, old, new } in header.changes {
        let path = path_from_bytes(take(path)?);
        let mut side = |side: Option<SideHeader>| match side {
            None => Some(None),
            Some(SideHeader { bytes, is_executable }) => {
                Some(Some(Content { bytes: take(bytes)?.to_vec(), is_executable }))
            }
        };
        let (old, new) = (side(old)?, side(new)?);
        changes.push(FileChange { path, old, new });
    }
    rest.is_empty().then_some(Patch { root, changes, file, added: header.added, removed: header.removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_patch_is_read_as_it_was_and_a_damaged_one_is_not_read() {
        let content = |bytes: &[u8]| Some(Content { bytes: bytes.to_vec(), is_executable: bytes.len() > 2 });
        let patch = Patch {
            root: path_from_bytes(b"/a\xff"),
            changes: vec![
                FileChange { path: path_from_bytes(b"b\nc\xfe"), old: None, new: content(b"\0\n\xff") },
                FileChange { path: "d".into(), old: content(b"x"), new: content(b"") },
                FileChange { path: "e".into(), old: content(b"long\n"), new: None },
            ],
            file: "1.patch".into(),
            added: 3,
            removed: 4,
        };
        let bytes = encode(&patch).unwrap();
        let read = decode(&bytes, "1.patch".into()).unwrap();
        assert_eq!((&read.root, &read.changes), (&patch.root, &patch.changes));
        assert_eq!((read.added, read.removed), (3, 4));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], PathBuf::new()).is_none(), "{end}");
        }
        assert!(decode(&[&*bytes, b"x"].concat(), PathBuf::new()).is_none());
    }
}
