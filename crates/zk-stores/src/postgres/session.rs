use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_postgres::Transaction;
use zk_core::model::{EntryId, MailId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, Mail, OpenSession, StoreError, check_leaf, count_branches,
    present_branch,
};
use zk_session::Digest;

use super::connection::database_error;
use super::lease::Lease;
use super::rows::{self, ReadError};
use super::schema::SCHEMA_VERSION;
use super::{Inner, visit_all};
use crate::shared::{closed_error, exists_error, millis};

/// Attempts to learn the outcome of an append whose connection broke off.
const OUTCOME_ATTEMPTS: usize = 3;

/// Open session in a database.
pub(super) struct PostgresSession(Arc<Shared>);

/// State that the session shares with the task that renews its lease.
struct Shared {
    inner: Arc<Inner>,
    id: SessionId,
    cwd: PathBuf,
    parent: Option<SessionId>,
    /// Whether a leg of a run has the session.
    is_leg: bool,
    /// Token of the lease; 0 before the first append.
    token: AtomicI64,
    is_closed: AtomicBool,
    /// Whether the outcome of an append is unknown; locked while an append is in flight.
    is_in_doubt: Mutex<bool>,
    branch: SyncMutex<Option<String>>,
}

impl PostgresSession {
    pub(super) fn start(
        inner: Arc<Inner>,
        id: SessionId,
        cwd: PathBuf,
        parent: Option<SessionId>,
        lease: Option<Lease>,
    ) -> Arc<dyn OpenSession> {
        let pause = inner.lease / 3;
        let shared = Arc::new(Shared {
            inner,
            id,
            cwd,
            parent,
            is_leg: lease.as_ref().is_some_and(|lease| lease.is_leg),
            token: AtomicI64::new(lease.map_or(0, |lease| lease.token)),
            is_closed: AtomicBool::new(false),
            is_in_doubt: Mutex::new(false),
            branch: SyncMutex::default(),
        });
        tokio::spawn(renew(Arc::downgrade(&shared), pause));
        Arc::new(Self(shared))
    }
}

/// Renews a lease while its session is open.
async fn renew(session: Weak<Shared>, pause: std::time::Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(session) = session.upgrade() else { return };
        if session.is_closed.load(Ordering::Acquire) {
            return;
        }
        // A lease that was taken by another writer is noticed by the next append.
        let _ = session.set_lease(session.inner.lease.as_secs_f64()).await;
    }
}

/// Row of a session, as an append finds and locks it.
struct Found {
    token: i64,
    leaf: String,
    next_seq: i64,
    has_moves: bool,
    digest: Digest,
}

