use std::ops::ControlFlow;
use std::path::Path;

use zk_core::model::SessionId;
use zk_core::service::{Entry, LiveEntries, SessionScan, SessionSnapshot, StoreError};

use super::check::{self, Access, Branches, Checked, Log, Rows, Visit};
use super::db::{BUSY, FORMAT, connect_read_only};
use super::error::store_error;
use super::files::Files;
use super::list::info;
use super::open::{damaged_error, entries_text, not_found, unreadable_notice};
use super::row::{self, COLUMNS};
use super::tree::Tree;
use super::{list, lock};

/// Reads a session without its lock and without changes: damage is left to the next writer.
///
/// # Errors
/// [`StoreError`].
pub(super) fn read(root: &Path, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
    let mut log = Log::default();
    let SessionScan { info, notices } = scan(root, id, &mut |entry, _| {
        log.add_row(Ok(entry));
        ControlFlow::Continue(())
    })?;
    Ok(SessionSnapshot { info, entries: log.entries, notices })
}

/// Reads only the entries that a resumed conversation needs, like [`read`].
///
/// # Errors
/// [`StoreError`].
pub(super) fn read_live(root: &Path, id: &SessionId, back: u64) -> Result<LiveEntries, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let path = files.db();
    if path.exists() && !files.has_lone_log() {
        let fail = |error: rusqlite::Error| store_error(&error, "read", &path, id);
        let conn = connect_read_only(&path, BUSY).map_err(fail)?;
        if let Some(part) = check::check_part(&conn, &path, unlocked_access(&files), back) {
            return Ok(part.live);
        }
    }
    Ok(LiveEntries::whole(read(root, id)?.entries))
}

/// Access of a reader that does not hold the lock of the session.
fn unlocked_access(files: &Files) -> Access {
    let beside_a_writer = lock::holder(files).is_some();
    let acknowledged = lock::acknowledged_entries(files).filter(|_| !beside_a_writer);
    Access { writes: false, beside_a_writer, acknowledged }
}

/// Visits the entries of the present branch one by one, like [`read`].
///
/// # Errors
/// [`StoreError`].
pub(super) fn scan<'a>(
    root: &Path,
    id: &SessionId,
    visitor: &'a mut Visit<'a>,
) -> Result<SessionScan, StoreError> {
    visit(root, id, Branches::Present, visitor)
}

/// Visits the entries of all branches one by one, in the order of writing.
///
/// # Errors
/// [`StoreError`].
pub(super) fn scan_tree<'a>(
    root: &Path,
    id: &SessionId,
    visitor: &'a mut Visit<'a>,
) -> Result<SessionScan, StoreError> {
    visit(root, id, Branches::All, visitor)
}

/// Visits the entries of the given branches one by one.
///
/// # Errors
/// [`StoreError`].
pub(super) fn visit<'a>(
    root: &Path,
    id: &SessionId,
    branches: Branches,
    visit: &'a mut Visit<'a>,
) -> Result<SessionScan, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let path = files.db();
    if files.has_lone_log() {
        let why = "its database file is empty; its write-ahead log is read when the session is resumed";
        return Err(damaged_error(id, why, files.log()));
    }
    if !path.exists() {
        let kept = files.kept_last().unwrap_or(path);
        return Err(damaged_error(id, "it could not be read when it was last opened", kept));
    }
    let access = unlocked_access(&files);
    let fail = |error: rusqlite::Error| store_error(&error, "read", &path, id);
    let conn = connect_read_only(&path, BUSY).map_err(fail)?;
    let mut notices = Vec::new();
    let mut rows = Rows::new(visit, branches);
    let meta = match check::check(&conn, &path, access, &mut rows).map_err(fail)? {
        Checked::Whole(meta) => meta,
        Checked::Empty => return Err(not_found(root, id)),
        Checked::TooNew(found) => {
            return Err(StoreError::TooNew { id: id.clone(), found, known: FORMAT });
        }
        Checked::Damaged(why) => {
            let meta = check::visit_readable(&conn, &path, &mut rows);
            if rows.entries == 0 {
                return Err(damaged_error(id, &why, path));
            }
            notices.push(format!(
                "session `{id}` is damaged ({why}): {} can be read",
                entries_text(rows.entries)
            ));
            meta
        }
    };
    notices.append(&mut rows.notices);
    notices.extend(unreadable_notice(id, &rows.unreadable, None));
    let info = info(&files, meta, list::holder(&files));
    Ok(SessionScan { info, notices })
}

/// Last entries of a session, back to an unreadable one. The rest of the file is not checked.
///
/// # Errors
/// [`StoreError`].
pub(super) fn last_entries(root: &Path, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
    let Some(files) = Files::find(root, id)? else { return Err(not_found(root, id)) };
    let path = files.db();
    let fail = |error: rusqlite::Error| store_error(&error, "read", &path, id);
    let conn = connect_read_only(&path, BUSY).map_err(fail)?;
    let last: Option<i64> =
        conn.query_row("SELECT max(seq) FROM entries", [], |row| row.get(0)).map_err(fail)?;
    let last = last.unwrap_or_default();
    let branch = Tree::read(&conn, last).map_err(fail)?.moves.branch(last);
    let query =
        format!("SELECT {COLUMNS} FROM entries WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?3");
    let mut select = conn.prepare(&query).map_err(fail)?;
    let mut entries = Vec::new();
    'rows: for range in branch.iter().rev() {
        let most = i64::try_from(most.saturating_sub(entries.len())).unwrap_or(i64::MAX);
        let mut rows = select.query((range.start(), range.end(), most)).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            let (_, Ok(entry)) = row::read(row).map_err(fail)? else { break 'rows };
            entries.push(entry);
        }
    }
    entries.reverse();
    Ok(entries)
}
