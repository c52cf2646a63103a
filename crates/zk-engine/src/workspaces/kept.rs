//! Private directories of a worker with the files of runs.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use zk_core::kernel::Bus;
use zk_core::model::{Effect, Effects, RunId, SessionId};
use zk_core::service::{
    CallPlace, Checkpoint, CheckpointOf, Durability, Job, Mail, MailKind, OpenSession, SessionStore,
    StateFileError, StateFiles, StateLock, StoreError, Tool, WorkspaceError, WorkspaceRef, Workspaces,
    make_private_dir, visible_line,
};

use super::FILES_SOURCE;
use super::keeper::KeepFiles;
use super::log::{FilesLog, StoredFiles, UnkeptCall};
use crate::leg_session::error::LegSessionError;

/// Name of the directory with the files, in the directory of a run.
pub(super) const TREE: &str = "tree";

/// File that names the copy in the directory of a run.
const COPY: &str = "copy";

/// Maximum size of that file in bytes.
const MAX_COPY_BYTES: usize = 1024;

/// Maximum number of lost changes that a message to a model lists.
const MAX_TOLD: usize = 50;

/// Store of workspaces, with the directories of this worker for the files of runs.
#[derive(Clone)]
pub struct KeptWorkspaces {
    pub(super) store: Arc<dyn Workspaces>,
    pub(super) root: PathBuf,
    pub(super) files: Arc<dyn StateFiles>,
}

impl fmt::Debug for KeptWorkspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptWorkspaces").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Files of a run in a private directory of this worker, for the time of a leg.
pub struct LegFiles {
    place: Arc<FilesPlace>,
    log: FilesLog,
    /// Whether the directory has all changes that the log tells of.
    is_continued: bool,
    keeper: OnceLock<KeepFiles>,
    is_over: AtomicBool,
    _lock: Mutex<StateLock>,
}

/// Place of the files of a run.
pub(super) struct FilesPlace {
    store: Arc<dyn Workspaces>,
    pub(super) directory: PathBuf,
    /// Id of the directory among those that have had the files.
    pub(super) copy: String,
    /// Reference that the leg begins with.
    pub(super) reference: WorkspaceRef,
}

impl FilesPlace {
    pub(super) async fn checkpoint(&self, of: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
        self.store.checkpoint(&self.directory, of).await
    }
}

impl fmt::Debug for LegFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegFiles").field("reference", &self.place.reference).finish_non_exhaustive()
    }
}

impl KeptWorkspaces {
    /// Creates the directories of runs below `root`, a private directory of this machine.
    pub fn new(store: Arc<dyn Workspaces>, root: impl Into<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self { store, root: root.into(), files }
    }

    /// Stores the files of a person's directory, for a run that begins with them.
    ///
    /// # Errors
    /// [`WorkspaceError`].
    pub async fn submit(&self, directory: &Path, run: &RunId) -> Result<Checkpoint, WorkspaceError> {
        let of = CheckpointOf { run: run.clone(), moment: "start".to_owned(), base: None };
        self.store.checkpoint(directory, &of).await
    }

    /// Brings the last stored files of a session into a directory, and returns their reference; `None` if the session has
    /// none.
    ///
    /// # Errors
    /// [`LegSessionError`].
    pub async fn take(
        &self,
        sessions: &dyn SessionStore,
        session: &SessionId,
        directory: &Path,
    ) -> Result<Option<WorkspaceRef>, LegSessionError> {
        let Some(StoredFiles { reference, .. }) = FilesLog::read(sessions, session).await?.last else {
            return Ok(None);
        };
        self.store.materialise(&reference, directory).await?;
        self.store.forget(directory).await;
        Ok(Some(reference))
    }

