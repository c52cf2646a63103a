use std::fs;
use std::ops::ControlFlow;
use std::ops::RangeInclusive;
use std::path::Path;

use rusqlite::{Connection, Row, Statement};
use zk_core::service::{Entry, EntryKind, LiveEntries, read_regular};

use super::db::FORMAT;
use super::error::is_damage;
use super::files::with_suffix;
use super::meta::{self, Meta};
use super::row::{self, COLUMNS, KIND_COLUMN, Unreadable};
use super::tree::{self, Tree};
use super::wal;
use crate::index::Index;
use crate::moves::Moves;

/// Result of the check of an existing file.
#[derive(Debug)]
pub(super) enum Checked {
    /// Created, and never written.
    Empty,
    /// Written by a newer program.
    TooNew(u32),
    /// The read entries are complete. Single entries may be unreadable.
    Whole(Meta),
    /// Damaged: entries are missing or cannot be reached.
    Damaged(String),
}

/// Rights to a session's files during a check, and the entries that must be there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Access {
    /// Whether this process holds the session's lock.
    pub(super) writes: bool,
    /// Whether another process may be writing the session.
    pub(super) beside_a_writer: bool,
    /// Number of entries that a killed owner had acknowledged.
    pub(super) acknowledged: Option<i64>,
}

/// Entries of a whole log.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) meta: Meta,
    pub(super) entries: Vec<Entry>,
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) index: Index,
    pub(super) notices: Vec<String>,
}

/// Branches that are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branches {
    /// The present branch only, from its root to the leaf.
    Present,
    /// All of them, in the order of writing.
    All,
}

/// Entries of a log that a conversation needs, if its beginning was left out and is large.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) meta: Meta,
    pub(super) index: Index,
    /// Whether the index has to be stored, because the file has none.
    pub(super) is_new: bool,
    pub(super) live: LiveEntries,
}

/// Visitor of a log's entries, with the bytes of each entry in the file.
pub(super) type Visit<'a> = dyn FnMut(Entry, usize) -> ControlFlow<()> + 'a;

/// Reader state while a log's rows are visited; entries themselves are not kept.
pub(super) struct Rows<'a> {
    visit: &'a mut Visit<'a>,
    branches: Branches,
    /// Number of the last row read.
    seq: i64,
    /// Number of readable entries.
    pub(super) entries: usize,
    pub(super) unreadable: Vec<Unreadable>,
    /// Notices about branches.
    pub(super) notices: Vec<String>,
    /// Index of the rows, if requested.
    index: Option<Index>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(visit: &'a mut Visit<'a>, branches: Branches) -> Self {
        Self { visit, branches, seq: 0, entries: 0, unreadable: Vec::new(), notices: Vec::new(), index: None }
    }

    /// Reader of the present branch from row `from` on, which extends `index`.
    fn indexed(visit: &'a mut Visit<'a>, from: i64, index: Index) -> Self {
        Self { seq: from - 1, index: Some(index), ..Self::new(visit, Branches::Present) }
    }

    /// Returns the ranges of rows that are still to be visited, up to row `last`.
    fn ranges(&mut self, conn: &Connection, last: i64) -> rusqlite::Result<Vec<RangeInclusive<i64>>> {
        let ranges = match self.branches {
            Branches::All => vec![1..=last],
            Branches::Present => {
                let Tree { moves, notices } = Tree::read(conn, last)?;
                self.notices.extend(notices);
                let ranges = moves.branch(last);
                if let Some(index) = &mut self.index {
                    index.set_moves(moves);
                }
                ranges
            }
        };
        Ok(tree::since(ranges, self.seq + 1))
    }

    fn visit_row(&mut self, row: ReadRow) -> ControlFlow<()> {
        self.seq = row.seq;
        if let Some(index) = &mut self.index {
            match &row.read {
                Ok(entry) => index.add(row.seq, &entry.kind),
                Err(_) => index.skip_unreadable(row.seq),
            }
        }
        match row.read {
            Ok(entry) => {
                self.entries += 1;
                (self.visit)(entry, row.bytes)
            }
            Err(row) => {
                self.unreadable.push(row);
                ControlFlow::Continue(())
            }
        }
    }
}

