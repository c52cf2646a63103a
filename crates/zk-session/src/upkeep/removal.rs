use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zk_core::model::{CallId, MessageId, SessionId};
use zk_core::service::{Audience, Clock, CustomEntry, Entry, EntryKind, StoreError};

use super::replaced::{OWN_SOURCE, without_content};
use crate::SqliteStore;
use crate::digest::Digest;
use crate::memory::millis;
use crate::sqlite::db::{Draft, Replacement};
use crate::sqlite::error::{store_error, write_error};
use crate::sqlite::row::hash::{Hash, body_hash, hex};
use crate::sqlite::row::{self, COLUMNS, KIND_COLUMN};
use crate::sqlite::{offload, open};

/// Kind of the entry that records a removal.
const REMOVAL_ENTRY: &str = "removed-content";
const REMOVAL_VERSION: u32 = 1;

/// Result of the removal of an entry's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedContent {
    /// Id of the session.
    pub id: SessionId,
    /// Numbers of the changed entries: the requested one and those that repeat its content.
    pub entries: Vec<u64>,
    /// Notices about the session's files.
    pub notices: Vec<String>,
}

/// Record of a removal, which the chain covers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RemovalRecord {
    pub(super) entries: Vec<Removal>,
}

/// Entry whose content was removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Removal {
    /// Number of the entry.
    pub(super) entry: i64,
    /// Hash of the removed content in hexadecimal.
    removed: String,
    /// Hash, in hexadecimal, of the content that took its place.
    pub(super) left: String,
}

impl Removal {
    /// Hash of the removed content.
    pub(super) fn hash(&self) -> Option<Hash> {
        let mut hash = Hash::default();
        if self.removed.len() != hash.len() * 2 {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(self.removed.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(hash)
    }
}

/// Whether the JSON of an entry may be a [`RemovalRecord`], without parsing it.
pub(super) fn is_removal_record(kind: &str) -> bool {
    kind.starts_with(r#"{"entry":"custom","source":"zk","#) && kind.contains(REMOVAL_ENTRY)
}

impl SqliteStore {
    /// Replaces the content of an entry by `[removed]`, also where the open turn repeats it. The entry's hash stays, so
    /// that [`Self::verify`] tells a removal from a change; a call and its result stay a pair. Large results in files
    /// beside the session stay.
    ///
    /// `entry` is the entry's number, from 1, or its id.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let root = dir.path().to_path_buf();
    /// use zk_core::model::Message;
    /// use zk_core::service::{Durability, EntryKind, NewSession, SessionStore};
    /// use zk_session::SqliteStore;
    ///
    /// let store = SqliteStore::new(root);
    /// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
    /// let prompt = EntryKind::Message { message: Message::user_text("a name").shared(), usage: None };
    /// session.append(vec![prompt], Durability::Process).await.unwrap();
    /// session.close().await.unwrap();
    /// assert_eq!(store.remove_content(session.id(), "1").await.unwrap().entries, [1]);
    /// let found = store.verify(session.id()).await.unwrap();
    /// assert!(found.is_whole() && found.removed == [1]);
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`StoreError`]: the session is open in another process, there is no such entry, or it has no content that may
    /// be removed.
    pub async fn remove_content(&self, id: &SessionId, entry: &str) -> Result<RemovedContent, StoreError> {
        let (root, id, entry) = (self.root().to_path_buf(), id.clone(), entry.trim().to_owned());
        let clock = self.clock().clone();
        offload(move || remove(&root, &id, &entry, &*clock)).await
    }
}

fn remove(
    root: &Path,
    id: &SessionId,
    wanted: &str,
    clock: &dyn Clock,
) -> Result<RemovedContent, StoreError> {
    let refuse = |why: String| StoreError::Refused(format!("entry {wanted} of session `{id}` {why}"));
    let mut opened = open::open(root, id, u64::MAX)?;
    let path = opened.files.db();
    let fail = |error: rusqlite::Error| store_error(&error, "change", &path, id);
    if !opened.db.has_tables() {
        return Err(refuse("does not exist: the session is empty".to_owned()));
    }
    let rows = read_rows(opened.db.connection()).map_err(fail)?;
    let Some(at) =
        rows.iter().position(|row| row.seq.to_string() == wanted || row.entry.id.as_str() == wanted)
    else {
        let last = rows.last().map_or(0, |row| row.seq);
        return Err(refuse(format!("does not exist: its entries are numbered 1 to {last}")));
    };
    let Some(target) = rows.get(at) else { return Err(refuse("does not exist".to_owned())) };
    match without_content(&target.entry.kind) {
        Some(left) if left == target.entry.kind => {
            return Err(refuse("has no content any more: it was removed before".to_owned()));
        }
        Some(_) => {}
        None => return Err(refuse("has no content to remove, only a fact that zk needs".to_owned())),
    }
    let mut replacements = Vec::new();
    let mut record = RemovalRecord::default();
    for row in rows_with_content_of(&rows, at) {
        let Some(left) = without_content(&row.entry.kind).filter(|left| *left != row.entry.kind) else {
            continue;
        };
        let json = serde_json::to_string(&left)
            .map_err(|error| refuse(format!("cannot be written without its content: {error}")))?;
        let removed = hex(&row.body);
        record.entries.push(Removal { entry: row.seq, removed, left: hex(&body_hash(&json)) });
        replacements.push(Replacement { seq: row.seq, json });
    }
    let changed: BTreeSet<i64> = record.entries.iter().map(|removal| removal.entry).collect();
    let mut digest = Digest::default();
    for row in &rows {
        let left = changed.contains(&row.seq).then(|| without_content(&row.entry.kind)).flatten();
        digest.add(left.as_ref().unwrap_or(&row.entry.kind));
    }
    let data = json!({ "entries": record.entries });
    let record = Draft::new(EntryKind::Custom(CustomEntry {
        source: OWN_SOURCE.to_owned(),
        kind: REMOVAL_ENTRY.to_owned(),
        version: REMOVAL_VERSION,
        data: data.into(),
        audience: Audience::Hidden,
    }));
    let record = record.map_err(|error| refuse(format!("cannot be recorded: {error}")))?;
    opened
        .db
        .replace_bodies(&replacements, digest, record, millis(clock.now()))
        .map_err(|error| write_error(error, &path, id))?;
    opened.lock.record_entries(opened.db.entries());
    let entries = changed.into_iter().filter_map(|seq| u64::try_from(seq).ok()).collect();
    Ok(RemovedContent { id: id.clone(), entries, notices: std::mem::take(&mut opened.notices) })
}

/// Readable row with the hash of its content.
struct StoredRow {
    seq: i64,
    entry: Entry,
    body: Hash,
}

fn read_rows(conn: &Connection) -> rusqlite::Result<Vec<StoredRow>> {
    let mut rows = Vec::new();
    let mut select = conn.prepare(&format!("SELECT {COLUMNS} FROM entries ORDER BY seq"))?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        if let (seq, Ok(entry)) = row::read(row)? {
            let body = body_hash(row.get_ref(KIND_COLUMN)?.as_str().unwrap_or_default());
            rows.push(StoredRow { seq, entry, body });
        }
    }
    Ok(rows)
}

/// Message and calls that an entry is about, by which its copies are recognised.
#[derive(Default)]
struct Subject<'a> {
    message: Option<&'a MessageId>,
    /// Calls whose arguments the entry contains.
    calls: Vec<&'a CallId>,
    /// Calls whose results the entry contains.
    results: Vec<&'a CallId>,
    /// Whether the entry is a message of the conversation.
    is_message: bool,
}