impl Shared {
    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::Acquire) { Err(closed_error(&self.id)) } else { Ok(()) }
    }

    fn fenced_error(&self) -> StoreError {
        StoreError::Fenced { id: self.id.clone() }
    }

    /// Sets the end of this writer's lease to `seconds` from now.
    async fn set_lease(&self, seconds: f64) -> Result<(), StoreError> {
        let token = self.token.load(Ordering::Acquire);
        if token == 0 {
            return Ok(());
        }
        let mut link = self.inner.connection.link().await?;
        let query = "UPDATE zk_sessions SET lease_until = clock_timestamp() + make_interval(secs => $3) \
            WHERE id = $1 AND lease_token = $2";
        let changed = link.client()?.execute(query, &[&self.id.as_str(), &token, &seconds]).await;
        changed.map(drop).map_err(|error| database_error("renew the lease of a session", &error))
    }

    /// Makes the entries of an append. By their ids, an append is found again whose connection broke off.
    fn new_entries(&self, kinds: Vec<EntryKind>, leaf: Option<EntryId>) -> Vec<Entry> {
        let time_ms = millis(self.inner.clock.now());
        let mut before = leaf;
        let entry = |kind: EntryKind| {
            let id = EntryId::fresh();
            let parent = match (&kind, before.replace(id.clone())) {
                (EntryKind::Leaf { to, .. }, _) => to.clone(),
                (_, before) => before,
            };
            Entry { id, parent, time_ms, kind }
        };
        kinds.into_iter().map(entry).collect()
    }

    /// Stores an append in one transaction, under the token of this writer.
    async fn store_append(
        &self,
        (kinds, mail): (Vec<EntryKind>, &[MailId]),
        durability: Durability,
        branch: Option<&String>,
        first: &mut Option<EntryId>,
    ) -> Result<Vec<EntryId>, ReadError> {
        let mut link = self.inner.connection.link().await?;
        let transaction = link.client()?.transaction().await?;
        if durability == Durability::Disk {
            transaction.batch_execute("SET LOCAL synchronous_commit = on").await?;
        }
        let own = self.token.load(Ordering::Acquire);
        let found = self.lock_row(&transaction).await?;
        let found = match found {
            Some(_) if own == 0 => return Err(exists_error(&self.id).into()),
            None if own != 0 => {
                let hint = String::new();
                return Err(StoreError::NotFound { id: self.id.to_string(), hint }.into());
            }
            Some(found) if found.token != own => return Err(self.fenced_error().into()),
            found => found,
        };
        let moves = matches!(kinds.first(), Some(EntryKind::Leaf { .. }));
        let is_known = match kinds.first() {
            Some(EntryKind::Leaf { to: Some(to), .. }) => {
                let query = "SELECT 1 FROM zk_entries WHERE session = $1 AND id = $2";
                transaction.query_opt(query, &[&self.id.as_str(), &to.as_str()]).await?.is_some()
            }
            _ => true,
        };
        check_leaf(&self.id, &kinds, |_| is_known)?;
        let has_moves = moves || found.as_ref().is_some_and(|found| found.has_moves);
        let (leaf, seq, mut digest) = match found {
            Some(found) => (Some(EntryId::from(found.leaf.as_str())), found.next_seq, found.digest),
            None => (None, 1, Digest::default()),
        };
        let entries = self.new_entries(kinds, leaf);
        *first = entries.first().map(|entry| entry.id.clone());
        entries.iter().for_each(|entry| digest.add(&entry.kind));
        if !mail.is_empty() {
            // The id of taken mail stays, so that nothing is posted twice.
            let ids: Vec<&str> = mail.iter().map(MailId::as_str).collect();
            let query = "UPDATE zk_mail SET body = '' WHERE session = $1 AND id = ANY($2)";
            transaction.execute(query, &[&self.id.as_str(), &ids]).await?;
        }
        let (Some(last), time_ms) = (entries.last(), entries.first().map_or(0, |entry| entry.time_ms)) else {
            transaction.commit().await?;
            return Ok(Vec::new());
        };
        let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX);
        let messages = i64::try_from(digest.messages).unwrap_or(i64::MAX);
        let next_seq = seq.saturating_add(i64::try_from(entries.len()).unwrap_or(i64::MAX));
        let seconds = self.inner.lease.as_secs_f64();
        let title = digest.title.replace('\0', "");
        if own == 0 {
            let query = "INSERT INTO zk_sessions (id, parent, cwd, created_ms, updated_ms, messages, branches, first_title, \
                answered, running, branch, leaf, next_seq, lease_token, lease_pid, lease_until) \
                VALUES ($1, $2, $3, $4, $4, $5, 1, $6, $7, $8, $9, $10, $11, 1, $12, \
                clock_timestamp() + make_interval(secs => $13)) ON CONFLICT DO NOTHING";
            let pid = i64::from(std::process::id());
            let inserted = transaction
                .execute(
                    query,
                    &[
                        &self.id.as_str(),
                        &self.parent.as_ref().map(SessionId::as_str),
                        &self.cwd.as_os_str().as_bytes(),
                        &time_ms,
                        &messages,
                        &title,
                        &digest.answered,
                        &digest.running,
                        &branch,
                        &last.id.as_str(),
                        &next_seq,
                        &pid,
                        &seconds,
                    ],
                )
                .await?;
            if inserted == 0 {
                return Err(exists_error(&self.id).into());
            }
        } else {
            let query = "UPDATE zk_sessions SET updated_ms = $2, messages = $3, first_title = $4, answered = $5, running = $6, \
                branch = coalesce($7, branch), leaf = $8, next_seq = $9, \
                lease_until = clock_timestamp() + make_interval(secs => $10) WHERE id = $1";
            transaction
                .execute(
                    query,
                    &[
                        &self.id.as_str(),
                        &time_ms,
                        &messages,
                        &title,
                        &digest.answered,
                        &digest.running,
                        &branch,
                        &last.id.as_str(),
                        &next_seq,
                        &seconds,
                    ],
                )
                .await?;
        }
        insert_entries(&transaction, &self.id, seq, &entries).await?;
        if has_moves {
            let all = rows::read_entries(&transaction, &self.id).await?;
            let branches = i64::try_from(count_branches(&all.entries)).unwrap_or(i64::MAX);
            let query = "UPDATE zk_sessions SET branches = $2 WHERE id = $1";
            transaction.execute(query, &[&self.id.as_str(), &branches]).await?;
        }
        transaction.commit().await?;
        if own == 0 {
            self.token.store(1, Ordering::Release);
        }
        Ok(entries.into_iter().map(|entry| entry.id).collect())
    }

    /// Reads the row of the session, and locks it until the transaction ends.
    async fn lock_row(&self, transaction: &Transaction<'_>) -> Result<Option<Found>, tokio_postgres::Error> {
        let query = "SELECT lease_token, leaf, next_seq, messages, first_title, answered, running, \
            EXISTS (SELECT 1 FROM zk_entries WHERE session = $1 AND kind LIKE '{\"entry\":\"leaf\"%') \
            FROM zk_sessions WHERE id = $1 FOR UPDATE";
        let Some(row) = transaction.query_opt(query, &[&self.id.as_str()]).await? else { return Ok(None) };
        Ok(Some(Found {
            token: row.try_get(0)?,
            leaf: row.try_get(1)?,
            next_seq: row.try_get(2)?,
            digest: Digest {
                messages: u64::try_from(row.try_get::<_, i64>(3)?).unwrap_or_default(),
                title: row.try_get(4)?,
                answered: row.try_get(5)?,
                running: row.try_get(6)?,
            },
            has_moves: row.try_get(7)?,
        }))
    }

    /// Whether an append whose connection broke off is stored, by the id of its first entry.
    async fn is_stored(&self, first: &EntryId) -> Result<bool, StoreError> {
        let mut link = self.inner.connection.link().await?;
        let query = "SELECT 1 FROM zk_entries WHERE session = $1 AND id = $2";
        let row = link.client()?.query_opt(query, &[&self.id.as_str(), &first.as_str()]).await;
        Ok(row.map_err(|error| database_error("look for an append", &error))?.is_some())
    }

    /// Ids of the entries from `first` on.
    async fn ids_from(&self, first: &EntryId) -> Result<Vec<EntryId>, StoreError> {
        let all = self.read_all().await?.0.into_iter().map(|entry| entry.id);
        Ok(all.skip_while(|id| id != first).collect())
    }

    /// Appends entries and takes mail, unless the outcome of an earlier append is unknown.
    async fn append_under_lease(
        &self,
        kinds: Vec<EntryKind>,
        mail: Vec<MailId>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        let mut is_in_doubt = self.is_in_doubt.lock().await;
        self.check_open()?;
        if *is_in_doubt {
            return Err(StoreError::Failed(format!(
                "the connection to PostgreSQL was lost in the middle of an append to `{}`; open the session again",
                self.id
            )));
        }
        if kinds.is_empty() && mail.is_empty() {
            return Ok(Vec::new());
        }
        let branch = self.branch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut first = None;
        // The outcome is unknown until the server answers, and stays so if this task ends before.
        *is_in_doubt = true;
        let stored = self.store_append((kinds, &mail), durability, branch.as_ref(), &mut first).await;
        let ids = match (stored, first) {
            (Ok(ids), _) => ids,
            (Err(ReadError::Database(error)), Some(first)) if error.as_db_error().is_none() => {
                // The connection broke off, perhaps after the commit.
                let mut outcome = Err(database_error("append", &error));
                for _ in 0..OUTCOME_ATTEMPTS {
                    match self.is_stored(&first).await {
                        Ok(true) => {
                            self.token.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).ok();
                            outcome = self.ids_from(&first).await;
                            break;
                        }
                        Ok(false) => {
                            *is_in_doubt = false;
                            break;
                        }
                        Err(_) => {}
                    }
                }
                outcome?
            }
            (Err(error), _) => {
                *is_in_doubt = false;
                return Err(error.into_store("append"));
            }
        };
        *is_in_doubt = false;
        let mut noted = self.branch.lock().unwrap_or_else(PoisonError::into_inner);
        if *noted == branch {
            *noted = None;
        }
        Ok(ids)
    }

    async fn read_all(&self) -> Result<(Vec<Entry>, Vec<String>), StoreError> {
        if self.token.load(Ordering::Acquire) == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut link = self.inner.connection.link().await?;
        let read = rows::read_entries(&*link.client()?, &self.id).await;
        let read = read.map_err(|error| database_error("read a session", &error))?;
        if self.is_leg && read.newer > 0 {
            // A run that went on without them would repeat what they tell of.
            let known = SCHEMA_VERSION.cast_unsigned();
            let found = known + 1;
            return Err(StoreError::TooNew { id: self.id.clone(), found, known });
        }
        let notices = read.notices();
        Ok((read.entries, notices))
    }
}

