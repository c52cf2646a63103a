use std::ops::{ControlFlow, RangeInclusive};

use rusqlite::{Connection, OptionalExtension};
use zk_core::model::EntryId;
use zk_core::service::{Entry, EntryKind};

use super::meta;
use super::row::{self, COLUMNS};
use crate::index::Index;
use crate::moves::Moves;

/// First file format with moves of the leaf and labels.
pub(super) const TREE_FORMAT: u32 = 3;

/// Beginning of an [`EntryKind::Leaf`] in the column `kind`.
const LEAF_KIND: &str = r#"{"entry":"leaf""#;
/// Maximum size of an [`EntryKind::Leaf`] in bytes, above which a row is not read to find one.
const MAX_LEAF_BYTES: u32 = 1024;
/// Beginning of a message in the column `kind`.
const MESSAGE_KIND: &str = r#"{"entry":"message""#;

/// Moves of the leaf in a file, with notices about those whose target is lost.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) moves: Moves,
    pub(super) notices: Vec<String>,
}

impl Tree {
    /// Reads the moves up to row `last`: from the stored index, and from the rows after it.
    ///
    /// # Errors
    /// SQLite's own.
    pub(super) fn read(conn: &Connection, last: i64) -> rusqlite::Result<Self> {
        let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version < TREE_FORMAT {
            return Ok(Self::default());
        }
        let stored = meta::read_index(conn)?.filter(|index| index.last_row() <= last);
        let indexed = stored.as_ref().map_or(0, Index::last_row);
        let mut tree = Self {
            moves: stored.map(|index| index.moves().clone()).unwrap_or_default(),
            notices: Vec::new(),
        };
        tree.add_moves(conn, indexed, last)?;
        let query = "SELECT EXISTS(SELECT 1 FROM entries WHERE seq > ?1 AND seq <= ?2 AND substr(kind, 1, length(?3)) = ?3)";
        let mut has_message = conn.prepare(query)?;
        let begun: Vec<_> = tree.moves.sections(indexed, last).collect();
        for (row, end) in begun {
            if has_message.query_row((row, end, MESSAGE_KIND), |row| row.get(0))? {
                tree.moves.note_message_of(row);
            }
        }
        Ok(tree)
    }

    /// Finds the moves in rows after `after`. An unreadable row counts as one if its parent is not the row before it.
    fn add_moves(&mut self, conn: &Connection, after: i64, last: i64) -> rusqlite::Result<()> {
        let columns = COLUMNS.replace(", ", ", e.");
        let mut select = conn.prepare(&format!(
            "SELECT e.{columns} FROM entries e LEFT JOIN entries before ON before.seq = e.seq - 1
             WHERE e.seq > ?1 AND e.seq <= ?2 AND (e.parent IS NOT before.id OR (octet_length(e.kind) < ?4 AND substr(e.kind, 1, length(?3)) = ?3))
             ORDER BY e.seq"
        ))?;
        let mut rows = select.query((after, last, LEAF_KIND, MAX_LEAF_BYTES))?;
        while let Some(row) = rows.next()? {
            let parent: Option<String> = row.get_ref(2)?.as_str_or_null().ok().flatten().map(str::to_owned);
            let (seq, read) = row::read(row)?;
            match read.map(|entry| entry.kind) {
                Ok(EntryKind::Leaf { to: None, .. }) => self.moves.add(seq, 0),
                Ok(EntryKind::Leaf { to: Some(to), .. }) => match find_row(conn, &to, seq)? {
                    Some(to) => self.moves.add(seq, to),
                    None => {
                        let begin = lost_row(conn, &to, seq)?;
                        self.notices.push(format!(
                            "entry `{to}`, from which a branch continues, cannot be read; the branch begins at the entry before it"
                        ));
                        self.moves.add(seq, begin);
                    }
                },
                Ok(_) => {}
                Err(_) => {
                    if let Some(parent) = parent
                        && let Some(to) = find_row(conn, &EntryId::from(parent), seq)?
                        && to != seq - 1
                    {
                        self.moves.add(seq, to);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Row of an entry before row `before`; `None` if there is none. Newer rows are searched first.
///
/// # Errors
/// SQLite's own.
pub(super) fn find_row(conn: &Connection, id: &EntryId, before: i64) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT seq FROM entries WHERE seq < ?2 AND id = ?1 ORDER BY seq DESC LIMIT 1";
    conn.query_row(query, (id.as_str(), before), |row| row.get(0)).optional()
}

/// Row of an entry whose id cannot be read, found by its child; otherwise the row before the move.
fn lost_row(conn: &Connection, id: &EntryId, before: i64) -> rusqlite::Result<i64> {
    let query =
        "SELECT seq - 1 FROM entries WHERE seq < ?2 AND parent = ?1 AND substr(kind, 1, length(?3)) <> ?3
                 ORDER BY seq LIMIT 1";
    let found = conn.query_row(query, (id.as_str(), before, LEAF_KIND), |row| row.get(0));
    Ok(found.optional()?.unwrap_or(before - 1))
}

/// Index of the branch that ends with row `leaf`. Only rows that are sent, or follow the branch's last compaction, are read.
///
/// # Errors
/// SQLite's own.
pub(super) fn index_branch(conn: &Connection, moves: &Moves, leaf: i64) -> rusqlite::Result<Index> {
    let ranges = moves.branch(leaf);
    let mut index = meta::read_index_in(conn, &ranges)?.unwrap_or_default();
    // Rows that are indexed already give the ids of their messages.
    let from = match index.first_sent_row() {
        Some(row) => row.min(index.last_row() + 1),
        None => {
            index = Index::default();
            1
        }
    };
    let _ = visit(conn, &since(ranges, from), |seq, entry| {
        match entry {
            Some(entry) => index.add(seq, &entry.kind),
            None => index.skip_unreadable(seq),
        }
        ControlFlow::Continue(())
    })?;
    index.set_moves(moves.clone());
    Ok(index)
}

/// Visits the rows of `ranges` in order; unreadable ones are `None`.
///
/// # Errors
/// SQLite's own.
pub(super) fn visit(
    conn: &Connection,
    ranges: &[RangeInclusive<i64>],
    mut visit: impl FnMut(i64, Option<Entry>) -> ControlFlow<()>,
) -> rusqlite::Result<ControlFlow<()>> {
    let query = format!("SELECT {COLUMNS} FROM entries WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq");
    let mut select = conn.prepare(&query)?;
    for range in ranges {
        let mut rows = select.query((range.start(), range.end()))?;
        while let Some(row) = rows.next()? {
            let (seq, read) = row::read(row)?;
            if visit(seq, read.ok()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Ranges without the rows before `from`.
pub(super) fn since(ranges: Vec<RangeInclusive<i64>>, from: i64) -> Vec<RangeInclusive<i64>> {
    let clip = |range: RangeInclusive<i64>| (*range.start()).max(from)..=*range.end();
    ranges.into_iter().map(clip).filter(|range| !range.is_empty()).collect()
}
