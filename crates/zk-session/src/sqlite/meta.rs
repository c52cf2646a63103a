use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use zk_core::model::SessionId;

use super::row::hash::fnv1a;
use crate::digest::Digest;
use crate::index::Index;
use crate::moves::Moves;

/// Content of a session's `meta` table: data for a listing, and the number of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) cwd: PathBuf,
    pub(crate) parent: Option<SessionId>,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// Number of entries, which is also the number of the last row.
    pub(crate) entries: i64,
    pub(crate) digest: Digest,
    /// Number of branches; 0 if the leaf was never moved.
    pub(crate) branches: u64,
    /// Title that a person gave the session.
    pub(crate) name: Option<String>,
    /// Branch of version control at the start of the last run.
    pub(crate) branch: Option<String>,
}

const UPSERT: &str = "INSERT INTO meta(key, value) VALUES(?1, ?2)
                   ON CONFLICT(key) DO UPDATE SET value = excluded.value";

impl Meta {
    /// Reads the table; missing values and values of a wrong type get their default.
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut meta = Self::default();
        let mut answered = None;
        let mut select = conn.prepare("SELECT key, value FROM meta WHERE key NOT GLOB 'index*'")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (Value::Text(key), value) = (row.get(0)?, row.get::<_, Value>(1)?) else { continue };
            match (key.as_str(), value) {
                ("cwd", Value::Text(text)) => meta.cwd = text.into(),
                ("cwd", Value::Blob(bytes)) => meta.cwd = OsString::from_vec(bytes).into(),
                ("parent", Value::Text(text)) => meta.parent = Some(text.into()),
                ("created_ms", Value::Integer(at)) => meta.created_ms = u64::try_from(at).unwrap_or(0),
                ("updated_ms", Value::Integer(at)) => meta.updated_ms = u64::try_from(at).unwrap_or(0),
                ("entries", Value::Integer(count)) => meta.entries = count,
                ("messages", Value::Integer(count)) => {
                    meta.digest.messages = u64::try_from(count).unwrap_or(0)
                }
                ("branches", Value::Integer(count)) => meta.branches = u64::try_from(count).unwrap_or(0),
                ("title", Value::Text(text)) => meta.digest.title = text,
                ("name", Value::Text(text)) => meta.name = Some(text).filter(|name| !name.is_empty()),
                ("branch", Value::Text(text)) => meta.branch = Some(text).filter(|name| !name.is_empty()),
                ("answered", Value::Integer(flag)) => answered = Some(flag != 0),
                ("running", Value::Integer(flag)) => meta.digest.running = flag != 0,
                _ => {}
            }
        }
        // Format 1 has no such field; a session with only a prompt has one message.
        meta.digest.answered = answered.unwrap_or(meta.digest.messages > 1);
        Ok(meta)
    }

    /// Inserts the values that never change.
    pub(crate) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let mut put = conn.prepare_cached(UPSERT)?;
        let cwd = match self.cwd.to_str() {
            Some(text) => Value::Text(text.to_owned()),
            None => Value::Blob(self.cwd.as_os_str().as_bytes().to_vec()),
        };
        put.execute(params!["cwd", cwd])?;
        put.execute(params!["created_ms", to_i64(self.created_ms)])?;
        if let Some(parent) = &self.parent {
            put.execute(params!["parent", parent.as_str()])?;
        }
        Ok(())
    }

    /// Writes the values that differ from those of `before`, or `all` values.
    pub(crate) fn update(&self, conn: &Connection, before: &Self, all: bool) -> rusqlite::Result<()> {
        let mut put = conn.prepare_cached(UPSERT)?;
        put.execute(params!["entries", self.entries])?;
        put.execute(params!["updated_ms", to_i64(self.updated_ms)])?;
        if all || self.digest.messages != before.digest.messages {
            put.execute(params!["messages", to_i64(self.digest.messages)])?;
        }
        if self.branches != before.branches {
            put.execute(params!["branches", to_i64(self.branches)])?;
        }
        if all || self.digest.title != before.digest.title {
            put.execute(params!["title", self.digest.title])?;
        }
        if let Some(branch) = self.branch.as_ref().filter(|_| all || self.branch != before.branch) {
            put.execute(params!["branch", branch])?;
        }
        for (key, now, earlier) in [
            ("answered", self.digest.answered, before.digest.answered),
            ("running", self.digest.running, before.digest.running),
        ] {
            if all || now != earlier {
                put.execute(params![key, now])?;
            }
        }
        Ok(())
    }
}