async fn insert_entries(
    transaction: &Transaction<'_>,
    session: &SessionId,
    from: i64,
    entries: &[Entry],
) -> Result<(), ReadError> {
    let mut kinds = Vec::with_capacity(entries.len());
    for entry in entries {
        let json = serde_json::to_string(&entry.kind);
        kinds.push(json.map_err(|error| StoreError::Failed(format!("cannot write an entry: {error}")))?);
    }
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let parents: Vec<Option<&str>> =
        entries.iter().map(|entry| entry.parent.as_ref().map(EntryId::as_str)).collect();
    let times: Vec<i64> =
        entries.iter().map(|entry| i64::try_from(entry.time_ms).unwrap_or(i64::MAX)).collect();
    let query = "INSERT INTO zk_entries (session, seq, id, parent, time_ms, kind) \
        SELECT $1, $2 + at - 1, id, parent, time_ms, kind \
        FROM unnest($3::text[], $4::text[], $5::bigint[], $6::text[]) WITH ORDINALITY AS new (id, parent, time_ms, kind, at)";
    transaction.execute(query, &[&session.as_str(), &from, &ids, &parents, &times, &kinds]).await?;
    Ok(())
}

#[async_trait]
impl OpenSession for PostgresSession {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn cwd(&self) -> Option<PathBuf> {
        Some(self.0.cwd.clone())
    }

