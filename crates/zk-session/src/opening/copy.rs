use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, NewSession, OpenSession, SessionFilter, SessionOutline,
    SessionStore, StoreError, make_private_dir,
};

use super::{OpeningError, SessionNotice, SessionPlace};
use crate::sqlite::offload;

/// Bytes of entries in one append to a copy.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes of entries in one append to a copy that has no place for drafts: nearly every copy is one append then, and
/// whole or not at all.
const WHOLE_COPY_BYTES: usize = 32 << 20;

/// Age after which an incomplete copy counts as abandoned.
const MAX_COPYING_TIME: Duration = Duration::from_hours(24);

/// Copy of a session.
#[derive(Clone, Debug)]
pub struct SessionCopy {
    /// Id of the new session.
    pub id: SessionId,
    /// Notices about unreadable entries.
    pub notices: Vec<String>,
}

/// Entries of one append to a copy, with the ids that they have in the original.
#[derive(Default)]
struct Batch {
    ids: Vec<EntryId>,
    kinds: Vec<EntryKind>,
}

/// Entries that wait to be appended to a copy.
struct Batches {
    batch: Batch,
    bytes: usize,
    /// Bytes at which a batch is full.
    full_bytes: usize,
    /// Full batches that wait for the end of the scan, because the store calls the visitor on a thread of the runtime,
    /// which must not block.
    late: Vec<Batch>,
    /// Names of files with large results, until an entry that refers to them is found.
    names: Vec<String>,
    /// Names of files with large results that copied entries refer to.
    named: HashSet<String>,
    /// Last entry to copy; `None` for all.
    last: Option<EntryId>,
    /// Entries of the branch to copy; `None` for the present one.
    branch: Option<HashSet<EntryId>>,
    /// Whether the entry `last` was added.
    is_complete: bool,
}

impl Batches {
    /// Adds an entry; returns a batch when it is full.
    fn add(&mut self, entry: Entry, bytes: usize) -> Option<Batch> {
        if self.branch.as_ref().is_some_and(|branch| !branch.contains(&entry.id)) {
            return None;
        }
        self.is_complete |= self.last.as_ref() == Some(&entry.id);
        // The copy has one branch, and entries with other ids.
        if matches!(&entry.kind, EntryKind::Leaf { .. } | EntryKind::Label { .. }) {
            return None;
        }
        if !self.names.is_empty()
            && let Ok(json) = serde_json::to_string(&entry.kind)
        {
            self.named.extend(self.names.extract_if(.., |name| json.contains(name.as_str())));
        }
        self.bytes += bytes;
        // An answer with calls and its results stay in one batch.
        let awaits_results =
            matches!(&entry.kind, EntryKind::Message { message, .. } if message.calls().next().is_some());
        self.batch.ids.push(entry.id);
        self.batch.kinds.push(entry.kind);
        (self.bytes >= self.full_bytes && !awaits_results).then(|| self.take_batch())
    }

    fn take_batch(&mut self) -> Batch {
        self.bytes = 0;
        std::mem::take(&mut self.batch)
    }
}

impl SessionPlace {
    /// Copies a session, up to an entry or completely, as a session of the directory `cwd`.
    ///
    /// # Errors
    /// [`OpeningError`]; the incomplete copy is removed then.
    pub async fn copy(
        &self,
        of: &SessionId,
        cwd: PathBuf,
        last: Option<&EntryId>,
    ) -> Result<SessionCopy, OpeningError> {
        let store = self.store()?;
        let outline = outline_of(&*store, of).await?;
        // The copy of a run's last answer has the run's end, too.
        let last = last.map(|last| outline.end_of_run(last));
        let branch = last.as_ref().map(|last| outline.branch_of(last));
        let labels = outline.labels().map(|(id, label)| (id.clone(), label.to_owned())).collect();
        // Copied to a separate folder, where an interrupted copy cannot pass for the whole session.
        let drafts = store.drafts();
        if let Some(drafts) = &drafts {
            remove_abandoned(&**drafts).await;
        }
        let incomplete: &dyn SessionStore = drafts.as_deref().unwrap_or(&*store);
        let copy = incomplete.create(NewSession { id: None, cwd, parent: Some(of.clone()) }).await?;
        let outputs = self.outputs_of(of).zip(self.outputs_of(copy.id()));
        let batches = Batches {
            batch: Batch::default(),
            bytes: 0,
            full_bytes: if drafts.is_some() { BATCH_BYTES } else { WHOLE_COPY_BYTES },
            late: Vec::new(),
            names: outputs.as_ref().map(|(from, _)| output_names(from)).unwrap_or_default(),
            named: HashSet::new(),
            last: last.clone(),
            branch,
            is_complete: last.is_none(),
        };
        let filled = copy_entries(&*store, of, &*copy, batches, labels).await.map_err(OpeningError::Store);
        let filled = filled.and_then(|(batches, notices)| match last {
            Some(last) if !batches.is_complete => Err(OpeningError::NoEntry(last)),
            Some(_) | None => Ok((batches, notices)),
        });
        let (batches, notices) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                let _ = copy.close().await;
                let _ = incomplete.delete(copy.id()).await;
                return Err(error);
            }
        };
        if let Some((from, to)) = outputs {
            let place = from.clone();
            let copied = offload(move || Ok(copy_outputs(&from, &to, &batches.named))).await?;
            if let Err(error) = copied {
                self.notices.send(SessionNotice::OutputsNotCopied { from: place, error });
            }
        }
        copy.close().await?;
        if drafts.is_some() {
            store.publish(copy.id()).await?;
        }
        Ok(SessionCopy { id: copy.id().clone(), notices })
    }
}

