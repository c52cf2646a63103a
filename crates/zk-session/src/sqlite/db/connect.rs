use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::BUSY;

/// Opens an existing file for writing. No byte is changed before [`prepare`], not even by closing it.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | no_mutex())?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    harden(&conn, BUSY)?;
    Ok(conn)
}

/// Connects for one small change of a file that others may have open. The log is folded into the database at the end, unless
/// they do.
pub(crate) fn connect_briefly(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | no_mutex())?;
    harden(&conn, BUSY)?;
    Ok(conn)
}

/// Opens a file read-only. If its folder or disk allows no shared memory (read-only, or full), the database
/// is read without its log. What a killed process left half written is rolled back first.
pub(crate) fn connect_read_only(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | no_mutex();
    let open = || {
        let conn = Connection::open_with_flags(path, flags)?;
        harden(&conn, busy)?;
        let probed = conn.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0));
        Ok::<_, rusqlite::Error>((conn, probed.err()))
    };
    let (mut conn, mut error) = open()?;
    if error.as_ref().is_some_and(needs_rollback) && roll_back(path, busy).is_ok() {
        (conn, error) = open()?;
    }
    if error.as_ref().is_some_and(lacks_shared_memory) {
        let mut uri = b"file:".to_vec();
        for byte in path.as_os_str().as_encoded_bytes() {
            uri.extend(format!("%{byte:02x}").into_bytes());
        }
        uri.extend(b"?immutable=1");
        let uri = String::from_utf8_lossy(&uri).into_owned();
        conn = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
        harden(&conn, busy)?;
    }
    // Other errors appear again when the caller reads.
    Ok(conn)
}

/// Whether a process was killed in a transaction with a rollback journal, which only a writer takes back.
fn needs_rollback(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_READONLY_RECOVERY, SQLITE_READONLY_ROLLBACK};
    let extended = error.sqlite_error().map(|error| error.extended_code);
    matches!(extended, Some(SQLITE_READONLY_ROLLBACK | SQLITE_READONLY_RECOVERY))
}

fn roll_back(path: &Path, busy: Duration) -> rusqlite::Result<()> {
    let conn = connect(path)?;
    conn.busy_timeout(busy)?;
    conn.pragma_query_value(None, "schema_version", |_| Ok(()))
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