/// Writes the title that a person gave a session.
pub(crate) fn write_name(conn: &Connection, name: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(UPSERT)?.execute(params!["name", name]).map(drop)
}

/// Key of the greatest lease token.
pub(crate) const LEASE: &str = "lease_token";

/// Notes the token of a lease; returns whether no greater one was noted before.
pub(crate) fn claim_lease(conn: &Connection, token: i64) -> rusqlite::Result<bool> {
    let put = "INSERT INTO meta(key, value) VALUES(?1, ?2)
               ON CONFLICT(key) DO UPDATE SET value = excluded.value WHERE value <= excluded.value";
    Ok(conn.execute(put, params![LEASE, token])? > 0)
}

/// Key of the first row that has a link of the chain.
pub(crate) const CHAIN_FROM: &str = "chain_from";
/// Key of the number of times that content was removed.
pub(crate) const REMOVALS: &str = "removals";

/// Notes the first row of the chain, unless a chain has begun already.
pub(crate) fn begin_chain(conn: &Connection, seq: i64) -> rusqlite::Result<()> {
    let put = "INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO NOTHING";
    conn.execute(put, params![CHAIN_FROM, seq]).map(drop)
}

/// Counts one removal of content, so that the search index notices it.
pub(crate) fn count_removal(conn: &Connection) -> rusqlite::Result<()> {
    let removals = read_number(conn, REMOVALS)?.unwrap_or_default();
    conn.execute(UPSERT, params![REMOVALS, removals.saturating_add(1)]).map(drop)
}

/// Number that is stored under `key`.
pub(crate) fn read_number(conn: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    let mut select = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let mut rows = select.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(row.get_ref(0)?.as_i64().ok())
}

/// Version of the stored index. Other versions are ignored, and the index is rebuilt from the rows.
const INDEX_VERSION: u32 = 1;

/// Index stored at the last compaction; `None` if it has another version or a wrong checksum.
pub(crate) fn read_index(conn: &Connection) -> rusqlite::Result<Option<Index>> {
    read_index_of(conn, INDEX)
}

pub(crate) fn write_index(conn: &Connection, index: &Index) -> rusqlite::Result<()> {
    write_index_of(conn, INDEX, index)
}

/// Key of the index as of the last compaction.
const INDEX: &str = "index";
/// Prefix of the keys of indexes as of earlier compactions; the number of their last row follows.
const INDEX_AT: &str = "index:";

/// Index stored at the last compaction in `ranges`, which are the rows of one branch. The index has no moves of the
/// leaf.
pub(crate) fn read_index_in(
    conn: &Connection,
    ranges: &[RangeInclusive<i64>],
) -> rusqlite::Result<Option<Index>> {
    let mut select = conn.prepare("SELECT key FROM meta WHERE key GLOB 'index:*'")?;
    let keys: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let rows = keys.iter().filter_map(|key| key.strip_prefix(INDEX_AT)?.parse().ok());
    let last: Option<i64> = rows.filter(|row| ranges.iter().any(|range| range.contains(row))).max();
    match last {
        Some(row) => {
            Ok(read_index_of(conn, &format!("{INDEX_AT}{row}"))?.filter(|index| index.last_row() == row))
        }
        None => Ok(None),
    }
}

/// Stores an index under its last row, for later moves of the leaf to a row after that one.
pub(crate) fn write_index_at(conn: &Connection, index: &Index) -> rusqlite::Result<()> {
    let mut index = index.clone();
    index.set_moves(Moves::default());
    write_index_of(conn, &format!("{INDEX_AT}{}", index.last_row()), &index)
}

fn read_index_of(conn: &Connection, key: &str) -> rusqlite::Result<Option<Index>> {
    let mut select = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let mut rows = select.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let Ok(stored) = row.get_ref(0)?.as_str() else { return Ok(None) };
    // The header is recomputed and compared, not parsed.
    let json = stored.splitn(3, ' ').nth(2).filter(|json| stored == with_header(json));
    Ok(json.and_then(|json| serde_json::from_str(json).ok()))
}

fn write_index_of(conn: &Connection, key: &str, index: &Index) -> rusqlite::Result<()> {
    let text = serde_json::to_string(index)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    conn.prepare_cached(UPSERT)?.execute(params![key, with_header(&text)]).map(drop)
}

/// Stored form of an index: version, checksum and JSON.
fn with_header(json: &str) -> String {
    let sum = fnv1a(&[&INDEX_VERSION.to_le_bytes(), json.as_bytes()]);
    format!("{INDEX_VERSION} {sum:016x} {json}")
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
