//! Sessions in PostgreSQL.

mod address;
mod connection;
mod lease;
mod relay;
mod rows;
mod schema;
mod session;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_core::model::SessionId;
use zk_core::service::{
    Clock, EngineName, Entry, EntryVisitor, Mail, NewSession, OpenSession, Relay, SessionFilter, SessionInfo,
    SessionScan, SessionSnapshot, SessionStore, StoreError, SystemClock, present_branch,
};

pub use self::address::{PostgresAddressError, parse_postgres_address};
use self::connection::{Connection, database_error};
use self::lease::Lease;
use self::relay::PostgresRelay;
use self::rows::{INFO_COLUMNS, info_of};
use self::session::PostgresSession;
use zk_session::is_valid_id;

use crate::shared::{apply_filter, check_id, check_requested_id, check_same_id, not_found};

/// Time after which the lease of a writer ends unless it is renewed.
const LEASE_TIME: Duration = Duration::from_secs(30);

/// Sessions in a PostgreSQL database, for several machines.
///
/// A writer has a lease, by the clock of the database, and a token that only grows. Each append names its token in its own
/// transaction: one under an older token fails with [`StoreError::Fenced`] and writes nothing. Tables are made by the first
/// connection, and are brought to a newer version under a lock. A store uses one connection, and another
/// one for live signals once it is used.
///
/// ```no_run
/// # async fn list() -> Result<(), zk_core::service::StoreError> {
/// use zk_core::service::{SessionFilter, SessionStore};
/// use zk_stores::PostgresStore;
///
/// let store = PostgresStore::new("postgres:///zk?host=/run/postgresql")?;
/// let sessions = store.list(&SessionFilter::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    relay: Arc<PostgresRelay>,
    clock: Arc<dyn Clock>,
    lease: Duration,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Store in the database at `address`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for an address that cannot be used: one of another machine needs `sslmode=disable`, since zk
    /// speaks no TLS with PostgreSQL.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        Self::with_lease(address, LEASE_TIME)
    }

    /// Store in the database at `address`, with the time after which the lease of a writer ends unless it is renewed.
    ///
    /// # Errors
    /// As [`PostgresStore::new`].
    pub fn with_lease(address: &str, lease: Duration) -> Result<Self, StoreError> {
        let connection = Connection::new(address)?;
        let relay = Arc::new(PostgresRelay::new(connection.config().clone()));
        Ok(Self { inner: Arc::new(Inner { connection, relay, clock: Arc::new(SystemClock), lease }) })
    }

    async fn not_found_error(&self, id: &SessionId) -> StoreError {
        match self.inner.ids().await {
            Ok(ids) => not_found(id, ids),
            Err(error) => error,
        }
    }

    async fn snapshot(&self, id: &SessionId) -> Result<(SessionInfo, Vec<Entry>, Vec<String>), StoreError> {
        check_requested_id(id)?;
        let found = self.inner.snapshot(id).await?;
        match found {
            Some((info, entries, notices)) => {
                check_same_id(id, &info.id)?;
                let parent = info.parent.filter(is_valid_id);
                Ok((SessionInfo { parent, ..info }, entries, notices))
            }
            None => Err(self.not_found_error(id).await),
        }
    }
}

