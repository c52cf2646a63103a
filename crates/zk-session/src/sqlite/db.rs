use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Statement, Transaction, TransactionBehavior, params};
use zk_core::model::EntryId;
use zk_core::service::{CompactionMark, Durability, Entry, EntryKind};

use super::meta::{self, Meta};
use super::row::checksum;
use super::tree::{self, TREE_FORMAT};
use crate::index::Index;

/// Newest file format that this program reads and writes, stored in SQLite's `user_version`. Format 1 had no
/// open turns, format 2 no branches and labels; both are read unchanged.
pub(super) const FORMAT: u32 = TREE_FORMAT;

/// Format of a file without branches and labels, which older programs read too.
pub(super) const LINEAR_FORMAT: u32 = 2;

/// Time-out for a file that another process is reading.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Size of the write-ahead log, in pages of 4 KiB, at which it is moved into the database.
const CHECKPOINT_PAGES: u32 = 1000;
/// Size in bytes to which the log's file is truncated after that.
const LOG_BYTES: u32 = 8 << 20;
/// Size of the page cache in KiB. Appends only touch the last pages, and the default would keep 2 MB of
/// written pages in memory.
const PAGE_CACHE_KIB: u32 = 256;

/// Opens an existing file for writing. No byte is changed before [`prepare`], not even by closing it.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | no_mutex())?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    harden(&conn, BUSY)?;
    Ok(conn)
}

/// Connects for one small change of a file that others may have open. The log is folded into the database at the end, unless
/// they do.
pub(super) fn connect_briefly(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | no_mutex())?;
    harden(&conn, BUSY)?;
    Ok(conn)
}

/// Opens a file read-only. If its folder or disk allows no shared memory (read-only, or full), the database
/// is read without its log.
pub(super) fn connect_read_only(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | no_mutex();
    let conn = Connection::open_with_flags(path, flags)?;
    harden(&conn, busy)?;
    match conn.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0)) {
        Err(error) if lacks_shared_memory(&error) => {
            let mut uri = b"file:".to_vec();
            for byte in path.as_os_str().as_encoded_bytes() {
                uri.extend(format!("%{byte:02x}").into_bytes());
            }
            uri.extend(b"?immutable=1");
            let uri = String::from_utf8_lossy(&uri).into_owned();
            let conn = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
            harden(&conn, busy)?;
            Ok(conn)
        }
        // Other errors appear again when the caller reads.
        Ok(_) | Err(_) => Ok(conn),
    }
}

fn lacks_shared_memory(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE};
    let extended = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen)
        || matches!(extended, Some(SQLITE_IOERR_SHMOPEN | SQLITE_IOERR_SHMSIZE | SQLITE_IOERR_SHMMAP))
}

/// Opens without SQLite's mutex, since each connection stays on one thread.
fn no_mutex() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Hardens a connection to an untrusted file: nothing in its schema is executed, and sizes are verified.
fn harden(conn: &Connection, busy: Duration) -> rusqlite::Result<()> {
    conn.busy_timeout(busy)?;
    conn.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;")
}

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
         PRAGMA journal_size_limit={LOG_BYTES}; PRAGMA cache_size=-{PAGE_CACHE_KIB};"
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
pub(super) struct Draft {
    pub(super) id: EntryId,
    json: String,
    kind: EntryKind,
    /// Time of an entry that another session had; `None` for the present time.
    time_ms: Option<u64>,
}

impl Draft {
    /// Entry that another session had, with its id and time.
    ///
    /// # Errors
    /// When the entry does not serialise.
    pub(super) fn restored(entry: Entry) -> Result<Self, serde_json::Error> {
        let Entry { id, time_ms, kind, .. } = entry;
        Ok(Self { id, time_ms: Some(time_ms), ..Self::new(kind)? })
    }

