use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use zk_core::model::SessionId;
use zk_core::service::{LiveEntries, StoreError, make_private_dir};

use super::check::{self, Access, Branches, Checked, Log, Part};
use super::db::{Db, connect, connect_briefly, prepare};
use super::error::store_error;
use super::files::{self, Files, canonical, with_suffix};
use super::lock::SessionLock;
use super::meta::{self, Meta};
use super::recovery;
use super::row::Unreadable;
use crate::find::{is_valid_id, near_match};
use crate::memory::exists_error;

/// Session that this process has open for writing. The lock is released last.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) db: Db,
    pub(crate) files: Files,
    /// Entries of the resumed conversation at the time of opening, until a caller takes them.
    pub(crate) live: Option<LiveEntries>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) notices: Vec<String>,
    /// Device and inode of the opened file, by which a file that replaced it is noticed.
    pub(crate) file: Option<(u64, u64)>,
    pub(crate) lock: SessionLock,
}

/// Parameters of a session that is not on disk yet.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) root: PathBuf,
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    pub(super) parent: Option<SessionId>,
}

/// Creates the file of a new session, without tables.
///
/// # Errors
/// [`StoreError`]; only folders are left on disk then.
pub(super) fn create(plan: &Plan) -> Result<Opened, StoreError> {
    if !is_valid_id(&plan.id) {
        return Err(StoreError::Failed(format!(
            "`{}` cannot be the id of a session: use up to 100 letters, digits, `-` and `_`",
            plan.id
        )));
    }
    let files = Files::of_project(&plan.root, &plan.cwd, &plan.id);
    make_private_dir(files.dir()).map_err(|source| io_error("create the folder", files.dir(), source))?;
    let lock = SessionLock::take(&files)?;
    let path = files.db();
    if files.kept_last().is_some() || files.has_lone_log() {
        return Err(exists_error(&plan.id));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists_error(&plan.id)),
        Err(source) => return Err(io_error("create", &path, source)),
    }
    let meta = Meta { cwd: canonical(&plan.cwd), parent: plan.parent.clone(), ..Meta::default() };
    match connect(&path).and_then(|conn| prepare(&conn, true).map(|_| conn)) {
        Ok(conn) => Ok(Opened {
            db: Db::without_tables(conn, meta),
            file: identity(&path),
            files,
            live: None,
            cwd: Some(plan.cwd.clone()),
            notices: Vec::new(),
            lock,
        }),
        Err(error) => {
            let error = store_error(&error, "create", &path, &plan.id);
            discard(&files);
            Err(error)
        }
    }
}

/// Removes the file of a session that was never written.
pub(super) fn discard(files: &Files) {
    let db = files.db();
    for path in [with_suffix(&db, "-wal"), with_suffix(&db, "-shm"), with_suffix(&db, "-journal"), db] {
        let _ = fs::remove_file(path);
    }
}

/// Opens and checks an existing session. If a compaction left out more than `back` bytes, the rows before
/// them are not read.
///
/// # Errors
/// [`StoreError`]. An error never loses a byte of the session's files.
pub(crate) fn open(root: &Path, id: &SessionId, back: u64) -> Result<Opened, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let lock = SessionLock::take(&files)?;
    open_locked(files, lock, back)
}

/// Opens a session for a leg whose lease has this token. Writers with older leases may have it open: they are fenced first.
///
/// # Errors
/// As [`open`]; [`StoreError::Fenced`] for an older token.
pub(super) fn open_leased(root: &Path, id: &SessionId, back: u64, token: i64) -> Result<Opened, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let lock = SessionLock::take_for_lease(&files)?;
    let (path, is_shared) = (files.db(), lock.is_shared());
    let claim = |conn: &Connection| match meta::claim_lease(conn, token) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Fenced { id: id.clone() }),
        Err(error) => Err(store_error(&error, "take the lease of", &path, id)),
    };
    let mut opened = if is_shared {
        claim(&connect_briefly(&path).map_err(|error| store_error(&error, "open", &path, id))?)?;
        open_beside(files, lock, back)?
    } else {
        let mut opened = open_locked(files.clone(), lock, back)?;
        if !opened.db.has_tables() {
            return Err(StoreError::Refused(format!(
                "session `{id}` is empty; give it a first entry before a leg"
            )));
        }
        claim(opened.db.connection())?;
        opened.lock.share(&files)?;
        opened
    };
    opened.db.set_lease(token);
    opened.lock.record_entries(opened.db.entries());
    Ok(opened)
}