/// Owned copy of a row.
struct ReadRow {
    seq: i64,
    read: Result<Entry, Unreadable>,
    /// Bytes of the entry's content in the file.
    bytes: usize,
}

impl ReadRow {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (seq, read) = row::read(row)?;
        Ok(Self { seq, read, bytes: row.get_ref(KIND_COLUMN)?.as_bytes().map_or(0, <[u8]>::len) })
    }
}

/// Maximum number of rows in memory at a time.
const MAX_BATCH_ROWS: usize = 256;
/// Bytes of entries after which a batch ends early.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// Reads a batch of rows after `after`, up to `last`. No transaction stays open while rows are visited, since
/// a visitor may block for as long as a person reads a page. Returns the rows before an error together with
/// the error.
fn read_batch(select: &mut Statement<'_>, after: i64, last: i64) -> (Vec<ReadRow>, rusqlite::Result<()>) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut read = || {
        let mut rows = select.query([after, last])?;
        while batch.len() < MAX_BATCH_ROWS
            && bytes < MAX_BATCH_BYTES
            && let Some(row) = rows.next()?
        {
            let row = ReadRow::of(row)?;
            bytes += row.bytes;
            batch.push(row);
        }
        Ok(())
    };
    let end = read();
    (batch, end)
}

/// Default page size of SQLite, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Size in bytes of the headers at the beginning of an empty first page.
const PAGE_HEAD_BYTES: usize = 112;

/// Reads and checks all further rows of a log, one by one, without changing the file.
///
/// # Errors
/// SQLite's error when the cause is not the file's content.
pub(super) fn check(
    conn: &Connection,
    path: &Path,
    access: Access,
    rows: &mut Rows<'_>,
) -> rusqlite::Result<Checked> {
    match scan(conn, path, access, rows) {
        Err(error) if is_damage(&error) => Ok(Checked::Damaged(error.to_string())),
        other => other,
    }
}

/// Checks as [`check`] does, and keeps all entries in memory.
///
/// # Errors
/// As [`check`].
pub(super) fn check_all(
    conn: &Connection,
    path: &Path,
    access: Access,
    branches: Branches,
) -> rusqlite::Result<(Checked, Log)> {
    let mut log = Log::default();
    let mut visit = |entry, _| log.push(entry);
    let mut rows = match branches {
        Branches::Present => Rows::indexed(&mut visit, 1, Index::default()),
        Branches::All => Rows::new(&mut visit, Branches::All),
    };
    let checked = check(conn, path, access, &mut rows)?;
    let Rows { unreadable, notices, index, .. } = rows;
    (log.unreadable, log.notices, log.index) = (unreadable, notices, index.unwrap_or_default());
    if let Checked::Whole(meta) = &checked {
        log.meta = meta.clone();
    }
    Ok((checked, log))
}

