use std::sync::Arc;

use async_trait::async_trait;
use zk_auth::Http;
use zk_core::model::SessionId;
use zk_core::service::{
    NewSession, OpenSession, SessionFilter, SessionInfo, SessionSnapshot, SessionStore, StateFiles,
    StoreError,
};
use zk_session::MemoryStore;

use crate::{DirMap, FileMapStore, RemoteStore, StoreLocation};

/// Services and secrets that opening a store may need.
#[derive(Debug)]
pub struct StoreOpening {
    /// Access to the files of a store in a directory.
    pub files: Arc<dyn StateFiles>,
    /// HTTP client for a session server.
    pub http: Http,
    /// Token for a session server.
    pub token: Option<String>,
}

impl StoreLocation {
    /// Opens the store at this place; `None` for SQLite files, whose directory the caller knows. Nothing is sent or
    /// read yet.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a path that is not absolute and for a store that this build lacks;
    /// [`StoreError::Failed`] for an address that cannot be used.
    pub fn open(&self, opening: StoreOpening) -> Result<Option<Arc<dyn SessionStore>>, StoreError> {
        Ok(Some(match self {
            Self::Sqlite => return Ok(None),
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Files(path) if path.is_absolute() => {
                Arc::new(FileMapStore::new(Arc::new(DirMap::new(path.clone(), opening.files))))
            }
            Self::Files(_) => {
                let why = "the path of `files:PATH` begins with / or ~/";
                return Err(StoreError::Refused(why.to_owned()));
            }
            Self::Remote(address) => Arc::new(RemoteStore::new(address, opening.token, opening.http)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Arc::new(crate::PostgresStore::new(address)?),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => {
                let why = "this zk is built without PostgreSQL; build it with `--features postgres`";
                return Err(StoreError::Refused(why.to_owned()));
            }
        }))
    }
}

/// Store that cannot be used as it is set: each operation is refused with the reason.
#[derive(Debug)]
pub struct RefusedStore {
    reason: String,
}

impl RefusedStore {
    /// Creates a store that refuses with `reason`.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    fn refuse<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Refused(self.reason.clone()))
    }
}

#[async_trait]
impl SessionStore for RefusedStore {
    async fn create(&self, _: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.refuse()
    }

    async fn open(&self, _: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.refuse()
    }

    async fn read(&self, _: &SessionId) -> Result<SessionSnapshot, StoreError> {
        self.refuse()
    }

    async fn list(&self, _: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.refuse()
    }

    async fn delete(&self, _: &SessionId) -> Result<(), StoreError> {
        self.refuse()
    }
}
