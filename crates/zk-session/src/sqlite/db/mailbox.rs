//! Mail of a session, in a table of its file that its first mail creates.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use zk_core::model::{MailId, SessionId};
use zk_core::service::{Mail, StoreError};

use super::connect_briefly;
use crate::sqlite::error::store_error;
use crate::sqlite::files::Files;

/// Adds mail to a session that another process may have open.
///
/// # Errors
/// [`StoreError`].
pub(in crate::sqlite) fn post(files: &Files, mail: &Mail) -> Result<(), StoreError> {
    let body = mail.to_json()?;
    let (path, id) = (files.db(), files.id());
    let posted = || {
        let mut conn = connect_briefly(&path)?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !has_table(&tx, "meta")? {
            return Ok(None);
        }
        // The body of mail that was taken is empty: its id stays, so that nothing is posted twice.
        tx.execute_batch(
            "CREATE TABLE IF NOT EXISTS mail(
                 seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL
             ) STRICT;",
        )?;
        let put = "INSERT INTO mail(id, body) VALUES(?1, ?2) ON CONFLICT(id) DO NOTHING";
        let added = tx.execute(put, params![mail.id.as_str(), body])?;
        tx.commit()?;
        Ok(Some(added > 0))
    };
    match posted().map_err(|error: rusqlite::Error| store_error(&error, "post mail to", &path, id))? {
        Some(true) => Ok(()),
        Some(false) => Err(StoreError::PostedBefore { id: id.clone(), mail: mail.id.clone() }),
        None => {
            Err(StoreError::Refused(format!("session `{id}` is empty; give it a first entry before mail")))
        }
    }
}

/// Returns the mail that waits, oldest first.
///
/// # Errors
/// [`StoreError`], also for mail that no zk wrote.
pub(in crate::sqlite) fn read(conn: &Connection, files: &Files) -> Result<Vec<Mail>, StoreError> {
    let id: &SessionId = files.id();
    let bodies = || {
        if !has_table(conn, "mail")? {
            return Ok(Vec::new());
        }
        let mut select = conn.prepare_cached("SELECT body FROM mail WHERE body <> '' ORDER BY seq")?;
        let bodies = select.query_map([], |row| row.get::<_, String>(0))?;
        bodies.collect::<rusqlite::Result<Vec<_>>>()
    };
    let bodies = bodies().map_err(|error| store_error(&error, "read", &files.db(), id))?;
    bodies.iter().map(|body| Mail::from_json(body)).collect()
}

/// Empties the bodies of mail that was taken, and keeps the ids. Unknown ids are ignored.
pub(super) fn mark_taken(tx: &Transaction<'_>, mail: &[MailId]) -> rusqlite::Result<()> {
    if mail.is_empty() || !has_table(tx, "mail")? {
        return Ok(());
    }
    let mut take = tx.prepare_cached("UPDATE mail SET body = '' WHERE id = ?1")?;
    mail.iter().try_for_each(|id| take.execute([id.as_str()]).map(drop))
}

fn has_table(conn: &Connection, table: &str) -> rusqlite::Result<bool> {
    let find = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(conn.query_row(find, [table], |_| Ok(())).optional()?.is_some())
}