impl Inner {
    async fn ids(&self) -> Result<Vec<String>, StoreError> {
        let mut link = self.connection.link().await?;
        let rows = link.client()?.query("SELECT id FROM zk_sessions", &[]).await;
        let rows = rows.map_err(|error| database_error("list sessions", &error))?;
        Ok(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
    }

    /// Reads the summary and all entries of a session in one transaction.
    async fn snapshot(
        &self,
        id: &SessionId,
    ) -> Result<Option<(SessionInfo, Vec<Entry>, Vec<String>)>, StoreError> {
        let mut link = self.connection.link().await?;
        let run = async {
            let transaction = link
                .client()
                .map_err(rows::ReadError::Store)?
                .build_transaction()
                .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()
                .await?;
            let query = format!("SELECT {INFO_COLUMNS} FROM zk_sessions WHERE id = $1");
            let Some(row) = transaction.query_opt(&query, &[&id.as_str()]).await? else { return Ok(None) };
            let info = info_of(&row)?;
            let read = rows::read_entries(&transaction, id).await?;
            let notices = read.notices();
            Ok(Some((info, read.entries, notices)))
        };
        run.await.map_err(|error: rows::ReadError| error.into_store("read a session"))
    }
}

fn visit_all(entries: Vec<Entry>, visit: &mut EntryVisitor) {
    for entry in entries {
        let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
        if visit(entry, bytes) == ControlFlow::Break(()) {
            return;
        }
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        let id = new.id.clone().unwrap_or_else(SessionId::fresh);
        check_id(&id)?;
        Ok(PostgresSession::start(self.inner.clone(), id, new.cwd, new.parent, None))
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        check_requested_id(id)?;
        let taken = Lease::take(&self.inner, id).await?;
        match taken {
            Some((lease, cwd)) => {
                Ok(PostgresSession::start(self.inner.clone(), id.clone(), cwd, None, Some(lease)))
            }
            None => Err(self.not_found_error(id).await),
        }
    }

    async fn open_leased(
        &self,
        id: &SessionId,
        lease: &zk_core::service::Lease,
    ) -> Result<Arc<dyn OpenSession>, StoreError> {
        check_requested_id(id)?;
        let token = i64::try_from(lease.token()).map_err(|_| {
            StoreError::Refused(format!("{} is too large for the token of a lease", lease.token()))
        })?;
        match Lease::take_for_leg(&self.inner, id, token).await? {
            Some((lease, cwd)) => {
                Ok(PostgresSession::start(self.inner.clone(), id.clone(), cwd, None, Some(lease)))
            }
            None => Err(self.not_found_error(id).await),
        }
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let body = mail.to_json()?;
        let posted = {
            let mut link = self.inner.connection.link().await?;
            let client = link.client()?;
            let query = "INSERT INTO zk_mail (session, id, body) SELECT id, $2, $3 FROM zk_sessions WHERE id = $1 \
                ON CONFLICT DO NOTHING";
            let added = client.execute(query, &[&id.as_str(), &mail.id.as_str(), &body]).await;
            let query = "SELECT 1 FROM zk_sessions WHERE id = $1";
            match added.map_err(|error| database_error("post mail", &error))? {
                0 => {
                    let known = client.query_opt(query, &[&id.as_str()]).await;
                    Some(known.map_err(|error| database_error("post mail", &error))?.is_some())
                }
                _ => None,
            }
        };
        match posted {
            None => Ok(()),
            Some(true) => Err(StoreError::PostedBefore { id: id.clone(), mail: mail.id.clone() }),
            Some(false) => Err(self.not_found_error(id).await),
        }
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        let (info, entries, notices) = self.snapshot(id).await?;
        Ok(SessionSnapshot { info, entries: present_branch(entries), notices })
    }

    async fn scan_tree(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let (info, entries, notices) = self.snapshot(id).await?;
        visit_all(entries, &mut visit);
        Ok(SessionScan { info, notices })
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let mut link = self.inner.connection.link().await?;
        let query = format!("SELECT {INFO_COLUMNS} FROM zk_sessions ORDER BY updated_ms DESC, id DESC");
        let rows = link.client()?.query(&query, &[]).await;
        let rows = rows.map_err(|error| database_error("list sessions", &error))?;
        let all = rows.iter().map(info_of).collect::<Result<Vec<_>, _>>();
        Ok(apply_filter(all.map_err(|error| database_error("list sessions", &error))?, filter))
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let Some((lease, _)) = Lease::take(&self.inner, id).await? else {
            return Err(self.not_found_error(id).await);
        };
        let mut link = self.inner.connection.link().await?;
        let query = "DELETE FROM zk_sessions WHERE id = $1 AND lease_token = $2";
        let deleted = link.client()?.execute(query, &[&id.as_str(), &lease.token]).await;
        match deleted.map_err(|error| database_error("delete a session", &error))? {
            0 => Err(StoreError::Fenced { id: id.clone() }),
            _ => Ok(()),
        }
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let title = Some(zk_session::title_line(title)).filter(|title| !title.is_empty());
        let changed = {
            let mut link = self.inner.connection.link().await?;
            let query = "UPDATE zk_sessions SET name = $2 WHERE id = $1";
            link.client()?.execute(query, &[&id.as_str(), &title]).await
        };
        match changed.map_err(|error| database_error("rename a session", &error))? {
            0 => Err(self.not_found_error(id).await),
            _ => Ok(()),
        }
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        Some(self.inner.relay.clone())
    }

    fn of_tenant(&self, tenant: &EngineName) -> Option<Arc<dyn SessionStore>> {
        let Inner { connection, relay, clock, lease } = &*self.inner;
        let connection = connection.of_tenant(tenant);
        let inner = Inner { connection, relay: relay.clone(), clock: clock.clone(), lease: *lease };
        Some(Arc::new(Self { inner: Arc::new(inner) }))
    }

    async fn set_tenant(&self, id: &SessionId, tenant: &EngineName) -> Result<(), StoreError> {
        check_requested_id(id)?;
        let changed = {
            let mut link = self.inner.connection.link().await?;
            let query = "UPDATE zk_sessions SET tenant = $2 WHERE id = $1";
            link.client()?.execute(query, &[&id.as_str(), &tenant.as_str()]).await
        };
        match changed.map_err(|error| database_error("set the tenant of a session", &error))? {
            0 => Err(self.not_found_error(id).await),
            _ => Ok(()),
        }
    }
}