/// Opens a session beside a writer that was fenced. Nothing is recovered, since that writer may still have the files open.
fn open_beside(files: Files, lock: SessionLock, back: u64) -> Result<Opened, StoreError> {
    let (path, id) = (files.db(), files.id().clone());
    let access = Access { writes: true, beside_a_writer: true, ..Access::default() };
    let conn = connect_to(&path, &id)?;
    if let Some(part) = check::check_part(&conn, &path, access, back) {
        return with_part(conn, part, files, Vec::new(), lock);
    }
    let (checked, log) = examine(&conn, &path, &id, access)?;
    match checked {
        Checked::Whole(_) if log.unreadable.is_empty() => {
            let Log { meta, entries, index, notices, .. } = log;
            set_up(&conn, false, &path, &id)?;
            let leaf = entries.last().map(|entry| entry.id.clone());
            let cwd = known_cwd(&meta);
            let (db, live) = (Db::existing(conn, meta, index, leaf), Some(LiveEntries::whole(entries)));
            Ok(Opened { file: identity(&path), db, files, live, cwd, notices, lock })
        }
        Checked::TooNew(found) => Err(StoreError::TooNew { id, found, known: super::db::FORMAT }),
        Checked::Whole(_) | Checked::Empty | Checked::Damaged(_) => Err(StoreError::Refused(format!(
            "session `{id}` needs a repair, and another worker still has it open; end that process first"
        ))),
    }
}

/// Opens a session whose lock is held.
fn open_locked(files: Files, lock: SessionLock, back: u64) -> Result<Opened, StoreError> {
    let id = &files.id().clone();
    recovery::finish_interrupted(&files)?;
    let path = files.db();
    let mut notices = Vec::new();
    let mut access = Access { writes: true, acknowledged: lock.acknowledged_entries(), ..Access::default() };
    if files.has_lone_log() {
        let (mut why, log) = recovery::read_lone_log(&files)?;
        let found = log.entries.len() + log.unreadable.len();
        if let Some(lost) = missing_message(access.acknowledged, found) {
            why = format!("{why}; {lost}");
        }
        notices.push(rescue(&files, &why, &log)?);
        access.acknowledged = None;
    }
    if !path.exists() {
        return Err(match files.kept_last() {
            Some(kept) => damaged_error(id, "it could not be read when it was last opened", kept),
            None => StoreError::NotFound { id: id.to_string(), hint: String::new() },
        });
    }
    if !is_plain(&path) {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "it is not a regular file");
        return Err(io_error("open", &path, source));
    }
    let mut conn = connect_to(&path, id)?;
    if let Some(part) = check::check_part(&conn, &path, access, back) {
        let mut opened = with_part(conn, part, files, notices, lock)?;
        opened.lock.record_entries(opened.db.entries());
        return Ok(opened);
    }
    let (mut checked, mut log) = examine(&conn, &path, id, access)?;
    if let Checked::Damaged(why) = checked {
        drop(log);
        let rescued = check::read_readable(&conn, &path);
        drop(conn);
        notices.push(rescue(&files, &why, &rescued)?);
        drop(rescued);
        conn = connect_to(&path, id)?;
        (checked, log) = examine(&conn, &path, id, Access { acknowledged: None, ..access })?;
    }
    let (db, cwd, live) = match checked {
        Checked::Empty => {
            set_up(&conn, true, &path, id)?;
            notices.push(format!("session `{id}` is empty: it was begun and nothing was written to it"));
            (Db::without_tables(conn, Meta::default()), None, None)
        }
        Checked::TooNew(found) => {
            return Err(StoreError::TooNew { id: id.clone(), found, known: super::db::FORMAT });
        }
        Checked::Damaged(why) => return Err(damaged_error(id, &why, path)),
        Checked::Whole(_) => {
            let Log { meta, entries, unreadable, index, notices: of_tree } = log;
            notices.extend(of_tree);
            recovery::quarantine(&files, &unreadable)?;
            notices.extend(unreadable_notice(id, &unreadable, Some(&files.quarantine())));
            set_up(&conn, false, &path, id)?;
            if check::is_large(&path, back)
                && unreadable.is_empty()
                && matches!(meta::read_index(&conn), Ok(None))
            {
                // Without the stored index, the next open reads the whole session again.
                let _ = meta::write_index(&conn, &index);
            }
            // From here on only appends follow, so the page cache is not needed.
            let _ = conn.execute_batch("PRAGMA shrink_memory");
            let leaf = entries.last().map(|entry| entry.id.clone());
            let cwd = known_cwd(&meta);
            (Db::existing(conn, meta, index, leaf), cwd, Some(LiveEntries::whole(entries)))
        }
    };
    let mut opened = Opened { file: identity(&path), db, files, live, cwd, notices, lock };
    opened.lock.record_entries(opened.db.entries());
    Ok(opened)
}