    /// Brings the files of a job into its directory on this worker. A directory that has the changes of the last leg, also
    /// those that are not stored, stays as it is.
    ///
    /// # Errors
    /// [`LegSessionError`], with which the leg ends.
    pub async fn open(&self, sessions: &dyn SessionStore, job: &Job) -> Result<LegFiles, LegSessionError> {
        let log = FilesLog::read(sessions, job.session()).await?;
        let Some(last) = log.last.clone() else { return Err(LegSessionError::NoFiles) };
        let (home, files) = (self.root.join(job.run().as_str()), self.files.clone());
        let lock_at = self.root.join(format!("{}.lock", job.run()));
        let (directory, note) = (home.join(TREE), home.join(COPY));
        let (lock, known) = blocking({
            let (home, note) = (home.clone(), note.clone());
            move || {
                make_private_dir(&home).map_err(|error| WorkspaceError::io("make", &home, error))?;
                let lock = files.try_lock(&lock_at).map_err(|error| in_state(&lock_at, &error))?;
                let lock = lock.ok_or_else(|| {
                    WorkspaceError::io("use", &home, "another leg of this machine works in it")
                })?;
                let known = files.read(&note, MAX_COPY_BYTES).map_err(|error| in_state(&note, &error))?;
                Ok((lock, known))
            }
        })
        .await?;
        let known = known.and_then(|known| String::from_utf8(known).ok()).unwrap_or_default();
        let boot = boot_id();
        // After a restart of the machine, changes of files may be lost that the log has.
        let ours =
            known.split_once(' ').filter(|(_, of_boot)| *of_boot == boot).map(|(copy, _)| copy.to_owned());
        let is_continued = last.copy.is_some() && ours == last.copy && directory.is_dir();
        let copy = match ours.filter(|_| is_continued) {
            Some(copy) => copy,
            None => {
                // The directory is no known copy until it has the files.
                let at = note.clone();
                blocking(move || match std::fs::remove_file(&at) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(WorkspaceError::io("remove", &at, error))
                    }
                    Ok(()) | Err(_) => Ok(()),
                })
                .await?;
                self.store.materialise(&last.reference, &directory).await?;
                let copy = RunId::fresh().to_string();
                let (files, text) = (self.files.clone(), format!("{copy} {boot}"));
                blocking(move || {
                    files.replace(&note, text.as_bytes()).map_err(|error| in_state(&note, &error))
                })
                .await?;
                copy
            }
        };
        let (store, reference) = (self.store.clone(), last.reference);
        Ok(LegFiles {
            place: Arc::new(FilesPlace { store, directory, copy, reference }),
            log,
            is_continued,
            keeper: OnceLock::new(),
            is_over: AtomicBool::new(false),
            _lock: Mutex::new(lock),
        })
    }
}

