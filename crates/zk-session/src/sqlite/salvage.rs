use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use zk_core::service::{Entry, StoreError};

use super::check::Log;
use super::db::{create_tables, insert_row, insertion};
use super::error::store_error;
use super::files::{Files, remove};
use super::row::Unreadable;
use crate::digest::Digest;

/// Copies unreadable rows, as they are, to the side file, each once. The rows stay where they are, too.
///
/// # Errors
/// [`StoreError::Io`].
pub(super) fn quarantine(files: &Files, rows: &[Unreadable]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let path = files.quarantine();
    let fail = |source| StoreError::Io { doing: "keep unreadable entries in", path: path.clone(), source };
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
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
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(fail)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)
}

/// Puts a database with the readable part of `log` in the place of the damaged one, which is kept beside it.
///
/// Returns where the damaged file is now. Killed at any moment, either the damaged file is in its place still,
/// or [`finish`] completes the work.
///
/// # Errors
/// [`StoreError`] when the new file cannot be written; the damaged one is in its place then.
pub(super) fn replace(files: &Files, log: &Log) -> Result<PathBuf, StoreError> {
    let path = files.salvage();
    remove(&path)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|source| StoreError::Io { doing: "write", path: path.clone(), source })?;
    write(&path, log).map_err(|error| store_error(&error, "write", &path, files.id()))?;
    let kept = files.put_aside()?;
    rename(&path, &files.db())?;
    Ok(kept)
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
        let mut insert = insertion(&tx)?;
        for entry in &log.entries {
            meta.entries += 1;
            meta.digest.add(&entry.kind);
            let Entry { id, parent, time_ms, kind } = entry;
            let json = serde_json::to_string(kind)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            insert_row(&mut insert, meta.entries, id, parent.as_ref(), *time_ms, &json)?;
        }
    }
    let times = || log.entries.iter().map(|entry| entry.time_ms);
    meta.created_ms = times().min().unwrap_or_default();
    meta.updated_ms = times().max().unwrap_or_default();
    meta.insert(&tx)?;
    meta.update(&tx, &log.meta, true)?;
    tx.commit()
}

/// Completes a [`replace`] that was killed between its last two steps; removes what one killed earlier left.
///
/// # Errors
/// [`StoreError::Io`].
pub(super) fn finish(files: &Files) -> Result<(), StoreError> {
    let path = files.salvage();
    if !path.exists() {
        return Ok(());
    }
    // The damaged file leaves its place only when the new one is complete.
    if !files.db().exists() && files.kept_last().is_some() {
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
