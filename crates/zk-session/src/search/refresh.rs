use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};
use zk_core::service::StoreError;

use super::error::SearchError;
use super::file::IndexFile;
use super::text::{Text, TextKind, Texts};
use crate::memory::millis;
use crate::sqlite::db::{FORMAT, connect_read_only};
use crate::sqlite::files::{self, Files, Listed};
use crate::sqlite::meta::{self, Meta, REMOVALS};
use crate::sqlite::row::{self, COLUMNS};

/// Time-out for a session that is being opened by another process.
const BUSY: Duration = Duration::from_millis(200);

/// Lag of file times behind the clock, in milliseconds. A file that changed so shortly before it was indexed is looked
/// at again.
const TICK_MS: u64 = 50;

/// Number of texts after which a transaction ends.
const BATCH_TEXTS: usize = 20_000;

/// Bits of a row's number below its time.
pub(super) const NUMBER_BITS: u32 = 20;

/// Latest time that fits into a row's number, in milliseconds since 1970: in the year 2248.
pub(super) const MAX_TIME_MS: u64 = (1 << (63 - NUMBER_BITS)) - 1;

/// Changes of an index by a refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct Refreshed {
    /// Sessions whose texts left the index, because the sessions are gone.
    pub(super) gone: usize,
    /// Sessions that cannot be read.
    pub(super) unreadable: usize,
}

/// Row of a session in the index.
#[derive(Clone, Debug)]
struct Indexed {
    number: i64,
    name: String,
    files: String,
    indexed_ms: i64,
    last_seq: i64,
    last_sum: i64,
    removals: i64,
    model: Option<String>,
}

/// Session with a changed file.
struct Changed {
    files: Files,
    stamp: String,
    time: SystemTime,
}

/// Brings the index up to date with the sessions of the store under `root`: reads the new entries of changed sessions
/// and forgets sessions that are gone.
pub(super) fn refresh(index: &IndexFile, root: &Path) -> Result<Refreshed, SearchError> {
    let fail = index.error_while("write");
    let mut known = read_indexed(&index.conn).map_err(&fail)?;
    let mut refreshed = Refreshed::default();
    let mut changed = Vec::new();
    let mut present = HashSet::new();
    for listed in files::all(root, None)? {
        let Listed::Db(files) = listed else { continue };
        let Some((stamp, time)) = stamp(&files) else { continue };
        present.insert(files.id().to_string());
        let is_settled = |known: &Indexed| {
            let indexed = u64::try_from(known.indexed_ms).unwrap_or_default();
            known.files == stamp && millis(time).saturating_add(TICK_MS) < indexed
        };
        if !known.get(files.id().as_str()).is_some_and(is_settled) {
            changed.push(Changed { files, stamp, time });
        }
    }
    let gone: Vec<Indexed> = known.extract_if(|id, _| !present.contains(id)).map(|(_, gone)| gone).collect();
    // Oldest first, so that rows are mostly added in order.
    changed.sort_by_key(|changed| changed.time);
    if gone.is_empty() && changed.is_empty() {
        return Ok(refreshed);
    }
    let mut batch = Batch { conn: &index.conn, texts: 0 };
    batch.begin().map_err(&fail)?;
    for session in gone {
        refreshed.gone += 1;
        remove_texts(&index.conn, session.number).map_err(&fail)?;
        let remove = "DELETE FROM sessions WHERE number = ?1";
        index.conn.execute(remove, [session.number]).map_err(&fail)?;
    }
    for session in &changed {
        let before = known.remove(session.files.id().as_str());
        match add_session(&mut batch, session, before) {
            Ok(()) => {}
            Err(Failed::Session) => refreshed.unreadable += 1,
            Err(Failed::Index(error)) => return Err(fail(error)),
        }
        batch.end_if_full().map_err(&fail)?;
    }
    index.conn.execute_batch("COMMIT").map_err(&fail)?;
    Ok(refreshed)
}

/// Number of indexed sessions that are gone.
pub(super) fn count_gone(index: &IndexFile, root: &Path) -> Result<usize, SearchError> {
    let known = read_indexed(&index.conn).map_err(index.error_while("read"))?;
    let present: HashSet<String> = files::all(root, None)
        .map_err(|error: StoreError| SearchError::Store(error))?
        .into_iter()
        .filter_map(|listed| match listed {
            Listed::Db(files) => Some(files.id().to_string()),
            Listed::Kept(..) => None,
        })
        .collect();
    Ok(known.keys().filter(|id| !present.contains(*id)).count())
}

/// Open transaction on the index.
struct Batch<'a> {
    conn: &'a Connection,
    texts: usize,
}