impl<'a> Subject<'a> {
    fn of(kind: &'a EntryKind) -> Self {
        match kind {
            EntryKind::Message { message, .. } | EntryKind::OpenTurn { message, .. } => Self {
                message: message.id.as_ref(),
                calls: message.calls().map(|call| &call.id).collect(),
                results: message.results().map(|result| &result.call_id).collect(),
                is_message: matches!(kind, EntryKind::Message { .. }),
            },
            EntryKind::CallBegin { call_id, .. } => Self { calls: vec![call_id], ..Self::default() },
            EntryKind::CallEnd { call_id, .. } | EntryKind::CallData { call_id, .. } => {
                Self { results: vec![call_id], ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// Whether `other` repeats this entry's content. The record of a call's result counts as a repetition of its
    /// arguments too.
    fn is_repeated_by(&self, other: &Self) -> bool {
        let share = |some: &[&CallId], others: &[&CallId]| some.iter().any(|id| others.contains(id));
        let is_same = self.message.is_some() && self.message == other.message;
        let repeats_call =
            share(&self.calls, &other.calls) || (!other.is_message && share(&self.calls, &other.results));
        is_same || repeats_call || share(&self.results, &other.results)
    }
}

/// The row at `at` and the rows of its turn that repeat its content. Call ids may be used again in other turns, so only
/// rows between the message before the turn and the one after it are searched.
fn rows_with_content_of(rows: &[StoredRow], at: usize) -> Vec<&StoredRow> {
    let Some(target) = rows.get(at) else { return Vec::new() };
    let subject = Subject::of(&target.entry.kind);
    let is_message = |row: &&StoredRow| matches!(row.entry.kind, EntryKind::Message { .. });
    // A turn has up to two messages: the answer with its calls, and their results.
    let begin = rows.iter().take(at).enumerate().rev().filter(|(_, row)| is_message(row)).nth(1);
    let begin = begin.map_or(0, |(begin, _)| begin);
    let end = rows.iter().enumerate().skip(at + 1).filter(|(_, row)| is_message(row)).nth(1);
    let end = end.map_or(rows.len(), |(end, _)| end + 1);
    let near = rows.iter().take(end).skip(begin);
    near.filter(|row| row.seq == target.seq || subject.is_repeated_by(&Subject::of(&row.entry.kind)))
        .collect()
}