fn scan(conn: &Connection, path: &Path, access: Access, rows: &mut Rows<'_>) -> rusqlite::Result<Checked> {
    let damaged = |why: &str| Ok(Checked::Damaged(why.to_owned()));
    // One transaction, so that the count and the last row are from the same moment. Later entries only
    // follow, and none changes.
    let moment = conn.unchecked_transaction()?;
    let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > FORMAT {
        return Ok(Checked::TooNew(version));
    }
    if !access.beside_a_writer && has_broken_log(path) {
        return damaged("its write-ahead log was changed");
    }
    let acknowledged = access.acknowledged.unwrap_or_default();
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return match (is_blank(path), acknowledged) {
            (true, 0) => Ok(Checked::Empty),
            (true, _) => Ok(Checked::Damaged(missing_entries_message(acknowledged, 0))),
            (false, _) => damaged("there are no tables in it"),
        };
    }
    if version == 0 {
        return damaged("it does not say which format it has");
    }
    // SQLite silently opens a file read-only if its header asks for a newer writer.
    if access.writes && conn.is_readonly("main")? && fs::OpenOptions::new().write(true).open(path).is_ok() {
        return damaged("its header was changed");
    }
    let meta = Meta::read(conn)?;
    let last = conn.query_row("SELECT max(seq) FROM entries", [], |row| row.get::<_, Option<i64>>(0))?;
    let ranges = rows.ranges(conn, last.unwrap_or_default())?;
    moment.finish()?;
    let query = format!("SELECT {COLUMNS} FROM entries WHERE seq > ?1 AND seq <= ?2 ORDER BY seq");
    let mut select = conn.prepare(&query)?;
    let mut seq = rows.seq;
    for range in ranges {
        seq = range.start() - 1;
        let mut after = if seq == 0 { i64::MIN } else { seq };
        while seq < *range.end() {
            let (batch, end) = read_batch(&mut select, after, *range.end());
            let is_last = batch.is_empty();
            for row in batch {
                seq += 1;
                if row.seq != seq {
                    return Ok(Checked::Damaged(format!("entry {seq} is missing")));
                }
                if rows.visit_row(row).is_break() {
                    return Ok(Checked::Whole(meta));
                }
            }
            end?;
            if is_last {
                return Ok(Checked::Damaged(format!("entry {} is missing", seq + 1)));
            }
            after = seq;
        }
    }
    if seq != meta.entries || seq == 0 {
        return Ok(Checked::Damaged(format!("{} entries were written, {seq} are there", meta.entries)));
    }
    if seq < acknowledged {
        return Ok(Checked::Damaged(missing_entries_message(acknowledged, seq)));
    }
    // With an acknowledged count, missing entries would be noticed, so a cut log does no harm.
    if access.acknowledged.is_none() && !access.beside_a_writer && has_cut_log(path) {
        return damaged("its write-ahead log was cut, so the last entries may be missing");
    }
    Ok(Checked::Whole(meta))
}

/// Checks only the rows that a resumed conversation needs, if its omitted beginning has more than `back`
/// bytes. `None` if everything has to be read, also because of damage, which the full check reports.
pub(super) fn check_part(conn: &Connection, path: &Path, access: Access, back: u64) -> Option<Part> {
    if !is_large(path, back) {
        return None;
    }
    read_part(conn, path, access, back).ok().flatten()
}

/// Whether the file is so large that a compaction may have left out more than `back` bytes.
pub(super) fn is_large(path: &Path, back: u64) -> bool {
    fs::metadata(path).map_or(0, |meta| meta.len()) > back
}

fn read_part(conn: &Connection, path: &Path, access: Access, back: u64) -> rusqlite::Result<Option<Part>> {
    let mut known = meta::read_index(conn)?;
    if let Some(index) = &known
        && !is_index_valid(conn, index)?
    {
        known = None;
    }
    let is_new = known.is_none();
    let index = match known {
        Some(index) => index,
        // A session of an older program is read once in full, one entry at a time.
        None => match read_index(conn, path, access)? {
            Some(index) => index,
            None => return Ok(None),
        },
    };
    let Some(from) = first_row_to_read(conn, &index, back)? else { return Ok(None) };
    let mut tail = Log::default();
    let mut visit = |entry, _| tail.push(entry);
    let mut rows = Rows::indexed(&mut visit, from, index);
    let checked = check(conn, path, access, &mut rows)?;
    let Rows { unreadable, index: Some(index), seq, .. } = rows else { return Ok(None) };
    let Checked::Whole(meta) = checked else { return Ok(None) };
    // An undo of a compaction may be recorded by a program that keeps no index.
    let is_enough = index.first_sent_row().is_some_and(|begin| begin >= from) && index.last_row() == seq;
    if !unreadable.is_empty() || !is_enough {
        return Ok(None);
    }
    let Some(looked_up) = read_rows(conn, &index.rows_to_look_up(from))? else { return Ok(None) };
    let live = index.build_live(looked_up, tail.entries);
    Ok(Some(Part { meta, index, is_new, live }))
}

