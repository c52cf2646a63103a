use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::lock;
use super::map::{KeyValue, MapError, Saved};

/// Map in memory, shared by its clones, which exclude one another by leases.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_stores::{KeyValue, MemoryMap};
///
/// let map = MemoryMap::default();
/// map.save("a/b", b"c".to_vec()).await.unwrap();
/// assert_eq!(map.list("a/").await.unwrap(), ["a/b"]);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryMap(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

#[async_trait]
impl KeyValue for MemoryMap {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MapError> {
        Ok(lock(&self.0).get(key).cloned())
    }

    async fn save(&self, key: &str, value: Vec<u8>) -> Result<(), MapError> {
        lock(&self.0).insert(key.to_owned(), value);
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<(), MapError> {
        lock(&self.0).remove(key);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, MapError> {
        Ok(lock(&self.0).keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }

    async fn create(&self, key: &str, value: Vec<u8>) -> Result<Saved, MapError> {
        let mut all = lock(&self.0);
        if all.contains_key(key) {
            return Ok(Saved::Exists);
        }
        all.insert(key.to_owned(), value);
        Ok(Saved::Yes)
    }
}
