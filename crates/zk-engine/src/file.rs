use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use zk_core::service::{EngineError, make_private_dir};

use crate::error::engine_error;

/// Format version of the engine's file, stored in SQLite's `user_version`.
const FILE_FORMAT: u32 = 1;

/// SQLite application id of the engine's file: "zken".
const APPLICATION_ID: i64 = 0x7a6b_656e;

/// Maximum wait for another process that writes the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const TABLES: &str = "
    CREATE TABLE runs(
        seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, format INTEGER NOT NULL, job TEXT NOT NULL,
        queue TEXT NOT NULL, tenant TEXT, parent TEXT, priority INTEGER NOT NULL, phase TEXT NOT NULL, wait TEXT,
        until_ms INTEGER, token INTEGER NOT NULL DEFAULT 0, legs INTEGER NOT NULL DEFAULT 0, worker TEXT,
        lease_until INTEGER, lease_ms INTEGER, deaths INTEGER NOT NULL DEFAULT 0, is_woken INTEGER NOT NULL DEFAULT 0,
        is_cancelled INTEGER NOT NULL DEFAULT 0, failure TEXT, submitted_ms INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_phase ON runs(phase, priority DESC, seq);
    CREATE INDEX runs_by_parent ON runs(parent) WHERE parent IS NOT NULL;
    CREATE TABLE workers(name TEXT PRIMARY KEY, is_draining INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE schedules(
        name TEXT PRIMARY KEY, plan TEXT NOT NULL, next_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;";

/// Additions to files of earlier versions, which go on using them: the session of a run, derived from its job, also of
/// a job that an earlier version wrote.
const ADDITIONS: &str = "
    ALTER TABLE runs ADD COLUMN session TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(job) THEN json_extract(job, '$.session') END) VIRTUAL;
    CREATE INDEX runs_by_session ON runs(session) WHERE phase IN ('queued', 'running', 'parked');";

/// The open file of an engine.
pub(crate) struct EngineFile {
    path: PathBuf,
    conn: Connection,
    /// Device and inode of the open file.
    identity: (u64, u64),
}

impl EngineFile {
    /// Opens the file at `path`, and creates it if missing.
    pub(crate) fn open(path: &Path) -> Result<Self, EngineError> {
        let failed = |why: io::Error| EngineError::Failed {
            doing: "open the file of runs",
            why: format!("{}: {why}", path.display()),
        };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() || found.nlink() > 1 => {
                return Err(failed(io::Error::other("it is a link or no regular file; remove it")));
            }
            Ok(found) if found.permissions().mode() & 0o077 != 0 => {
                let private = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(path, private).map_err(failed)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(dir) = path.parent() {
                    make_private_dir(dir).map_err(failed)?;
                }
                // Another process may create the file at the same time.
                let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
                made.map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let fail = |error: rusqlite::Error| engine_error("open the file of runs", path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(fail)?;
        conn.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
        conn.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;")
            .map_err(fail)?;
        let version = |conn: &Connection| -> rusqlite::Result<(u32, i64)> {
            let version = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok((version, conn.pragma_query_value(None, "application_id", |row| row.get(0))?))
        };
        let found = version(&conn).map_err(fail)?;
        let mut file =
            Self { path: path.to_path_buf(), conn, identity: file_identity(path).map_err(failed)? };
        match found {
            (0, 0) => file.create_tables(version)?,
            (FILE_FORMAT, APPLICATION_ID) => file.add_missing()?,
            (found, APPLICATION_ID) if found > FILE_FORMAT => {
                return Err(EngineError::TooNew { found, known: FILE_FORMAT });
            }
            (_, _) => {
                let why = "another program wrote it".to_owned();
                return Err(EngineError::Damaged { path: path.to_path_buf(), why });
            }
        }
        // A token must survive a power failure once it was assigned, because a later token has to be larger.
        file.conn
            .query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
            .and_then(|()| file.conn.execute_batch("PRAGMA synchronous=FULL;"))
            .map_err(fail)?;
        Ok(file)
    }

    fn create_tables(
        &mut self,
        version: impl Fn(&Connection) -> rusqlite::Result<(u32, i64)>,
    ) -> Result<(), EngineError> {
        let fail = |error: rusqlite::Error| engine_error("create the tables of runs", &self.path, &error);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        // Another process may have created the tables meanwhile.
        if version(&tx).map_err(fail)? != (0, 0) {
            return Ok(());
        }
        let tables: i64 =
            tx.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fail)?;
        if tables > 0 {
            let why = "another program wrote it".to_owned();
            return Err(EngineError::Damaged { path: self.path.clone(), why });
        }
        let pragmas = format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FILE_FORMAT};");
        tx.execute_batch(TABLES)
            .and_then(|()| tx.execute_batch(ADDITIONS))
            .and_then(|()| tx.execute_batch(&pragmas))
            .map_err(fail)?;
        tx.commit().map_err(fail)
    }

    /// Adds to a file of an earlier version what it has not yet.
    fn add_missing(&mut self) -> Result<(), EngineError> {
        let fail = |error: rusqlite::Error| engine_error("update the tables of runs", &self.path, &error);
        let has_all = |conn: &Connection| -> rusqlite::Result<bool> {
            conn.query_row(
                "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'runs_by_session')",
                [],
                |row| row.get(0),
            )
        };
        if has_all(&self.conn).map_err(fail)? {
            return Ok(());
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        // Another process may have added it meanwhile.
        if !has_all(&tx).map_err(fail)? {
            tx.execute_batch(ADDITIONS).map_err(fail)?;
        }
        tx.commit().map_err(fail)
    }

    /// Runs `change` in one write transaction, which stores everything or nothing.
    pub(crate) fn write_transaction<T>(
        &mut self,
        doing: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        self.check_identity()?;
        let path = &self.path;
        let fail = |error: rusqlite::Error| engine_error(doing, path, &error);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        let value = change(&tx).map_err(fail)??;
        tx.commit().map_err(fail)?;
        Ok(value)
    }

    /// Runs `read` in one read transaction.
    pub(crate) fn read_transaction<T>(
        &mut self,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, EngineError> {
        self.check_identity()?;
        let path = &self.path;
        let fail = |error: rusqlite::Error| engine_error(doing, path, &error);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Deferred).map_err(fail)?;
        read(&tx).map_err(fail)
    }

    /// Checks that the path still leads to the open file.
    fn check_identity(&self) -> Result<(), EngineError> {
        match file_identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) | Err(_) => Err(EngineError::Lost { path: self.path.clone() }),
        }
    }
}

fn file_identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