    fn note_branch(&self, branch: String) {
        *self.0.branch.lock().unwrap_or_else(PoisonError::into_inner) = Some(branch);
    }

    /// Stores for both durabilities as the server is set, and for a disk with a synchronous commit in any case.
    async fn append(
        &self,
        kinds: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.append_taking(kinds, Vec::new(), durability).await
    }

    async fn append_taking(
        &self,
        kinds: Vec<EntryKind>,
        mail: Vec<MailId>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        // A caller may start an append and wait for its mail before it looks at the append again. The append holds the
        // connection, so it goes on by itself.
        let session = self.0.clone();
        let append = tokio::spawn(async move { session.append_under_lease(kinds, mail, durability).await });
        append.await.map_err(|error| StoreError::Failed(format!("the append broke off: {error}")))?
    }

    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        self.0.check_open()?;
        let mut link = self.0.inner.connection.link().await?;
        let query = "SELECT body FROM zk_mail WHERE session = $1 AND body <> '' ORDER BY seq";
        let rows = link.client()?.query(query, &[&self.0.id.as_str()]).await;
        let rows = rows.map_err(|error| database_error("read mail", &error))?;
        rows.iter().map(|row| Mail::from_json(row.try_get(0).unwrap_or_default())).collect()
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.0.check_open()?;
        Ok(present_branch(self.0.read_all().await?.0))
    }

    async fn scan_tree(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.0.check_open()?;
        let (entries, notices) = self.0.read_all().await?;
        visit_all(entries, &mut visit);
        Ok(notices)
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Waits for appends in flight.
        let _appending = self.0.is_in_doubt.lock().await;
        if self.0.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.0.set_lease(0.0).await
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        if let Ok(runtime) = Handle::try_current()
            && !self.0.is_closed.swap(true, Ordering::AcqRel)
        {
            let session = self.0.clone();
            // The lease ends by itself if this fails.
            runtime.spawn(async move { session.set_lease(0.0).await.ok() });
        }
    }
}
