use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::de::IgnoredAny;
use tokio_postgres::{GenericClient, Row};
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Entry, EntryKind, Lock, SessionInfo, StoreError};

use super::connection::database_error;
use crate::shared::from_millis;

/// Columns of a session's summary, as [`info_of`] reads them.
pub(super) const INFO_COLUMNS: &str = "id, parent, cwd, branch, created_ms, updated_ms, messages, branches, \
    coalesce(name, first_title), answered, running, \
    CASE WHEN lease_until > clock_timestamp() THEN lease_pid END";

/// Error of reading a session.
pub(super) enum ReadError {
    Store(StoreError),
    Database(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ReadError {
    pub(super) fn into_store(self, doing: &str) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Database(error) => database_error(doing, &error),
        }
    }
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

pub(super) fn info_of(row: &Row) -> Result<SessionInfo, tokio_postgres::Error> {
    let text = |at: usize| row.try_get::<_, Option<String>>(at);
    let number =
        |at: usize| row.try_get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or_default());
    let pid: Option<i64> = row.try_get(11)?;
    let lock = pid.map(|pid| Lock { pid: u32::try_from(pid).unwrap_or_default() });
    let id: String = row.try_get(0)?;
    Ok(SessionInfo {
        id: SessionId::from(id.as_str()),
        parent: text(1)?.as_deref().map(SessionId::from),
        cwd: path_of(row.try_get::<_, &[u8]>(2)?),
        branch: text(3)?,
        created: from_millis(number(4)?),
        updated: from_millis(number(5)?),
        messages: number(6)?,
        branches: number(7)?,
        title: row.try_get(8)?,
        answered: row.try_get(9)?,
        interrupted: row.try_get::<_, bool>(10)? && lock.is_none(),
        lock,
        unreadable: None,
    })
}

/// Entries of a session, and the numbers of those that cannot be read.
pub(super) struct ReadEntries {
    pub(super) entries: Vec<Entry>,
    /// Number of entries that only a newer version of zk reads.
    pub(super) newer: usize,
    damaged: usize,
}

impl ReadEntries {
    /// Returns the notices about entries that cannot be read.
    pub(super) fn notices(&self) -> Vec<String> {
        match self.newer + self.damaged {
            0 => Vec::new(),
            count => vec![format!("{count} entries are of an unknown kind; they are kept")],
        }
    }
}

/// Reads the entries of all branches.
pub(super) async fn read_entries(
    client: &impl GenericClient,
    id: &SessionId,
) -> Result<ReadEntries, tokio_postgres::Error> {
    let query = "SELECT id, parent, time_ms, kind FROM zk_entries WHERE session = $1 ORDER BY seq";
    let rows = client.query(query, &[&id.as_str()]).await?;
    let mut read = ReadEntries { entries: Vec::with_capacity(rows.len()), newer: 0, damaged: 0 };
    for row in rows {
        let (id, parent): (&str, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
        let time_ms = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
        let text = row.try_get(3)?;
        match EntryKind::from_json(text) {
            Ok(kind) => {
                read.entries.push(Entry {
                    id: EntryId::from(id),
                    parent: parent.map(EntryId::from),
                    time_ms,
                    kind,
                });
            }
            Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => read.newer += 1,
            Err(_) => read.damaged += 1,
        }
    }
    Ok(read)
}