impl Batch<'_> {
    fn begin(&mut self) -> rusqlite::Result<()> {
        self.texts = 0;
        self.conn.execute_batch("BEGIN IMMEDIATE")
    }

    fn end_if_full(&mut self) -> rusqlite::Result<()> {
        if self.texts < BATCH_TEXTS {
            return Ok(());
        }
        self.conn.execute_batch("COMMIT")?;
        self.begin()
    }
}

enum Failed {
    /// The session cannot be read.
    Session,
    /// The index cannot be written.
    Index(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error)
    }
}

/// Fingerprint of a session's files (identity, sizes and times), and the time of their last change. `None` for a
/// session whose log SQLite would delete, or that is gone.
fn stamp(files: &Files) -> Option<(String, SystemTime)> {
    if files.has_lone_log() {
        return None;
    }
    let db = fs::metadata(files.db()).ok()?;
    let log = fs::metadata(files.log()).ok();
    let of = |meta: &fs::Metadata| {
        format!("{}:{}:{}:{}.{}", meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
    };
    let stamp = format!("{} {}", of(&db), log.as_ref().map(of).unwrap_or_default());
    let times = [Some(&db), log.as_ref()].into_iter().flatten().filter_map(|meta| meta.modified().ok());
    Some((stamp, times.max()?))
}

fn read_indexed(conn: &Connection) -> rusqlite::Result<HashMap<String, Indexed>> {
    let mut select = conn.prepare(
        "SELECT id, number, name, files, indexed_ms, last_seq, last_sum, removals, model FROM sessions",
    )?;
    let known = select.query_map([], |row| {
        let indexed = Indexed {
            number: row.get(1)?,
            name: row.get(2)?,
            files: row.get(3)?,
            indexed_ms: row.get(4)?,
            last_seq: row.get(5)?,
            last_sum: row.get(6)?,
            removals: row.get(7)?,
            model: row.get(8)?,
        };
        Ok((row.get(0)?, indexed))
    })?;
    known.collect()
}

/// Removes the texts of a session from the index.
fn remove_texts(conn: &Connection, session: i64) -> rusqlite::Result<()> {
    let words = "DELETE FROM words WHERE rowid IN (SELECT number FROM texts WHERE session = ?1)";
    conn.prepare_cached(words)?.execute([session])?;
    conn.prepare_cached("DELETE FROM texts WHERE session = ?1")?.execute([session]).map(drop)
}

/// Indexes the new entries of a session, and its name if that changed.
fn add_session(batch: &mut Batch<'_>, changed: &Changed, before: Option<Indexed>) -> Result<(), Failed> {
    let conn = batch.conn;
    let session = connect_read_only(&changed.files.db(), BUSY).map_err(|_| Failed::Session)?;
    let moment = session.unchecked_transaction().map_err(|_| Failed::Session)?;
    let Some((info, removals)) = read_info(&session).map_err(|_| Failed::Session)? else { return Ok(()) };
    let before = match before {
        Some(before) if before.removals == removals && has_row(&session, &before) => before,
        Some(rewritten) => {
            remove_texts(conn, rewritten.number)?;
            Indexed { last_seq: 0, last_sum: 0, removals, model: None, name: String::new(), ..rewritten }
        }
        None => new_session(conn, changed.files.id().as_str(), removals)?,
    };
    let mut texts = Texts::default();
    texts.model.clone_from(&before.model);
    let (mut last_seq, mut last_sum) = (before.last_seq, before.last_sum);
    let query = format!("SELECT {COLUMNS} FROM entries WHERE seq > ?1 ORDER BY seq");
    let mut select = session.prepare(&query).map_err(|_| Failed::Session)?;
    // Results in the new rows need the tool names of their calls, which may be in the last indexed row.
    read_tools_before(&session, &mut texts, before.last_seq);
    let mut rows = select.query([before.last_seq]).map_err(|_| Failed::Session)?;
    let mut is_read = true;
    loop {
        let read = match rows.next() {
            Ok(Some(found)) => row::read(found).and_then(|read| Ok((read, found.get::<_, i64>(5)?))),
            Ok(None) => break,
            Err(error) => Err(error),
        };
        let Ok(((seq, read), sum)) = read else {
            is_read = false;
            break;
        };
        (last_seq, last_sum) = (seq, sum);
        let Ok(entry) = read else { continue };
        for text in texts.read_entry(&entry.kind) {
            add_text(conn, before.number, seq, entry.time_ms, &text)?;
            batch.texts += 1;
        }
    }
    drop(rows);
    drop(select);
    let _ = moment.finish();
    let name = info.name.clone().unwrap_or_default();
    if name != before.name {
        let title = "SELECT number FROM texts WHERE session = ?1 AND seq = 0";
        let old: Option<i64> = conn.query_row(title, [before.number], |row| row.get(0)).optional()?;
        if let Some(old) = old {
            conn.execute("DELETE FROM words WHERE rowid = ?1", [old])?;
            conn.execute("DELETE FROM texts WHERE number = ?1", [old])?;
        }
        if !name.is_empty() {
            let text = Text { kind: TextKind::Title, text: name.clone(), tool: None, model: None };
            add_text(conn, before.number, 0, info.updated_ms, &text)?;
        }
    }
    // With an empty fingerprint, the next refresh reads the unreadable rest again.
    let stamp = if is_read { changed.stamp.as_str() } else { "" };
    let cwd = info.cwd.to_string_lossy();
    let title = info.name.as_ref().unwrap_or(&info.digest.title);
    let to_i64 = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let indexed_ms = to_i64(millis(SystemTime::now()));
    conn.prepare_cached(
        "UPDATE sessions SET cwd = ?2, title = ?3, name = ?4, updated_ms = ?5, files = ?6, indexed_ms = ?7,
         last_seq = ?8, last_sum = ?9, removals = ?10, model = ?11 WHERE number = ?1",
    )?
    .execute(params![
        before.number,
        cwd,
        title,
        name,
        to_i64(info.updated_ms),
        stamp,
        indexed_ms,
        last_seq,
        last_sum,
        removals,
        texts.model
    ])?;
    if is_read { Ok(()) } else { Err(Failed::Session) }
}

/// Reads the summary of a session, and the number of content removals in it; `None` if nothing was written to it yet.
///
/// # Errors
/// SQLite's own, also for a session of a newer zk.
fn read_info(session: &Connection) -> rusqlite::Result<Option<(Meta, i64)>> {
    let version: u32 = session.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > FORMAT {
        return Err(rusqlite::Error::InvalidQuery);
    }
    let tables: i64 = session.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(None);
    }
    let removals = meta::read_number(session, REMOVALS)?.unwrap_or_default();
    Ok(Some((Meta::read(session)?, removals)))
}

