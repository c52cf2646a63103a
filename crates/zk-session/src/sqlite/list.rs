use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zk_core::service::{Lock, SessionFilter, SessionInfo, StoreError, Unreadable};

use super::check::{has_broken_log, is_blank};
use super::db::{FORMAT, connect_read_only};
use super::error::is_damage;
use super::files::{self, Files, Listed, canonical, with_suffix};
use super::lock;
use super::meta::Meta;
use crate::memory::from_millis;

/// Time-out of a listing for a file that is being opened by another process.
const BUSY: Duration = Duration::from_millis(200);

/// Largest lag of file times behind the clock that dates entries.
const TICK: Duration = Duration::from_millis(50);

/// Sessions that match, newest first. Only the `meta` table of each file is read, and of as few files as
/// possible: a file's time is never before that of its last entry.
pub(super) fn list(root: &Path, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
    let mut candidates: Vec<(SystemTime, Listed)> = files::all(root, filter.cwd.as_deref())?
        .into_iter()
        .map(|listed| (last_write(&listed), listed))
        .collect();
    candidates.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let cwd = filter.cwd.as_deref().map(canonical);
    let limit = filter.limit.unwrap_or(usize::MAX);
    let mut found: Vec<SessionInfo> = Vec::new();
    for (time, listed) in candidates {
        let enough = limit.checked_sub(1).is_none_or(|nth| {
            found.get(nth).is_some_and(|info| info.updated >= time.checked_add(TICK).unwrap_or(time))
        });
        if enough {
            break;
        }
        let info = match listed {
            Listed::Db(files) => read(&files, time),
            Listed::Kept(files, kept) => {
                let why = format!("it could not be read and was kept as {}", kept.display());
                Some(info_without_meta(&files, time, Some(Unreadable::Damaged(why))))
            }
        };
        let Some(info) = info else { continue };
        if !filter.unanswered && !info.answered && info.unreadable.is_none() {
            continue;
        }
        // Two directories may share a folder because of a hash collision; a session of unknown directory is
        // in the right folder.
        if cwd.as_ref().is_some_and(|cwd| !info.cwd.as_os_str().is_empty() && info.cwd != *cwd) {
            continue;
        }
        let at = found.partition_point(|other| (other.updated, &other.id) > (info.updated, &info.id));
        found.insert(at, info);
    }
    found.truncate(limit);
    Ok(found)
}

/// Time of the last write to a session's files.
fn last_write(listed: &Listed) -> SystemTime {
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    match listed {
        Listed::Db(files) => time(&files.db()).max(time(&with_suffix(&files.db(), "-wal"))),
        Listed::Kept(_, kept) => time(kept),
    }
    .unwrap_or(UNIX_EPOCH)
}

/// Reads the summary of one session; `None` for a session that was never written.
fn read(files: &Files, touched: SystemTime) -> Option<SessionInfo> {
    match read_meta(files) {
        Ok(Some(meta)) => Some(info(files, meta, holder(files))),
        Ok(None) => None,
        Err(Unread::Busy) => Some(info_without_meta(files, touched, None)),
        Err(Unread::Because(why)) => Some(info_without_meta(files, touched, Some(why))),
    }
}

/// Summary of a session for listings, from its `meta` table.
pub(crate) fn info(files: &Files, meta: Meta, lock: Option<Lock>) -> SessionInfo {
    SessionInfo {
        id: files.id().clone(),
        parent: meta.parent,
        cwd: meta.cwd,
        branch: meta.branch,
        created: from_millis(meta.created_ms),
        updated: from_millis(meta.updated_ms),
        messages: meta.digest.messages,
        branches: meta.branches.max(1),
        title: meta.name.unwrap_or(meta.digest.title),
        answered: meta.digest.answered,
        interrupted: meta.digest.running && lock.is_none(),
        lock,
        unreadable: None,
    }
}

pub(crate) fn holder(files: &Files) -> Option<Lock> {
    lock::holder(files).map(|pid| Lock { pid })
}

enum Unread {
    Busy,
    Because(Unreadable),
}

impl From<rusqlite::Error> for Unread {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Busy,
            _ if is_damage(&error) => Self::damaged(error.to_string()),
            _ => Self::Because(Unreadable::OutOfReach(error.to_string())),
        }
    }
}

impl Unread {
    fn damaged(why: impl Into<String>) -> Self {
        Self::Because(Unreadable::Damaged(why.into()))
    }
}

fn read_meta(files: &Files) -> Result<Option<Meta>, Unread> {
    let path = files.db();
    if files.has_lone_log() {
        return Err(Unread::damaged("its database file is empty beside a write-ahead log"));
    }
    let conn = connect_read_only(&path, BUSY)?;
    let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > FORMAT {
        return Err(Unread::Because(Unreadable::TooNew { found: version, known: FORMAT }));
    }
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // The file is being created, or its process died.
    if tables == 0 {
        let begun = lock::holder(files).is_some();
        let lost = lock::acknowledged_entries(files).unwrap_or_default() > 0 || has_broken_log(&path);
        if begun || (is_blank(&path) && !lost) {
            return Ok(None);
        }
    }
    let meta = Meta::read(&conn)?;
    // The first entry creates the tables.
    if meta.entries == 0 {
        return Err(Unread::damaged("it does not say how many entries it has"));
    }
    Ok(Some(meta))
}

fn info_without_meta(files: &Files, time: SystemTime, unreadable: Option<Unreadable>) -> SessionInfo {
    SessionInfo {
        id: files.id().clone(),
        parent: None,
        cwd: Path::new("").to_path_buf(),
        branch: None,
        created: time,
        updated: time,
        messages: 0,
        branches: 1,
        title: String::new(),
        answered: unreadable.is_none(),
        interrupted: false,
        lock: holder(files),
        unreadable,
    }
}
