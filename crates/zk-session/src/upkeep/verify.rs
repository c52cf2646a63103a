use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use zk_core::model::SessionId;
use zk_core::service::{CustomEntry, EntryKind, StoreError};

use super::removal::{RemovalRecord, is_removal_record};
use crate::SqliteStore;
use crate::sqlite::check::has_broken_log;
use crate::sqlite::db::{BUSY, FORMAT, connect_read_only, has_links};
use crate::sqlite::error::{is_damage, store_error};
use crate::sqlite::files::Files;
use crate::sqlite::meta::{self, CHAIN_FROM, Meta};
use crate::sqlite::open::{damaged_error, not_found};
use crate::sqlite::row::checksum;
use crate::sqlite::row::hash::{Hash, LinkHead, body_hash, hex, link};
use crate::sqlite::{lock, offload};

/// Result of the verification of a session's chain of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Id of the session.
    pub id: SessionId,
    /// Number of entries that are stored.
    pub entries: u64,
    /// First entry of the chain; `None` if an older zk wrote all entries. Earlier entries were written by an older zk,
    /// or restored from a damaged file.
    pub chain_from: Option<u64>,
    /// Hash of the last entry in hexadecimal, which stands for all entries before it. Kept elsewhere, it proves later
    /// that nothing was changed since.
    pub head: Option<String>,
    /// Numbers of the entries whose content was removed by [`SqliteStore::remove_content`], in order.
    pub removed: Vec<u64>,
    /// Faults, in the order of the entries.
    pub faults: Vec<ChainFault>,
}

impl Verification {
    /// Whether no fault was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Fault in a session's log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// An entry is not what was written.
    #[error("entry {entry} was changed: {why}")]
    Changed {
        /// Number of the entry, from 1.
        entry: u64,
        /// Description of the part of the entry that was changed.
        why: &'static str,
    },
    /// Entries are missing.
    #[error("{}", missing_text(*.from, *.to))]
    Missing {
        /// Number of the first missing entry.
        from: u64,
        /// Number of the last missing entry.
        to: u64,
    },
    /// The file cannot be read to its end.
    #[error("the file cannot be read after entry {after}: {why}")]
    Unreadable {
        /// Number of the last entry that could be read.
        after: u64,
        /// Description of the damage.
        why: String,
    },
    /// A count or a chain start that is stored beside the entries does not fit them.
    #[error("{0}")]
    Inconsistent(&'static str),
}

fn missing_text(from: u64, to: u64) -> String {
    if from == to {
        format!("entry {from} is missing")
    } else {
        format!("entries {from} to {to} are missing")
    }
}

impl SqliteStore {
    /// Verifies a session's chain of hashes. Reads everything and changes nothing; another process may have the
    /// session open.
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
    /// let prompt = EntryKind::Message { message: Message::user_text("hello").shared(), usage: None };
    /// session.append(vec![prompt], Durability::Process).await.unwrap();
    /// session.close().await.unwrap();
    /// let found = store.verify(session.id()).await.unwrap();
    /// assert!(found.is_whole() && found.chain_from == Some(1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when there is no such session, a newer zk wrote it, or its file cannot be opened. Damage that is
    /// found while reading is a [`ChainFault`].
    pub async fn verify(&self, id: &SessionId) -> Result<Verification, StoreError> {
        let (root, id) = (self.root().to_path_buf(), id.clone());
        offload(move || verify(&root, &id)).await
    }
}

fn verify(root: &Path, id: &SessionId) -> Result<Verification, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let path = files.db();
    if files.has_lone_log() {
        return Err(damaged_error(id, "its database file is empty beside a write-ahead log", files.log()));
    }
    if !path.exists() {
        let kept = files.kept_last().unwrap_or(path);
        return Err(damaged_error(id, "it could not be read when it was last opened", kept));
    }
    let fail = |error: rusqlite::Error| store_error(&error, "read", &path, id);
    let conn = connect_read_only(&path, BUSY).map_err(fail)?;
    let found: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(fail)?;
    if found > FORMAT {
        return Err(StoreError::TooNew { id: id.clone(), found, known: FORMAT });
    }
    let mut reader = Reader::default();
    let read = read_rows(&conn, &mut reader);
    let beside_a_writer = lock::holder(&files).is_some();
    match read {
        Ok(()) => {}
        Err(error) if is_damage(&error) => {
            let (after, why) = (entry_number(reader.seq), error.to_string());
            reader.faults.push(ChainFault::Unreadable { after, why });
        }
        Err(error) => return Err(fail(error)),
    }
    if !beside_a_writer {
        let acknowledged = lock::acknowledged_entries(&files).unwrap_or_default();
        reader.expect_last(acknowledged);
        if has_broken_log(&path) {
            reader.faults.push(ChainFault::Inconsistent("its write-ahead log was changed"));
        }
    }
    Ok(reader.finish(id))
}

