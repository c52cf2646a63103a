use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};
use zk_core::service::make_private_dir;

use super::error::SearchError;
use crate::sqlite::files::with_suffix;
use crate::sqlite::lock::open_plain;

/// Name of the index in the store's directory.
const NAME: &str = "search.db";

/// Format of the index, stored in SQLite's `user_version`. An index of an older format is built anew.
const INDEX_FORMAT: u32 = 1;

/// Time-out for another process that writes the index.
const BUSY: Duration = Duration::from_secs(5);

/// Attempts to take the lock of the index, and the pause between them: another process may be indexing everything.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Size of the page cache in KiB.
const PAGE_CACHE_KIB: u32 = 16 << 10;

/// Tables of the index. A row's number is its time in milliseconds times 2^20 plus a number that makes it unique, so
/// that the newest matches come first without sorting, and times are ranges of rows.
const TABLES: &str = "
    CREATE TABLE sessions(
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, cwd TEXT NOT NULL, title TEXT NOT NULL,
        name TEXT NOT NULL, updated_ms INTEGER NOT NULL, files TEXT NOT NULL, indexed_ms INTEGER NOT NULL,
        last_seq INTEGER NOT NULL, last_sum INTEGER NOT NULL, removals INTEGER NOT NULL, model TEXT
    ) STRICT;
    CREATE TABLE texts(
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
        tool TEXT, model TEXT
    ) STRICT;
    CREATE INDEX texts_by_session ON texts(session);
    CREATE VIRTUAL TABLE words USING fts5(text, tokenize = \"unicode61 remove_diacritics 2\", prefix = '2 3');
    INSERT INTO words(words, rank) VALUES('secure-delete', 1);";

/// Index in its file. It contains nothing that is not in the sessions, and may be deleted at any time.
#[derive(Debug)]
pub(super) struct IndexFile {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
}

/// Lock for writing the index, held until it is dropped.
#[derive(Debug)]
pub(super) struct IndexLock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl IndexLock {
    /// Takes the lock; `None` if another process keeps it.
    pub(super) fn take(root: &Path) -> io::Result<Option<Self>> {
        make_private_dir(root)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open_plain(&mut options, &root.join("search.lock"))?;
        for attempt in 0..LOCK_ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// Path of the index of the store under `root`.
pub(super) fn path_in(root: &Path) -> PathBuf {
    root.join(NAME)
}

/// Removes the index. The caller holds its lock.
pub(super) fn remove(root: &Path) -> io::Result<()> {
    let path = path_in(root);
    for path in [with_suffix(&path, "-wal"), with_suffix(&path, "-shm"), path] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl IndexFile {
    /// Opens the index, or creates it. The caller holds its lock.
    pub(super) fn open(root: &Path) -> Result<Self, SearchError> {
        let path = path_in(root);
        let created = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        created.map_err(|source| SearchError::Index { doing: "create", path: path.clone(), source })?;
        let fail = |error: rusqlite::Error| SearchError::index("write", &path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&path, flags).map_err(fail)?;
        conn.busy_timeout(BUSY).map_err(fail)?;
        // Pages that a power cut loses are indexed anew.
        let set = format!(
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON; PRAGMA synchronous=NORMAL;
             PRAGMA cache_size=-{PAGE_CACHE_KIB};"
        );
        conn.execute_batch(&set).map_err(fail)?;
        let _: String = conn.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).map_err(fail)?;
        match version(&conn).map_err(fail)? {
            0 => create_tables(&conn).map_err(fail)?,
            INDEX_FORMAT => {}
            found if found > INDEX_FORMAT => {
                return Err(SearchError::TooNew { path, found, known: INDEX_FORMAT });
            }
            older => {
                let why = format!("it has the old format {older}");
                return Err(SearchError::Damaged { path, why });
            }
        }
        Ok(Self { conn, path })
    }

    /// Opens the index read-only; `None` if there is none.
    pub(super) fn open_to_read(root: &Path) -> Result<Option<Self>, SearchError> {
        let path = path_in(root);
        if !path.exists() {
            return Ok(None);
        }
        let fail = |error: rusqlite::Error| SearchError::index("read", &path, &error);
        let conn = crate::sqlite::db::connect_read_only(&path, BUSY).map_err(fail)?;
        conn.execute_batch(&format!("PRAGMA cache_size=-{PAGE_CACHE_KIB};")).map_err(fail)?;
        match version(&conn).map_err(fail)? {
            0 => Ok(None),
            INDEX_FORMAT => Ok(Some(Self { conn, path })),
            found if found > INDEX_FORMAT => Err(SearchError::TooNew { path, found, known: INDEX_FORMAT }),
            older => Err(SearchError::Damaged { path, why: format!("it has the old format {older}") }),
        }
    }

    /// Creates an index in memory, for a store in which no file can be written.
    pub(super) fn in_memory() -> Result<Self, SearchError> {
        let path = PathBuf::from("in memory");
        let conn =
            Connection::open_in_memory().map_err(|error| SearchError::index("create", &path, &error))?;
        create_tables(&conn).map_err(|error| SearchError::index("create", &path, &error))?;
        Ok(Self { conn, path })
    }

    pub(super) fn error_while(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> SearchError {
        move |error| SearchError::index(doing, &self.path, &error)
    }
}

fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn create_tables(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={INDEX_FORMAT}; COMMIT;"))
}