    /// # Errors
    /// When the entry does not serialise.
    pub(super) fn new(kind: EntryKind) -> Result<Self, serde_json::Error> {
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

/// Open log with the position of the next entry.
#[derive(Debug)]
pub(super) struct Db {
    conn: Connection,
    meta: Meta,
    /// Branch to store with the next entries.
    branch: Option<String>,
    index: Index,
    leaf: Option<EntryId>,
    /// Whether the tables exist.
    born: bool,
    /// Whether the first append begins a write-ahead log: there are no tables yet.
    begins_log: bool,
    /// Current format of the file; an append raises it to the one that it needs.
    format: u32,
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
            born: false,
            begins_log,
            format: 0,
        }
    }

    /// Log that continues after `leaf`.
    pub(super) fn existing(conn: Connection, meta: Meta, index: Index, leaf: Option<EntryId>) -> Self {
        let format = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap_or_default();
        Self { conn, meta, branch: None, index, leaf, born: true, begins_log: false, format }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.conn
    }

    pub(super) fn has_tables(&self) -> bool {
        self.born
    }

    /// Returns the number of entries.
    pub(super) fn entries(&self) -> i64 {
        self.meta.entries
    }

    /// Sets the branch that is stored with the next entries.
    pub(super) fn note_branch(&mut self, branch: Option<&String>) {
        self.branch = branch.cloned();
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// Adds the entries in one transaction.
    pub(super) fn write(
        &mut self,
        drafts: &[Draft],
        now_ms: u64,
        durability: Durability,
    ) -> rusqlite::Result<()> {
        match durability {
            // Syncing the empty file and its folder would cost two waits that no guarantee needs. The first
            // append with [`Durability::Disk`] syncs them.
            Durability::Process if self.begins_log => self.commit_with("OFF", drafts, now_ms),
            Durability::Process => self.commit(drafts, now_ms),
            Durability::Disk => self.commit_with("FULL", drafts, now_ms),
        }
    }

    fn commit_with(&mut self, synchronous: &str, drafts: &[Draft], now_ms: u64) -> rusqlite::Result<()> {
        let usual: i64 = self.conn.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        self.conn.pragma_update(None, "synchronous", synchronous)?;
        let written = self.commit(drafts, now_ms);
        self.conn.pragma_update(None, "synchronous", usual)?;
        written
    }

    fn commit(&mut self, drafts: &[Draft], now_ms: u64) -> rusqlite::Result<()> {
        let mut meta = self.meta.clone();
        let mut leaf = self.leaf.clone();
        let moved = self.moved_index(drafts)?;
        let needed = drafts.iter().map(|draft| needed_format(&draft.kind)).max().unwrap_or_default();
        let format = self.format.max(needed);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.born {
            create_tables(&tx, format)?;
            meta.created_ms = drafts.first().and_then(|draft| draft.time_ms).unwrap_or(now_ms);
            meta.insert(&tx)?;
        } else if self.format != format {
            tx.pragma_update(None, "user_version", format)?;
        }
        {
            let mut insert = insert_statement(&tx)?;
            for draft in drafts {
                meta.entries += 1;
                meta.digest.add(&draft.kind);
                if let Some(to) = draft.leaf() {
                    leaf = to.cloned();
                }
                let time_ms = draft.time_ms.unwrap_or(now_ms);
                insert_row(&mut insert, meta.entries, &draft.id, leaf.as_ref(), time_ms, &draft.json)?;
                leaf = Some(draft.id.clone());
            }
        }
        meta.updated_ms = now_ms;
        if self.branch.is_some() {
            meta.branch.clone_from(&self.branch);
        }
        // The next open reads the stored index and then all rows after it.
        let must_store = !self.born || moved.is_some() || drafts.iter().any(Draft::is_compaction);
        let stored = must_store.then(|| {
            let mut index = moved.unwrap_or_else(|| self.index.clone());
            add_all(&mut index, self.meta.entries, drafts);
            index
        });
        let has_branches = |index: &Index| !index.moves().is_empty();
        match &stored {
            Some(index) => {
                meta.branches = if has_branches(index) { index.moves().count() } else { 0 };
                meta.update(&tx, &self.meta, !self.born)?;
                meta::write_index(&tx, index)?;
            }
            None if has_branches(&self.index) => {
                let mut moves = self.index.moves().clone();
                let rows = drafts.iter().zip(self.meta.entries + 1..);
                rows.filter(|(draft, _)| draft.kind.message().is_some())
                    .for_each(|(_, row)| moves.note_message(row));
                meta.branches = moves.count();
                meta.update(&tx, &self.meta, !self.born)?;
            }
            None => meta.update(&tx, &self.meta, !self.born)?,
        }
        tx.commit()?;
        match stored {
            Some(index) => self.index = index,
            None => add_all(&mut self.index, self.meta.entries, drafts),
        }
        self.meta = meta;
        self.leaf = leaf;
        self.born = true;
        self.begins_log = false;
        self.format = format;
        Ok(())
    }

    /// Whether the log contains an entry.
    ///
    /// # Errors
    /// SQLite's own.
    pub(super) fn contains(&self, entry: &EntryId) -> rusqlite::Result<bool> {
        Ok(self.born && tree::find_row(&self.conn, entry, i64::MAX)?.is_some())
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
        let mut index =
            if to == 0 { Index::default() } else { tree::index_branch(&self.conn, self.index.moves(), to)? };
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

/// Lowest file format that can hold an entry.
pub(super) fn needed_format(kind: &EntryKind) -> u32 {
    match kind {
        EntryKind::Leaf { .. } | EntryKind::Label { .. } => TREE_FORMAT,
        EntryKind::Message { .. }
        | EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. }
        | EntryKind::OpenTurn { .. }
        | EntryKind::CallBegin { .. }
        | EntryKind::CallEnd { .. }
        | EntryKind::CallData { .. }
        | EntryKind::Usage { .. }
        | EntryKind::Custom(_) => LINEAR_FORMAT,
    }
}

pub(super) fn create_tables(tx: &Transaction<'_>, format: u32) -> rusqlite::Result<()> {
    tx.execute_batch(&format!(
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
         CREATE TABLE entries(
             seq INTEGER PRIMARY KEY, id TEXT NOT NULL, parent TEXT, time_ms INTEGER NOT NULL,
             kind TEXT NOT NULL, sum INTEGER NOT NULL
         ) STRICT;
         PRAGMA user_version={format};"
    ))
}

pub(super) fn insert_statement<'a>(
    tx: &'a Transaction<'_>,
) -> rusqlite::Result<rusqlite::CachedStatement<'a>> {
    tx.prepare_cached(
        "INSERT INTO entries(seq, id, parent, time_ms, kind, sum) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    )
}

pub(super) fn insert_row(
    insert: &mut Statement<'_>,
    seq: i64,
    id: &EntryId,
    parent: Option<&EntryId>,
    time_ms: u64,
    json: &str,
) -> rusqlite::Result<()> {
    let (id, parent) = (id.as_str(), parent.map(EntryId::as_str));
    let time = i64::try_from(time_ms).unwrap_or(i64::MAX);
    insert.execute(params![seq, id, parent, time, json, checksum(seq, id, parent, time, json)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_shared_memory_the_journal_falls_back() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let path = dir.path().join("x.db");
        // This variant of SQLite's file layer locks with lock files and has no shared memory.
        let conn = Connection::open_with_flags_and_vfs(&path, flags, c"unix-dotfile").unwrap();
        assert_eq!(prepare(&conn, true).unwrap(), "delete");
        let mut db = Db::without_tables(conn, Meta::default());
        let run = EntryKind::RunStart { run_id: "r".into() };
        db.write(&[Draft::new(run).unwrap()], 7, Durability::Disk).unwrap();
        drop(db);
        let conn = connect_read_only(&path, BUSY).unwrap();
        assert_eq!(
            conn.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap(),
            1
        );
    }

    #[test]
    fn a_normal_file_system_gets_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        std::fs::File::create(&path).unwrap();
        let conn = connect(&path).unwrap();
        assert_eq!(prepare(&conn, true).unwrap(), "wal");
        let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 1);
    }
}