/// Continues a session of which only a part was read.
fn with_part(
    conn: Connection,
    part: Part,
    files: Files,
    notices: Vec<String>,
    lock: SessionLock,
) -> Result<Opened, StoreError> {
    let path = files.db();
    let Part { meta, index, is_new, live } = part;
    set_up(&conn, false, &path, files.id())?;
    if is_new {
        // Without the stored index, the next open reads the whole session again.
        let _ = meta::write_index(&conn, &index);
    }
    let _ = conn.execute_batch("PRAGMA shrink_memory");
    let leaf = live.entries.last().map(|entry| entry.id.clone());
    let cwd = known_cwd(&meta);
    let db = Db::existing(conn, meta, index, leaf);
    Ok(Opened { file: identity(&path), db, files, live: Some(live), cwd, notices, lock })
}

fn known_cwd(meta: &Meta) -> Option<PathBuf> {
    Some(meta.cwd.clone()).filter(|cwd| !cwd.as_os_str().is_empty())
}

/// Message about acknowledged entries that are missing; `None` if none is.
fn missing_message(acknowledged: Option<i64>, found: usize) -> Option<String> {
    let found = i64::try_from(found).unwrap_or(i64::MAX);
    acknowledged
        .filter(|all| *all > found)
        .map(|all| format!("{all} entries were stored and {found} are there"))
}

/// Notice about unreadable rows, if there are any.
pub(super) fn unreadable_notice(id: &SessionId, rows: &[Unreadable], kept: Option<&Path>) -> Option<String> {
    let were = if rows.len() == 1 { "was" } else { "were" };
    let see = kept.map_or(String::new(), |kept| format!("; see {}", kept.display()));
    let rows = (!rows.is_empty()).then(|| entries_text(rows.len()))?;
    Some(format!("{rows} of session `{id}` cannot be read and {were} left out{see}"))
}

/// Device and inode of the file at `path`.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether the path is a regular file, and no link to another place.
pub(super) fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

pub(super) fn connect_to(path: &Path, id: &SessionId) -> Result<Connection, StoreError> {
    connect(path).map_err(|error| store_error(&error, "open", path, id))
}

fn examine(
    conn: &Connection,
    path: &Path,
    id: &SessionId,
    access: Access,
) -> Result<(Checked, Log), StoreError> {
    check::check_all(conn, path, access, Branches::Present)
        .map_err(|error| store_error(&error, "read", path, id))
}

pub(super) fn set_up(conn: &Connection, fresh: bool, path: &Path, id: &SessionId) -> Result<(), StoreError> {
    prepare(conn, fresh).map(|_| ()).map_err(|error| store_error(&error, "write", path, id))
}

/// Replaces a damaged file by its readable part, and keeps the damaged one. Returns the notice.
fn rescue(files: &Files, why: &str, log: &Log) -> Result<String, StoreError> {
    recovery::quarantine(files, &log.unreadable)?;
    if log.entries.is_empty() {
        let kept = files.put_aside()?;
        return Err(damaged_error(files.id(), why, kept));
    }
    let kept = recovery::replace(files, log)?;
    Ok(format!(
        "session `{}` was damaged ({why}): {} could be read; the damaged file was kept as {}",
        files.id(),
        entries_text(log.entries.len()),
        kept.display()
    ))
}

pub(crate) fn entries_text(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

pub(crate) fn damaged_error(id: &SessionId, why: &str, kept: PathBuf) -> StoreError {
    StoreError::Damaged { id: id.clone(), why: why.to_owned(), kept }
}

/// Error for an unknown session `id`, with the most similar id.
pub(crate) fn not_found(root: &Path, id: &SessionId) -> StoreError {
    let ids = files::all(root, None).unwrap_or_default().into_iter().map(|listed| match listed {
        files::Listed::Db(files) | files::Listed::Kept(files, _) => files.id().to_string(),
    });
    StoreError::NotFound { id: id.to_string(), hint: near_match(id.as_str(), ids) }
}

pub(crate) fn io_error(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { doing, path: path.to_path_buf(), source }
}
