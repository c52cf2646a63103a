use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{CredentialLock, CredentialStore, SetAside, StoreError};
use crate::Credential;

/// Credential store in memory.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_auth::{Credential, CredentialStore, MemoryStore};
///
/// let store = MemoryStore::default();
/// store.put("anthropic", &Credential::ApiKey("sk-test".into())).await?;
/// assert_eq!(store.names().await?, ["anthropic"]);
/// # Ok::<(), zk_auth::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    entries: Mutex<BTreeMap<String, Credential>>,
    locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryStore {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Credential>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn get(&self, name: &str) -> Result<Option<Credential>, StoreError> {
        Ok(self.entries().get(name).cloned())
    }

    async fn put(&self, name: &str, credential: &Credential) -> Result<Option<SetAside>, StoreError> {
        self.entries().insert(name.to_owned(), credential.clone());
        Ok(None)
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.entries().remove(name).is_some())
    }

    async fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries().keys().cloned().collect())
    }

    async fn lock(&self, name: &str) -> Result<CredentialLock, StoreError> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(name.to_owned()).or_default().clone()
        };
        Ok(CredentialLock::new(lock.lock_owned().await))
    }
}