/// Whether the session still has its last indexed row, unchanged.
fn has_row(session: &Connection, before: &Indexed) -> bool {
    let sum =
        session.query_row("SELECT sum FROM entries WHERE seq = ?1", [before.last_seq], |row| row.get(0));
    before.last_seq == 0 || sum == Ok(before.last_sum)
}

fn new_session(conn: &Connection, id: &str, removals: i64) -> rusqlite::Result<Indexed> {
    let insert = "INSERT INTO sessions(id, cwd, title, name, updated_ms, files, indexed_ms, last_seq, last_sum, removals)
                  VALUES(?1, '', '', '', 0, '', 0, 0, 0, 0)";
    conn.prepare_cached(insert)?.execute([id])?;
    Ok(Indexed {
        number: conn.last_insert_rowid(),
        name: String::new(),
        files: String::new(),
        indexed_ms: 0,
        last_seq: 0,
        last_sum: 0,
        removals,
        model: None,
    })
}

/// Reads the tool names of the calls in the last indexed row: their results may be in the first new one.
fn read_tools_before(session: &Connection, texts: &mut Texts, last_seq: i64) {
    let query = format!("SELECT {COLUMNS} FROM entries WHERE seq = ?1");
    let Ok(mut select) = session.prepare(&query) else { return };
    let Ok(mut rows) = select.query([last_seq]) else { return };
    if let Ok(Some(found)) = rows.next()
        && let Ok((_, Ok(entry))) = row::read(found)
    {
        texts.read_entry(&entry.kind);
    }
}

fn add_text(conn: &Connection, session: i64, seq: i64, time_ms: u64, text: &Text) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO texts(number, session, seq, kind, tool, model) VALUES(?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT(number) DO NOTHING",
    )?;
    let mut number = first_number(time_ms) | (seq & ((1 << NUMBER_BITS) - 1));
    // Texts of one entry, and of sessions that were written at once, take the next free numbers.
    while insert.execute(params![number, session, seq, text.kind.name(), text.tool, text.model])? == 0 {
        number = number.saturating_add(1);
    }
    conn.prepare_cached("INSERT INTO words(rowid, text) VALUES(?1, ?2)")?
        .execute(params![number, text.text])?;
    Ok(())
}

/// Lowest row number of the index for a text of this time.
pub(super) fn first_number(time_ms: u64) -> i64 {
    i64::try_from(time_ms.min(MAX_TIME_MS)).unwrap_or_default() << NUMBER_BITS
}
