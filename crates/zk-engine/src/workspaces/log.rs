//! Entries of a session about the files of its run.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{CallId, EntryId, SessionId, TurnId};
use zk_core::service::{
    Audience, CustomEntry, Entry, EntryKind, NewEntry, SessionStore, StoreError, WorkspaceRef,
};

/// Source of the entries about the files of a run.
pub const FILES_SOURCE: &str = "workspace";

/// Kind of the entries that name the stored files of a run.
pub const FILES_ENTRY: &str = "files";

/// Version of the data in these entries.
const FILES_VERSION: u32 = 1;

/// Entry of a session that names stored files: all changes of the calls before it are in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFiles {
    /// Reference of the files.
    pub reference: WorkspaceRef,
    /// Id of the directory that has these files, and changes since; `None` at the beginning of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
}

impl StoredFiles {
    /// Creates the entry of a run's first checkpoint, before its first leg.
    #[must_use]
    pub fn at_start(reference: WorkspaceRef) -> Self {
        Self { reference, copy: None }
    }

    pub(crate) fn new_entry(&self) -> NewEntry {
        // A struct of two texts always serialises.
        NewEntry::hidden(FILES_ENTRY, FILES_VERSION, serde_json::to_value(self).unwrap_or_default())
    }

    /// Returns the entry of a session.
    #[must_use]
    pub fn to_entry(&self) -> EntryKind {
        let NewEntry { kind, version, data, audience } = self.new_entry();
        let source = FILES_SOURCE.to_owned();
        EntryKind::Custom(CustomEntry { source, kind, version, data: data.into(), audience })
    }

    fn of(entry: &CustomEntry) -> Option<Self> {
        let is_ours =
            entry.source == FILES_SOURCE && entry.kind == FILES_ENTRY && entry.version == FILES_VERSION;
        is_ours.then(|| entry.data.read().ok()).flatten()
    }
}

/// Entry for the person about files that are not carried or not kept.
pub(super) fn told_entry(text: &str) -> NewEntry {
    let (kind, data) = ("files-told".to_owned(), Value::String(text.to_owned()));
    NewEntry { kind, version: FILES_VERSION, data, audience: Audience::Person }
}

/// Call whose changes are in no stored files.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnkeptCall {
    pub(super) turn: TurnId,
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) args: Value,
    pub(super) summary: Option<String>,
}

/// Files of a run as its session tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FilesLog {
    /// Last stored files.
    pub(super) last: Option<StoredFiles>,
    /// Calls that are not read-only and began after the last stored files.
    pub(super) unkept: Vec<UnkeptCall>,
    /// Entry of the last of these calls.
    pub(super) last_unkept: Option<EntryId>,
}

impl FilesLog {
    /// Reads the whole branch of a session, also what a compaction left out.
    pub(super) async fn read(store: &dyn SessionStore, session: &SessionId) -> Result<Self, StoreError> {
        let log: Arc<Mutex<Self>> = Arc::default();
        let found = log.clone();
        let visit = Box::new(move |entry: Entry, _: usize| {
            found.lock().unwrap_or_else(PoisonError::into_inner).add(entry);
            ControlFlow::Continue(())
        });
        store.scan(session, visit).await?;
        Ok(std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn add(&mut self, entry: Entry) {
        match entry.kind {
            EntryKind::Custom(custom) => {
                if let Some(files) = StoredFiles::of(&custom) {
                    *self = Self { last: Some(files), ..Self::default() };
                }
            }
            EntryKind::CallBegin { turn_id, call_id, name, args, summary } => {
                let call = UnkeptCall { turn: turn_id, call: call_id, tool: name, args, summary };
                self.unkept.push(call);
                self.last_unkept = Some(entry.id);
            }
            EntryKind::Message { .. }
            | EntryKind::Model { .. }
            | EntryKind::Thinking { .. }
            | EntryKind::RunStart { .. }
            | EntryKind::RunEnd { .. }
            | EntryKind::OpenTurn { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. }
            | EntryKind::Leaf { .. }
            | EntryKind::Label { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, kind: EntryKind) -> Entry {
        Entry { id: id.into(), parent: None, time_ms: 0, kind }
    }

    fn begin(call: &str) -> EntryKind {
        EntryKind::CallBegin {
            turn_id: "t_1".into(),
            call_id: call.into(),
            name: "write_file".to_owned(),
            args: serde_json::json!({"path": "a"}),
            summary: None,
        }
    }

    #[test]
    fn stored_files_have_the_changes_of_the_calls_before_them() {
        let files =
            |text| StoredFiles { reference: WorkspaceRef::new(text).unwrap(), copy: Some("c".into()) };
        let mut log = FilesLog::default();
        log.add(entry("1", begin("one")));
        log.add(entry("2", files("files:1").to_entry()));
        assert_eq!(log, FilesLog { last: Some(files("files:1")), ..FilesLog::default() });
        log.add(entry("3", begin("two")));
        log.add(entry("4", begin("three")));
        assert_eq!((log.unkept.len(), log.last_unkept.clone()), (2, Some("4".into())));
        // Another plugin names no files, whatever its entries are called.
        let EntryKind::Custom(ours) = files("files:2").to_entry() else { panic!("no entry of a plugin") };
        log.add(entry("5", EntryKind::Custom(CustomEntry { source: "other".to_owned(), ..ours })));
        assert_eq!((log.last, log.unkept.len()), (Some(files("files:1")), 2));
    }
}