/// Reads all rows in one transaction, so that they are of one moment.
fn read_rows(conn: &Connection, reader: &mut Reader) -> rusqlite::Result<()> {
    let moment = conn.unchecked_transaction()?;
    let meta = Meta::read(conn)?;
    reader.chain_from = meta::read_number(conn, CHAIN_FROM)?;
    let link = if has_links(conn)? { "hash" } else { "NULL" };
    let mut select = conn
        .prepare(&format!("SELECT seq, id, parent, time_ms, kind, sum, {link} FROM entries ORDER BY seq"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        reader.check_row(row)?;
    }
    drop(rows);
    drop(select);
    moment.finish()?;
    reader.expect_last(meta.entries);
    if reader.seq > meta.entries {
        reader.faults.push(ChainFault::Inconsistent("there are more entries than were written"));
    }
    Ok(())
}

/// State of a verification between two rows.
#[derive(Default)]
struct Reader {
    /// Number of the row that was read last.
    seq: i64,
    entries: u64,
    /// First row of the chain, as the table `meta` says.
    chain_from: Option<i64>,
    /// First row that has a link.
    linked_from: Option<i64>,
    /// Link of the row that was read last.
    before: Option<Hash>,
    faults: Vec<ChainFault>,
    /// Rows whose content has another hash than their link says, until the records of removals are known.
    changed: Vec<ChangedRow>,
    records: Vec<RemovalRecord>,
}

/// Row whose link does not fit its content.
struct ChangedRow {
    seq: i64,
    id: String,
    parent: Option<String>,
    time_ms: i64,
    before: Option<Hash>,
    body: Hash,
    link: Hash,
}

impl ChangedRow {
    /// Whether the row fits its link with the content that a record of its removal names.
    fn was_removed(&self, records: &[RemovalRecord]) -> bool {
        let head =
            LinkHead { seq: self.seq, id: &self.id, parent: self.parent.as_deref(), time_ms: self.time_ms };
        let mut removals = records.iter().flat_map(|record| &record.entries);
        removals.any(|removal| {
            removal.entry == self.seq
                && removal.left == hex(&self.body)
                && removal.hash().is_some_and(|body| link(self.before.as_ref(), head, &body) == self.link)
        })
    }
}

impl Reader {
    fn check_row(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let seq: i64 = row.get(0)?;
        if seq != self.seq + 1 {
            self.faults
                .push(ChainFault::Missing { from: entry_number(self.seq + 1), to: entry_number(seq - 1) });
        }
        self.seq = seq;
        self.entries += 1;
        let columns = (row.get_ref(1)?.as_str(), row.get_ref(2)?.as_str_or_null(), row.get_ref(3)?.as_i64());
        let (Ok(id), Ok(parent), Ok(time_ms)) = columns else {
            self.report_change("a column is not of its type");
            return Ok(());
        };
        let Ok(kind) = row.get_ref(4)?.as_str() else {
            self.report_change("its content is no text");
            return Ok(());
        };
        let fits = row.get_ref(5)? == ValueRef::Integer(checksum(seq, id, parent, time_ms, kind));
        if !fits {
            self.report_change("its checksum does not fit");
        }
        let stored = match row.get_ref(6)? {
            ValueRef::Null => None,
            ValueRef::Blob(bytes) => match Hash::try_from(bytes) {
                Ok(hash) => Some(hash),
                Err(_) => {
                    self.report_change("its hash is not of its length");
                    return Ok(());
                }
            },
            _ => {
                self.report_change("its hash is not of its type");
                return Ok(());
            }
        };
        let before = std::mem::replace(&mut self.before, stored);
        let Some(stored) = stored else {
            if self.linked_from.is_some() || self.chain_from.is_some_and(|from| seq >= from) {
                self.report_change("its hash was removed");
            }
            return Ok(());
        };
        if self.linked_from.is_none() {
            self.linked_from = Some(seq);
            if self.chain_from != Some(seq) {
                self.faults.push(ChainFault::Inconsistent("the chain does not begin where it began"));
            }
        }
        let (head, body) = (LinkHead { seq, id, parent, time_ms }, body_hash(kind));
        if link(before.as_ref(), head, &body) == stored {
            self.keep_record(kind);
        } else if fits {
            let (id, parent) = (id.to_owned(), parent.map(str::to_owned));
            self.changed.push(ChangedRow { seq, id, parent, time_ms, before, body, link: stored });
        }
        Ok(())
    }

    fn report_change(&mut self, why: &'static str) {
        self.faults.push(ChainFault::Changed { entry: entry_number(self.seq), why });
    }

    /// Keeps the record of a removal, which the chain covers itself.
    fn keep_record(&mut self, kind: &str) {
        if !is_removal_record(kind) {
            return;
        }
        if let Ok(EntryKind::Custom(CustomEntry { data, .. })) = EntryKind::from_json(kind) {
            self.records.extend(data.read::<RemovalRecord>().ok());
        }
    }

    /// Reports the entries that are missing at the end, if the last one is not `last`.
    fn expect_last(&mut self, last: i64) {
        if self.seq < last {
            self.faults
                .push(ChainFault::Missing { from: entry_number(self.seq + 1), to: entry_number(last) });
            self.seq = last;
        }
    }

    fn finish(mut self, id: &SessionId) -> Verification {
        let mut removed = Vec::new();
        for row in std::mem::take(&mut self.changed) {
            let entry = entry_number(row.seq);
            if row.was_removed(&self.records) {
                removed.push(entry);
            } else {
                let why = "its content, id, parent or time is not what its hash says, or the entry before it is another one";
                self.faults.push(ChainFault::Changed { entry, why });
            }
        }
        if self.linked_from.is_none() && self.chain_from.is_some() && self.faults.is_empty() {
            self.faults.push(ChainFault::Inconsistent("the chain was removed"));
        }
        self.faults.sort_by_key(|fault| match fault {
            ChainFault::Changed { entry, .. } => *entry,
            ChainFault::Missing { from, .. } => *from,
            ChainFault::Unreadable { after, .. } => after.saturating_add(1),
            ChainFault::Inconsistent(_) => u64::MAX,
        });
        Verification {
            id: id.clone(),
            entries: self.entries,
            chain_from: self.linked_from.map(entry_number),
            head: self.before.as_ref().map(hex),
            removed,
            faults: self.faults,
        }
    }
}

fn entry_number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}