/// Outline of all branches of a session.
async fn outline_of(store: &dyn SessionStore, of: &SessionId) -> Result<SessionOutline, StoreError> {
    let outline = Arc::<Mutex<SessionOutline>>::default();
    store.scan_tree(of, SessionOutline::visitor(&outline)).await?;
    let outline = std::mem::take(&mut *outline.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(outline)
}

/// Removes incomplete copies of processes that have ended.
async fn remove_abandoned(incomplete: &dyn SessionStore) {
    let all = SessionFilter { unanswered: true, ..SessionFilter::default() };
    let now = SystemTime::now();
    for info in incomplete.list(&all).await.unwrap_or_default() {
        if now.duration_since(info.updated).is_ok_and(|age| age > MAX_COPYING_TIME) {
            let _ = incomplete.delete(&info.id).await;
        }
    }
}

/// Appends the entries of a session to `copy`, one batch in memory at a time.
async fn copy_entries(
    store: &dyn SessionStore,
    of: &SessionId,
    copy: &dyn OpenSession,
    batches: Batches,
    labels: BTreeMap<EntryId, String>,
) -> Result<(Batches, Vec<String>), StoreError> {
    let (sender, mut full) = mpsc::channel::<Batch>(1);
    let is_branch = batches.branch.is_some();
    let batches = Arc::new(Mutex::new(batches));
    let (filled, sending) = (batches.clone(), sender.clone());
    // A store on disk calls the visitor on its own thread, which may block.
    let visit: EntryVisitor = Box::new(move |entry, bytes| {
        let (full, is_last) = {
            let mut batches = filled.lock().unwrap_or_else(PoisonError::into_inner);
            let full = batches.add(entry, bytes);
            let is_last = batches.last.is_some() && batches.is_complete;
            if Handle::try_current().is_ok() {
                batches.late.extend(full);
                (None, is_last)
            } else {
                (full, is_last)
            }
        };
        let is_taken = full.is_none_or(|full| sending.blocking_send(full).is_ok());
        if is_taken && !is_last { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let scanning = async {
        let scanned = if is_branch { store.scan_tree(of, visit).await } else { store.scan(of, visit).await };
        let rest = {
            let mut batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = batches.take_batch();
            let late = std::mem::take(&mut batches.late);
            late.into_iter().chain([rest])
        };
        for batch in rest {
            // Fails only after a failed append, which is reported.
            let _ = sender.send(batch).await;
        }
        drop(sender);
        scanned
    };
    let appending = async move {
        let mut labelled = Vec::new();
        while let Some(Batch { ids, kinds }) = full.recv().await {
            for (old, target) in ids.iter().zip(copy.append(kinds, Durability::Process).await?) {
                let label = labels.get(old).cloned();
                labelled.extend(label.map(|label| EntryKind::Label { target, label: Some(label) }));
            }
        }
        copy.append(labelled, Durability::Disk).await
    };
    let (scanned, appended) = tokio::join!(scanning, appending);
    appended?;
    let notices = scanned?.notices;
    let gone = || StoreError::Failed("the copy of a session is still being read".to_owned());
    let batches = Arc::into_inner(batches).ok_or_else(gone)?;
    Ok((batches.into_inner().unwrap_or_else(PoisonError::into_inner), notices))
}

/// Names of the files with a session's large results.
fn output_names(dir: &Path) -> Vec<String> {
    let read = [dir.to_owned(), dir.join("blobs")].into_iter().filter_map(|dir| std::fs::read_dir(dir).ok());
    read.flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Links or copies the named files of large results to the directory of the copy, so that their handles and
/// blobs stay valid there after the original session is removed.
fn copy_outputs(from: &Path, to: &Path, named: &HashSet<String>) -> std::io::Result<()> {
    let mut copied = Ok(());
    for (from, to) in [(from.to_owned(), to.to_owned()), (from.join("blobs"), to.join("blobs"))] {
        let entries = match std::fs::read_dir(&from) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if !entry.file_type()?.is_file() || !name.to_str().is_some_and(|name| named.contains(name)) {
                continue;
            }
            make_private_dir(&to)?;
            let (from, to) = (entry.path(), to.join(&name));
            // A log that a running command still writes grows in both places.
            let linked = std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop));
            // A file that the original session has removed since is missing in both.
            if let Err(error) = linked
                && error.kind() != std::io::ErrorKind::NotFound
            {
                copied = Err(error);
            }
        }
    }
    copied
}
