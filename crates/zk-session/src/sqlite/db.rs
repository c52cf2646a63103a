mod connect;
mod mailbox;

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Statement, Transaction, TransactionBehavior, params};
use zk_core::model::{EntryId, MailId};
use zk_core::service::{CompactionMark, Durability, Entry, EntryKind};

pub(crate) use self::connect::{connect, connect_briefly, connect_read_only};
pub(super) use self::mailbox::{post as post_mail, read as read_mail};
use super::error::WriteError;
use super::meta::{self, Meta};
use super::row::checksum;
use super::row::hash::{Hash, LinkHead, body_hash, link};
use super::tree;
use crate::digest::Digest;
use crate::index::Index;

/// Newest file format that this program reads and writes, stored in SQLite's `user_version`. Format 1 had no
/// open turns, format 2 no branches, no labels and no chain of hashes; both are read unchanged, and the next append
/// raises them.
pub(crate) const FORMAT: u32 = 3;

/// Time-out for a file that another process is reading.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Size of the write-ahead log, in pages of 4 KiB, at which a checkpoint moves it into the database.
const CHECKPOINT_PAGES: u32 = 1000;
/// Size in bytes to which the log's file is truncated after a checkpoint.
const MAX_LOG_BYTES: u32 = 8 << 20;
/// Size of the page cache in KiB. Appends only touch the last pages, and the default would keep 2 MB of
/// written pages in memory.
const PAGE_CACHE_KIB: u32 = 256;

/// Sets the file up for appending and returns the journal mode in effect: a write-ahead log needs shared
/// memory, which some file systems lack.
pub(super) fn prepare(conn: &Connection, fresh: bool) -> rusqlite::Result<String> {
    // An empty file needs no syncs while its mode changes; they would be four.
    conn.execute_batch(if fresh { "PRAGMA synchronous=OFF;" } else { "PRAGMA synchronous=NORMAL;" })?;
    let mut mode = set_journal(conn, "WAL")?;
    if mode != "wal" {
        mode = set_journal(conn, "DELETE")?;
    }
    conn.execute_batch(&format!(
        "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES};
         PRAGMA journal_size_limit={MAX_LOG_BYTES}; PRAGMA cache_size=-{PAGE_CACHE_KIB};"
    ))?;
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if synchronous != 1 {
        conn.execute_batch("PRAGMA synchronous=FULL;")?;
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(mode)
}

fn set_journal(conn: &Connection, mode: &str) -> rusqlite::Result<String> {
    let set: String = conn.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))?;
    Ok(set.to_ascii_lowercase())
}

/// Serialised entry, ready to be written.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: EntryId,
    json: String,
    kind: EntryKind,
    /// Time of an entry that is copied from another session; `None` for the present time.
    time_ms: Option<u64>,
}

impl Draft {
    /// Draft of an entry of another session, which keeps its id and time.
    ///
    /// # Errors
    /// When the entry does not serialise.
    pub(super) fn restored(entry: Entry) -> Result<Self, serde_json::Error> {
        let Entry { id, time_ms, kind, .. } = entry;
        Ok(Self { id, time_ms: Some(time_ms), ..Self::new(kind)? })
    }

    /// Draft of a new entry, with a fresh id.
    ///
    /// # Errors
    /// When the entry does not serialise.
    pub(crate) fn new(kind: EntryKind) -> Result<Self, serde_json::Error> {
        Ok(Self { id: EntryId::fresh(), json: serde_json::to_string(&kind)?, kind, time_ms: None })
    }

    fn is_compaction(&self) -> bool {
        matches!(&self.kind, EntryKind::Custom(custom) if CompactionMark::of(custom).is_some())
    }

    /// Entry that the leaf moves to, if it moves.
    pub(super) fn leaf(&self) -> Option<Option<&EntryId>> {
        match &self.kind {
            EntryKind::Leaf { to, .. } => Some(to.as_ref()),
            _ => None,
        }
    }
}

/// Content that takes the place of removed content.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub(crate) seq: i64,
    pub(crate) json: String,
}