/// Whether the row where the sent conversation begins contains the message that the index says.
fn is_index_valid(conn: &Connection, index: &Index) -> rusqlite::Result<bool> {
    let Some((row, first)) = index.first_sent_message() else { return Ok(true) };
    let found = read_rows(conn, &[row])?.unwrap_or_default();
    Ok(found.first().is_some_and(|entry| {
        matches!(&entry.kind, EntryKind::Message { message, .. } if message.id.as_ref() == Some(first))
    }))
}

/// Builds the index of all rows; `None` if there is any damage.
fn read_index(conn: &Connection, path: &Path, access: Access) -> rusqlite::Result<Option<Index>> {
    let mut visit = |_, _| ControlFlow::Continue(());
    let mut rows = Rows::indexed(&mut visit, 1, Index::default());
    let checked = check(conn, path, access, &mut rows)?;
    let is_whole = matches!(checked, Checked::Whole(_)) && rows.unreadable.is_empty();
    Ok(rows.index.filter(|_| is_whole))
}

/// Number of rows whose sizes are read at a time: forwards, as the disk reads ahead.
const SIZES_STEP_ROWS: i64 = 256;

/// First row to read: `back` bytes before the row where the sent conversation begins, so that an undone
/// compaction needs no second read. `None` if everything is to be read.
fn first_row_to_read(conn: &Connection, index: &Index, back: u64) -> rusqlite::Result<Option<i64>> {
    let Some(mut from) = index.first_sent_row() else { return Ok(None) };
    let query = "SELECT seq, octet_length(kind) FROM entries WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq";
    let (mut select, mut bytes) = (conn.prepare(query)?, 0);
    for range in index.moves().branch(from - 1).iter().rev() {
        let mut end = *range.end();
        while end >= *range.start() {
            let begin = (end - SIZES_STEP_ROWS + 1).max(*range.start());
            let sizes: Vec<(i64, Option<i64>)> = select
                .query_map((begin, end), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (row, size) in sizes.into_iter().rev() {
                bytes += size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
                if bytes > back {
                    return Ok(Some(from));
                }
                from = row;
            }
            end = begin - 1;
        }
    }
    Ok(None)
}

/// Entries of these rows; `None` if any is unreadable.
fn read_rows(conn: &Connection, rows: &[i64]) -> rusqlite::Result<Option<Vec<Entry>>> {
    let mut select = conn.prepare(&format!("SELECT {COLUMNS} FROM entries WHERE seq = ?1"))?;
    let mut entries = Vec::with_capacity(rows.len());
    for row in rows {
        let mut found = select.query([row])?;
        let Some(found) = found.next()? else { return Ok(None) };
        let (_, Ok(entry)) = row::read(found)? else { return Ok(None) };
        entries.push(entry);
    }
    Ok(Some(entries))
}

/// Reads the entries of a resumed conversation from a log that was checked when it was opened.
///
/// # Errors
/// SQLite's own.
pub(super) fn read_live(conn: &Connection, index: &Index, back: u64) -> rusqlite::Result<LiveEntries> {
    if let Some(from) = first_row_to_read(conn, index, back)?
        && let Some(looked_up) = read_rows(conn, &index.rows_to_look_up(from))?
    {
        return Ok(index.build_live(looked_up, read_branch(conn, index.moves(), from)?));
    }
    Ok(LiveEntries::whole(read_branch(conn, index.moves(), 1)?))
}

/// Entries of the present branch from row `from` on. Unreadable rows were reported when the log was opened.
///
/// # Errors
/// SQLite's own.
pub(super) fn read_branch(conn: &Connection, moves: &Moves, from: i64) -> rusqlite::Result<Vec<Entry>> {
    let mut log = Log::default();
    let last: Option<i64> = conn.query_row("SELECT max(seq) FROM entries", [], |row| row.get(0))?;
    let ranges = tree::since(moves.branch(last.unwrap_or_default()), from);
    let _ = tree::visit(conn, &ranges, |_, entry| {
        entry.map_or(ControlFlow::Continue(()), |entry| log.push(entry))
    })?;
    Ok(log.entries)
}

fn missing_entries_message(acknowledged: i64, left: i64) -> String {
    format!("{acknowledged} entries were stored and {left} are there: its write-ahead log was cut or removed")
}

impl Log {
    pub(super) fn add_row(&mut self, read: Result<Entry, Unreadable>) {
        match read {
            Ok(entry) => drop(self.push(entry)),
            Err(row) => self.unreadable.push(row),
        }
    }

    fn push(&mut self, mut entry: Entry) -> ControlFlow<()> {
        // Shares the text of the previous entry's id.
        if let Some(last) = self.entries.last().filter(|last| entry.parent.as_ref() == Some(&last.id)) {
            entry.parent = Some(last.id.clone());
        }
        self.entries.push(entry);
        ControlFlow::Continue(())
    }
}

/// Collects all readable entries of a damaged file in memory.
pub(super) fn read_readable(conn: &Connection, path: &Path) -> Log {
    let mut log = Log::default();
    let mut visit = |entry, _| log.push(entry);
    let mut rows = Rows::new(&mut visit, Branches::All);
    let meta = visit_readable(conn, path, &mut rows);
    log.unreadable = rows.unreadable;
    Log { meta, ..log }
}

/// Visits all readable entries of a damaged file after the rows already read.
pub(super) fn visit_readable(conn: &Connection, path: &Path, rows: &mut Rows<'_>) -> Meta {
    let meta = Meta::read(conn).unwrap_or_default();
    let sizes =
        [path.to_path_buf(), with_suffix(path, "-wal")].map(|path| fs::metadata(path).map_or(0, |m| m.len()));
    // The count itself may be damaged: a row takes at least 16 bytes, which bounds the number of rows.
    let most = i64::try_from(sizes.iter().sum::<u64>() / 16).unwrap_or(i64::MAX);
    let Ok(mut select) = conn.prepare(&format!("SELECT {COLUMNS} FROM entries WHERE seq = ?1")) else {
        return meta;
    };
    let last = if (1..=most).contains(&meta.entries) { meta.entries } else { most };
    // A damaged tree is visited without regard to branches.
    let ranges = rows.ranges(conn, last).unwrap_or_else(|_| tree::since(vec![1..=last], rows.seq + 1));
    for seq in ranges.into_iter().flatten() {
        if let Ok(row) = select.query_row([seq], ReadRow::of)
            && rows.visit_row(row).is_break()
        {
            break;
        }
    }
    meta
}

/// Whether the write-ahead log contains transactions that SQLite would skip.
pub(crate) fn has_broken_log(path: &Path) -> bool {
    read_regular(&with_suffix(path, "-wal"), u64::MAX).is_ok_and(|log| wal::hides_transactions(&log))
}

fn has_cut_log(path: &Path) -> bool {
    read_regular(&with_suffix(path, "-wal"), u64::MAX).is_ok_and(|log| wal::ends_within_a_page(&log))
}

/// Whether the file never contained a row: it is empty, or one page of zeros after its header.
pub(crate) fn is_blank(path: &Path) -> bool {
    match fs::metadata(path).map(|meta| meta.len()) {
        Ok(0) => true,
        Ok(PAGE_BYTES) => fs::read(path).is_ok_and(|page| page.iter().skip(PAGE_HEAD_BYTES).all(|b| *b == 0)),
        Ok(_) | Err(_) => false,
    }
}
