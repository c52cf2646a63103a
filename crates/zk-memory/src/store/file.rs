use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use zk_core::service::make_private_dir;

use crate::MemoryError;

/// Format of the memory, stored in SQLite's `user_version`.
pub(super) const MEMORY_FORMAT: u32 = 3;

/// Time-out for another process that uses the memory. A recall has two seconds in all.
const BUSY: Duration = Duration::from_secs(1);

/// Tables of the memory. The full-text index `words` has only kept facts, by their numbers.
const TABLES: &str = "
    CREATE TABLE facts(
        id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, key TEXT NOT NULL, project TEXT NOT NULL,
        origin TEXT NOT NULL, path TEXT NOT NULL, session TEXT, changed_ms INTEGER NOT NULL, used_ms INTEGER,
        uses INTEGER NOT NULL DEFAULT 0, is_proposed INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX facts_by_key ON facts(project, key);
    CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2');
    INSERT INTO words(words, rank) VALUES('secure-delete', 1);
    CREATE TABLE recalls(
        id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, project TEXT NOT NULL, time_ms INTEGER NOT NULL,
        words TEXT NOT NULL
    ) STRICT;
    CREATE TABLE recalled(
        recall INTEGER NOT NULL REFERENCES recalls(id) ON DELETE CASCADE,
        fact INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE,
        place INTEGER NOT NULL, score REAL NOT NULL, words TEXT NOT NULL, PRIMARY KEY(recall, fact)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX recalled_by_fact ON recalled(fact);";

/// Addition of format 2: an index of facts by their file.
const TABLES_OF_2: &str = "
    CREATE INDEX facts_by_file ON facts(path) WHERE origin = 'file';";

/// Addition of format 3: the embedding vectors of facts (little-endian `f32`, normalised), one for each model. Format 2
/// had one for each fact, which two models replaced in turns.
const TABLES_OF_3: &str = "
    CREATE TABLE vectors(
        fact INTEGER NOT NULL REFERENCES facts(id) ON DELETE CASCADE, model TEXT NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY (fact, model)
    ) STRICT, WITHOUT ROWID;";

/// Takes the vectors of format 2 along.
const VECTORS_OF_2_TO_3: &str = "
    INSERT INTO vectors(fact, model, vector) SELECT fact, model, vector FROM vectors_of_2;
    DROP TABLE vectors_of_2;";

/// Opens the memory at `path`; `None` if there is none and `create` is false.
pub(super) fn open(path: &Path, create: bool) -> Result<Option<Connection>, MemoryError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() || found.nlink() > 1 => {
            let why = io::Error::other("it is a link or no regular file; remove it");
            return Err(MemoryError::io("open", path)(why));
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, private).map_err(MemoryError::io("make private", path))?;
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                make_private_dir(dir).map_err(MemoryError::io("create", path))?;
            }
            // Another process may create the file at the same time.
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(MemoryError::io("create", path))?;
        }
        Err(error) => return Err(MemoryError::io("open", path)(error)),
    }
    let fail = |error: rusqlite::Error| MemoryError::sqlite("open", path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(fail)?;
    conn.busy_timeout(BUSY).map_err(fail)?;
    // A rollback journal holds old pages only as long as a transaction lasts; a log would keep forgotten facts.
    // Copies that SQLite makes to rewrite the file stay in memory.
    conn.execute_batch(
        "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON; PRAGMA foreign_keys=ON;
         PRAGMA temp_store=MEMORY;",
    )
    .map_err(fail)?;
    let _: String = conn.query_row("PRAGMA journal_mode=DELETE", [], |row| row.get(0)).map_err(fail)?;
    match version(&conn).map_err(fail)? {
        // The file was created by a process that has not written anything yet.
        0 if !create => return Ok(None),
        0..MEMORY_FORMAT => upgrade(&conn).map_err(fail)?,
        MEMORY_FORMAT => {}
        found => {
            return Err(MemoryError::TooNew { path: path.to_owned(), found, known: MEMORY_FORMAT });
        }
    }
    Ok(Some(conn))
}

fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Creates the tables that an older format does not have.
fn upgrade(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have created the tables since.
    let missing = version(conn).map(|found| match found {
        0 => [TABLES, TABLES_OF_2, TABLES_OF_3].concat(),
        1 => [TABLES_OF_2, TABLES_OF_3].concat(),
        2 => ["ALTER TABLE vectors RENAME TO vectors_of_2;", TABLES_OF_3, VECTORS_OF_2_TO_3].concat(),
        _ => String::new(),
    });
    let created = missing.and_then(|tables| match tables.is_empty() {
        true => Ok(()),
        false => conn.execute_batch(&format!("{tables} PRAGMA user_version={MEMORY_FORMAT};")),
    });
    let end = if created.is_ok() { "COMMIT" } else { "ROLLBACK" };
    created.and(conn.execute_batch(end))
}