/// Last link of the chain, as far as it is known.
#[derive(Clone, Copy, Debug)]
enum Head {
    /// The last row was not read yet.
    Unread,
    /// Hash of the last row, to which the next row links; `None` if that row has no hash.
    Link(Option<Hash>),
}

/// Open log with the position of the next entry.
#[derive(Debug)]
pub(crate) struct Db {
    conn: Connection,
    meta: Meta,
    /// Branch of version control to store with the next entries.
    branch: Option<String>,
    index: Index,
    leaf: Option<EntryId>,
    /// Whether the tables of the file exist.
    has_tables: bool,
    /// Whether the first append begins a write-ahead log: there are no tables yet.
    begins_log: bool,
    /// Current format of the file; the next append raises it to [`FORMAT`].
    format: u32,
    head: Head,
    /// Token of this writer's lease, if it has one.
    lease: Option<i64>,
}

impl Db {
    /// Log whose tables are created with its first entries.
    pub(super) fn without_tables(conn: Connection, meta: Meta) -> Self {
        let mode = conn.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        let begins_log = mode.is_ok_and(|mode| mode == "wal");
        Self {
            conn,
            meta,
            branch: None,
            index: Index::default(),
            leaf: None,
            has_tables: false,
            begins_log,
            format: FORMAT,
            head: Head::Link(None),
            lease: None,
        }
    }