impl LegFiles {
    /// Returns the directory with the files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.place.directory
    }

    /// Begins the leg: notes in the session that this copy has the files, leaves the model a message about changes that are
    /// lost, and installs the plugin that stores files.
    ///
    /// # Errors
    /// [`LegSessionError`], also when another worker stored other files meanwhile.
    pub async fn begin(
        &self,
        sessions: &dyn SessionStore,
        session: &dyn OpenSession,
        job: &Job,
        bus: &Bus,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), LegSessionError> {
        // The lease holds from here on: what another worker stored before it is read once more.
        let now = FilesLog::read(sessions, job.session()).await?;
        if now != self.log {
            return Err(StoreError::Fenced { id: job.session().clone() }.into());
        }
        if !self.is_continued {
            if let Some(text) = lost_text(&now.unkept, bus, self.directory(), job.run()) {
                log(&format!("{}: {} calls have changes that are lost", job.run(), now.unkept.len()));
                let last = now.last_unkept.map(|entry| entry.to_string()).unwrap_or_default();
                let kind = MailKind::Notice { source: FILES_SOURCE.to_owned(), text };
                match sessions
                    .post_mail(job.session(), &Mail { id: format!("lost:{last}").into(), kind })
                    .await
                {
                    Ok(()) | Err(StoreError::PostedBefore { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let files = {
                let FilesPlace { reference, copy, .. } = &*self.place;
                StoredFiles { reference: reference.clone(), copy: Some(copy.clone()) }
            };
            session.append(vec![files.to_entry()], Durability::Disk).await?;
        }
        let is_changed = self.is_continued && !now.unkept.is_empty();
        let keeper = KeepFiles::new(self.place.clone(), job.run().clone(), is_changed, log);
        let installed = bus.install(&keeper);
        installed.map_err(|error| StoreError::Failed(error.to_string()))?;
        let _ = self.keeper.set(keeper);
        Ok(())
    }

    /// Notes that the run has no further leg.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Removes the directory of a run that is over and whose files are stored. Returns a line for the worker's log about files
    /// that stay because they are not stored.
    pub async fn close(&self) -> Option<String> {
        if !self.is_over.load(Ordering::Acquire) {
            return None;
        }
        if self.keeper.get().is_some_and(|keeper| !keeper.is_kept()) {
            return Some(format!("its files are not stored, and stay in {}", self.directory().display()));
        }
        self.place.store.forget(self.directory()).await;
        if let Some(home) = self.directory().parent().map(Path::to_owned) {
            // A directory that stays costs room alone.
            let _ = tokio::task::spawn_blocking(move || {
                let _ = std::fs::remove_file(home.with_extension("lock"));
                std::fs::remove_dir_all(home)
            })
            .await;
        }
        None
    }
}

/// Message to the model about changes that are lost; `None` if there are none.
fn lost_text(unkept: &[UnkeptCall], bus: &Bus, directory: &Path, run: &RunId) -> Option<String> {
    let (mut paths, mut others) = (BTreeSet::new(), BTreeSet::new());
    for call in unkept {
        let place = CallPlace { cx: bus.cx(), cwd: directory.to_owned() };
        let effects = match bus.item::<dyn Tool>(&call.tool) {
            Some(tool) => tool.effects(&call.args, &place),
            None => Effects::Unknown,
        };
        match written_paths(&effects) {
            Some(written) => {
                paths.extend(written.iter().map(|path| below_tree(path, directory, run)));
            }
            None => {
                let summary = call.summary.as_deref().unwrap_or(&call.tool);
                _ = others.insert(visible_line(summary));
            }
        }
    }
    if paths.is_empty() && others.is_empty() {
        return None;
    }
    let mut text = "The worker that had this run is gone, and changes of files that were not stored yet went with it. The files \
                    are those of the last checkpoint, before these calls; what their results say about files does not hold any more. \
                    Read files again before you rely on them, and make the changes again that are still wanted."
        .to_owned();
    let mut add = |title: &str, all: &BTreeSet<String>| {
        if all.is_empty() {
            return;
        }
        let named: Vec<&str> = all.iter().take(MAX_TOLD).map(String::as_str).collect();
        let more = match all.len().saturating_sub(MAX_TOLD) {
            0 => String::new(),
            more => format!("\n- and {more} more"),
        };
        text.push_str(&format!("\n{title}\n- {}{more}", named.join("\n- ")));
    };
    add("Edits of these files are gone:", &paths);
    add("Whatever these calls changed in files is gone:", &others);
    Some(text)
}

/// Paths that a call writes, if its effects name all of them. A call that only reads has none.
fn written_paths(effects: &Effects) -> Option<Vec<PathBuf>> {
    let Effects::Known { list } = effects else { return None };
    let mut paths = Vec::new();
    for effect in list {
        match effect {
            Effect::Writes { paths: written } if !written.is_empty() => paths.extend(written.iter().cloned()),
            Effect::Writes { .. } | Effect::Executes { .. } | Effect::LeavesContext { .. } => return None,
            Effect::Reads { .. } | Effect::Network { .. } => {}
        }
    }
    Some(paths)
}

/// Path relative to the directory of the run, also of a path that named it on another worker.
fn below_tree(path: &Path, directory: &Path, run: &RunId) -> String {
    let text = path.strip_prefix(directory).unwrap_or(path).to_string_lossy().into_owned();
    let elsewhere = format!("/{run}/{TREE}/");
    let below = text.split_once(&elsewhere).map_or(&*text, |(_, below)| below);
    visible_line(below)
}

/// Id of the machine's present start; empty where the system has none.
fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    read.map(|text| text.trim().to_owned()).unwrap_or_default()
}

pub(super) fn in_state(path: &Path, error: &StateFileError) -> WorkspaceError {
    WorkspaceError::io("use", path, error)
}

/// Runs a task that waits for the file system on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    let done = tokio::task::spawn_blocking(task).await;
    done.map_err(|error| WorkspaceError::io("finish", "the task of a workspace", error))?
}

#[cfg(test)]
mod tests {
    use zk_core::kernel::Bus;

    use super::*;

    #[test]
    fn lost_changes_are_named_by_path_or_by_what_was_run() {
        let run = RunId::from("r_1");
        let here = Path::new("/here/runs/r_1/tree");
        assert_eq!(below_tree(Path::new("src/a.rs"), here, &run), "src/a.rs");
        assert_eq!(below_tree(Path::new("/here/runs/r_1/tree/a"), here, &run), "a");
        assert_eq!(below_tree(Path::new("/elsewhere/runs/r_1/tree/b/c"), here, &run), "b/c");
        assert_eq!(written_paths(&Effects::reads(["a"])), Some(Vec::new()));
        assert_eq!(written_paths(&Effects::Unknown), None);
        let call = |summary: &str| UnkeptCall {
            turn: "t_1".into(),
            call: "c_1".into(),
            tool: "gone".to_owned(),
            args: serde_json::Value::Null,
            summary: Some(summary.to_owned()),
        };
        let bus = Bus::new();
        let text =
            lost_text(&[call("make \u{1b}[31mall"), call("make \u{1b}[31mall")], &bus, here, &run).unwrap();
        assert!(!text.contains('\u{1b}') && text.matches("- make").count() == 1, "{text}");
        assert_eq!(lost_text(&[], &bus, here, &run), None);
    }
}
