pub(super) mod restore;

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use zk_core::service::{Entry, StoreError, read_regular};

use super::check::{self, Access, Branches, Checked, Log, Rows};
use super::db::{RowHead, connect, create_tables, insert_row, insert_statement};
use super::error::store_error;
use super::files::{Files, remove, with_suffix};
use super::lock::open_plain;
use super::row::Unreadable;
use super::wal;
use crate::digest::Digest;

/// Copies unreadable rows to the side file, each once. They also stay in the database.
///
/// # Errors
/// [`StoreError::Io`].
#[expect(clippy::disallowed_methods, reason = "a session has a thread of its own")]
pub(super) fn quarantine(files: &Files, rows: &[Unreadable]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let path = files.quarantine();
    let fail = |source| StoreError::Io { doing: "keep unreadable entries in", path: path.clone(), source };
    let before = match read_regular(&path, u64::MAX) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(fail(error)),
    };
    let known: HashSet<&str> = before.lines().collect();
    let mut text = String::new();
    for line in rows.iter().map(Unreadable::to_line).filter(|line| !known.contains(line.as_str())) {
        text.push_str(&line);
        text.push('\n');
    }
    if text.is_empty() {
        return Ok(());
    }
    let mut file =
        open_plain(OpenOptions::new().create(true).append(true).mode(0o600), &path).map_err(fail)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)
}

/// Replaces a damaged database by one with the readable part of `log`, and keeps the damaged file.
///
/// Returns the new path of the damaged file. If the process is killed before the end, the damaged file is
/// still in place, or [`finish_interrupted`] completes the replacement.
///
/// # Errors
/// [`StoreError`] when the new file cannot be written; the damaged one then stays in place.
pub(super) fn replace(files: &Files, log: &Log) -> Result<PathBuf, StoreError> {
    let path = write_anew(files, log)?;
    let kept = files.put_aside()?;
    rename(&path, &files.db())?;
    Ok(kept)
}

/// Writes the readable part of `log` to a new database next to the session's. Returns its path.
///
/// # Errors
/// [`StoreError`] when the database cannot be written.
fn write_anew(files: &Files, log: &Log) -> Result<PathBuf, StoreError> {
    let path = files.recovery();
    remove(&path)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|source| StoreError::Io { doing: "write", path: path.clone(), source })?;
    write(&path, log).map_err(|error| store_error(&error, "write", &path, files.id()))?;
    Ok(path)
}

/// Writes a session again whose files were removed.
///
/// # Errors
/// [`StoreError`] when the database cannot be written.
pub(super) fn write_again(files: &Files, log: &Log) -> Result<(), StoreError> {
    let path = write_anew(files, log)?;
    // A remaining write-ahead log would be replayed into the new database.
    for suffix in ["-wal", "-shm", "-journal"] {
        remove(&with_suffix(&files.db(), suffix))?;
    }
    rename(&path, &files.db())
}

/// Reads a log from a database that is rebuilt from a write-ahead log alone, and describes the damage.
///
/// # Errors
/// [`StoreError::Io`] when the temporary database cannot be written.
pub(super) fn read_lone_log(files: &Files) -> Result<(String, Log), StoreError> {
    let fail = |doing, path: PathBuf| move |source| StoreError::Io { doing, path, source };
    let bytes = read_regular(&files.log(), u64::MAX).map_err(fail("read", files.log()))?;
    let Some(database) = wal::rebuild_database(&bytes) else {
        return Ok((
            "its database file is empty and nothing in its write-ahead log is whole".to_owned(),
            Log::default(),
        ));
    };
    let path = files.image();
    remove(&path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(&path)
        .and_then(|mut image| image.write_all(&database))
        .map_err(fail("write", path.clone()))?;
    let log =
        connect(&path).map(|conn| match check::check_all(&conn, &path, Access::default(), Branches::All) {
            Ok((Checked::Whole(_), log)) => log,
            Ok(_) | Err(_) => check::read_readable(&conn, &path),
        });
    remove(&path)?;
    let log = log.map_err(|error| store_error(&error, "read", &path, files.id()))?;
    Ok(("its database file is empty, so its write-ahead log was read".to_owned(), log))
}

fn write(path: &Path, log: &Log) -> rusqlite::Result<()> {
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.execute_batch("PRAGMA synchronous=FULL;")?;
    let tx = conn.transaction()?;
    create_tables(&tx)?;
    let mut meta = log.meta.clone();
    meta.digest = Digest::default();
    meta.entries = 0;
    {
        let mut insert = insert_statement(&tx)?;
        for entry in &log.entries {
            meta.entries += 1;
            meta.digest.add(&entry.kind);
            let Entry { id, parent, time_ms, kind } = entry;
            let json = serde_json::to_string(kind)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            // Recovered entries prove nothing about the chain, which begins anew after them.
            let row = RowHead::new(meta.entries, id.as_str(), parent.as_ref(), *time_ms);
            insert_row(&mut insert, row, &json, None)?;
        }
    }
    let times = || log.entries.iter().map(|entry| entry.time_ms);
    meta.created_ms = times().min().unwrap_or_default();
    meta.updated_ms = times().max().unwrap_or_default();
    meta.insert(&tx)?;
    meta.update(&tx, &log.meta, true)?;
    tx.commit()
}

/// Completes a [`replace`] or [`write_again`] whose process was killed before the last step; removes remains
/// of one that was killed earlier.
///
/// # Errors
/// [`StoreError::Io`].
pub(super) fn finish_interrupted(files: &Files) -> Result<(), StoreError> {
    let path = files.recovery();
    if !path.exists() {
        return Ok(());
    }
    let is_whole = || {
        let mut visit = |_, _| ControlFlow::Continue(());
        let mut rows = Rows::new(&mut visit, Branches::All);
        let checked =
            connect(&path).and_then(|conn| check::check(&conn, &path, Access::default(), &mut rows));
        matches!(checked, Ok(Checked::Whole(_)))
    };
    if !files.db().exists() && !files.has_lone_log() && is_whole() {
        rename(&path, &files.db())
    } else {
        remove(&path)
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|source| StoreError::Io {
        doing: "rename",
        path: from.to_path_buf(),
        source,
    })
}