    /// Log that continues after `leaf`.
    pub(super) fn existing(conn: Connection, meta: Meta, index: Index, leaf: Option<EntryId>) -> Self {
        let format = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap_or(FORMAT);
        let head = Head::Unread;
        Self {
            conn,
            meta,
            branch: None,
            index,
            leaf,
            has_tables: true,
            begins_log: false,
            format,
            head,
            lease: None,
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.conn
    }

    pub(crate) fn has_tables(&self) -> bool {
        self.has_tables
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> i64 {
        self.meta.entries
    }

    /// Sets the branch of version control that is stored with the next entries.
    pub(super) fn note_branch(&mut self, branch: Option<&String>) {
        self.branch = branch.cloned();
    }

    /// Sets the lease under which this writer appends.
    pub(super) fn set_lease(&mut self, token: i64) {
        self.lease = Some(token);
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// Adds the entries and takes the mail in one transaction.
    pub(super) fn write(
        &mut self,
        drafts: &[Draft],
        mail: &[MailId],
        now_ms: u64,
        durability: Durability,
    ) -> Result<(), WriteError> {
        match durability {
            // Syncing the empty file and its folder would cost two waits that no guarantee needs. The first
            // append with [`Durability::Disk`] syncs them.
            Durability::Process if self.begins_log => self.commit_with("OFF", drafts, mail, now_ms, None),
            Durability::Process => self.commit(drafts, mail, now_ms, None),
            Durability::Disk => self.commit_with("FULL", drafts, mail, now_ms, None),
        }
    }

    /// Replaces the content of rows, and adds the record of it, in one transaction. Their links stay, and no page
    /// keeps the removed content.
    pub(crate) fn replace_bodies(
        &mut self,
        replacements: &[Replacement],
        digest: Digest,
        record: Draft,
        now_ms: u64,
    ) -> Result<(), WriteError> {
        self.conn.execute_batch("PRAGMA secure_delete=ON;")?;
        self.commit_with("FULL", &[record], &[], now_ms, Some((replacements, digest)))?;
        // Removed content is also in free space of pages, and in earlier pages of the log.
        self.conn.execute_batch("VACUUM;")?;
        Ok(self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn commit_with(
        &mut self,
        synchronous: &str,
        drafts: &[Draft],
        mail: &[MailId],
        now_ms: u64,
        replaced: Option<(&[Replacement], Digest)>,
    ) -> Result<(), WriteError> {
        let usual: i64 = self.conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        self.conn.pragma_update(None, "synchronous", synchronous)?;
        let written = self.commit(drafts, mail, now_ms, replaced);
        self.conn.pragma_update(None, "synchronous", usual)?;
        written
    }

    fn commit(
        &mut self,
        drafts: &[Draft],
        mail: &[MailId],
        now_ms: u64,
        replaced: Option<(&[Replacement], Digest)>,
    ) -> Result<(), WriteError> {
        let is_removal = replaced.is_some();
        let mut meta = self.meta.clone();
        let mut leaf = self.leaf.clone();
        let moved = self.moved_index(drafts)?;
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(own) = self.lease
            && meta::read_number(&tx, meta::LEASE)?.is_some_and(|newest| newest > own)
        {
            return Err(WriteError::Fenced);
        }
        mailbox::mark_taken(&tx, mail)?;
        if !self.has_tables {
            create_tables(&tx)?;
            meta.created_ms = drafts.first().and_then(|draft| draft.time_ms).unwrap_or(now_ms);
            meta.insert(&tx)?;
        } else if self.format != FORMAT {
            raise_format(&tx)?;
        }
        let mut head = match self.head {
            Head::Link(link) => link,
            Head::Unread => last_link(&tx)?,
        };
        if head.is_none() {
            meta::begin_chain(&tx, meta.entries + 1)?;
        }
        if let Some((replacements, digest)) = replaced {
            replacements.iter().try_for_each(|replacement| replace_body(&tx, replacement))?;
            meta::count_removal(&tx)?;
            meta.digest = digest;
        }
        {
            let mut insert = insert_statement(&tx)?;
            for draft in drafts {
                meta.entries += 1;
                meta.digest.add(&draft.kind);
                if let Some(to) = draft.leaf() {
                    leaf = to.cloned();
                }
                let (id, json) = (draft.id.as_str(), draft.json.as_str());
                let row = RowHead::new(meta.entries, id, leaf.as_ref(), draft.time_ms.unwrap_or(now_ms));
                head = Some(link(head.as_ref(), row.0, &body_hash(json)));
                insert_row(&mut insert, row, json, head.as_ref())?;
                leaf = Some(draft.id.clone());
            }
        }
        // A removal is no use of the session, which stays at its place in lists.
        if !is_removal {
            meta.updated_ms = now_ms;
        }
        if self.branch.is_some() {
            meta.branch.clone_from(&self.branch);
        }
        // The next open reads the stored index and then all rows after it.
        let must_store = !self.has_tables || moved.is_some() || drafts.iter().any(Draft::is_compaction);
        let stored = must_store.then(|| {
            let mut index = moved.unwrap_or_else(|| self.index.clone());
            add_all(&mut index, self.meta.entries, drafts);
            index
        });
        let has_branches = |index: &Index| !index.moves().is_empty();
        match &stored {
            Some(index) => {
                meta.branches = if has_branches(index) { index.moves().count_branches() } else { 0 };
                meta.update(&tx, &self.meta, !self.has_tables)?;
                meta::write_index(&tx, index)?;
                if drafts.iter().any(Draft::is_compaction) {
                    meta::write_index_at(&tx, index)?;
                }
            }
            None if has_branches(&self.index) => {
                let mut moves = self.index.moves().clone();
                let rows = drafts.iter().zip(self.meta.entries + 1..);
                rows.filter(|(draft, _)| draft.kind.message().is_some())
                    .for_each(|(_, row)| moves.note_message(row));
                meta.branches = moves.count_branches();
                meta.update(&tx, &self.meta, !self.has_tables)?;
            }
            None => meta.update(&tx, &self.meta, !self.has_tables)?,
        }
        tx.commit()?;
        match stored {
            Some(index) => self.index = index,
            None => add_all(&mut self.index, self.meta.entries, drafts),
        }
        self.meta = meta;
        self.leaf = leaf;
        self.has_tables = true;
        self.begins_log = false;
        self.format = FORMAT;
        self.head = Head::Link(head);
        Ok(())
    }

    /// Whether the log contains an entry.
    ///
    /// # Errors
    /// SQLite's own.
    pub(super) fn contains(&self, entry: &EntryId) -> rusqlite::Result<bool> {
        Ok(self.has_tables && tree::find_row(&self.conn, entry, i64::MAX)?.is_some())
    }

    /// Index of the branch to which the first draft moves the leaf, if it does.
    fn moved_index(&self, drafts: &[Draft]) -> rusqlite::Result<Option<Index>> {
        let Some(to) = drafts.first().and_then(Draft::leaf) else { return Ok(None) };
        let to = match to {
            Some(to) => {
                tree::find_row(&self.conn, to, i64::MAX)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?
            }
            None => 0,
        };
        let mut index = match to {
            0 => Index::default(),
            to => tree::index_branch(&self.conn, self.index.moves(), to)?,
        };
        let mut moves = self.index.moves().clone();
        moves.add(self.meta.entries + 1, to);
        index.set_moves(moves);
        Ok(Some(index))
    }

    /// Prevents the close of this connection from touching files whose names now belong to other files.
    pub(super) fn abandon(&self) -> rusqlite::Result<()> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(|_| ())
    }

    /// Moves the write-ahead log into the database and syncs both.
    ///
    /// # Errors
    /// SQLite's own, and `SQLITE_BUSY` while another connection moves it.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<()> {
        let busy: bool = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
        if busy {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        Ok(())
    }
}

/// Adds drafts that were written after row `last` to an index.
fn add_all(index: &mut Index, last: i64, drafts: &[Draft]) {
    drafts.iter().zip(last + 1..).for_each(|(draft, row)| index.add(row, &draft.kind));
}

pub(super) fn create_tables(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(&format!(
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
         CREATE TABLE entries(
             seq INTEGER PRIMARY KEY, id TEXT NOT NULL, parent TEXT, time_ms INTEGER NOT NULL,
             kind TEXT NOT NULL, sum INTEGER NOT NULL, hash BLOB
         ) STRICT;
         PRAGMA user_version={FORMAT};"
    ))
}

/// Raises the format of an older file. Its entries get no links: the chain begins with the next one.
fn raise_format(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    if !has_links(tx)? {
        tx.execute_batch("ALTER TABLE entries ADD COLUMN hash BLOB")?;
    }
    tx.pragma_update(None, "user_version", FORMAT)
}

/// Whether the table of entries has a column for links.
pub(crate) fn has_links(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("SELECT count(*) FROM pragma_table_info('entries') WHERE name = 'hash'", [], |row| {
        row.get::<_, i64>(0).map(|columns| columns > 0)
    })
}

/// Link of the last row.
fn last_link(tx: &Transaction<'_>) -> rusqlite::Result<Option<Hash>> {
    let last = "SELECT hash FROM entries ORDER BY seq DESC LIMIT 1";
    let link = tx.query_row(last, [], |row| Ok(row.get_ref(0)?.as_blob_or_null()?.map(Hash::try_from)))?;
    Ok(link.and_then(Result::ok))
}

fn replace_body(tx: &Transaction<'_>, replacement: &Replacement) -> rusqlite::Result<()> {
    let Replacement { seq, json } = replacement;
    let head = "SELECT id, parent, time_ms FROM entries WHERE seq = ?1";
    let sum = tx.query_row(head, [seq], |row| {
        let (id, parent) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str_or_null()?);
        Ok(checksum(*seq, id, parent, row.get(2)?, json))
    })?;
    tx.execute("UPDATE entries SET kind = ?2, sum = ?3 WHERE seq = ?1", params![seq, json, sum]).map(drop)
}

pub(super) fn insert_statement<'a>(
    tx: &'a Transaction<'_>,
) -> rusqlite::Result<rusqlite::CachedStatement<'a>> {
    tx.prepare_cached(
        "INSERT INTO entries(seq, id, parent, time_ms, kind, sum, hash) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )
}

/// Columns of a row to write besides its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowHead<'a>(LinkHead<'a>);

impl<'a> RowHead<'a> {
    pub(super) fn new(seq: i64, id: &'a str, parent: Option<&'a EntryId>, time_ms: u64) -> Self {
        let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX);
        Self(LinkHead { seq, id, parent: parent.map(EntryId::as_str), time_ms })
    }
}

pub(super) fn insert_row(
    insert: &mut Statement<'_>,
    row: RowHead<'_>,
    json: &str,
    link: Option<&Hash>,
) -> rusqlite::Result<()> {
    let LinkHead { seq, id, parent, time_ms } = row.0;
    let sum = checksum(seq, id, parent, time_ms, json);
    insert.execute(params![seq, id, parent, time_ms, json, sum, link])?;
    Ok(())
}

#[cfg(test)]
mod tests;
