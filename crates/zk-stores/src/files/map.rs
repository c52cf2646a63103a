use std::any::Any;
use std::fmt;
use std::io;

use async_trait::async_trait;
use zk_core::service::StoreError;

/// Map of keys to bytes, in which a [`FileMapStore`](crate::FileMapStore) stores sessions.
///
/// Keys are ASCII letters, digits and `._-%`, in two parts with one `/` between them, of at most 255 bytes
/// each. A map may store other keys too; the store leaves those alone.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// use async_trait::async_trait;
/// use zk_stores::{KeyValue, MapError};
///
/// #[derive(Default)]
/// struct Shelf(Mutex<BTreeMap<String, Vec<u8>>>);
///
/// #[async_trait]
/// impl KeyValue for Shelf {
///     async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MapError> {
///         Ok(self.0.lock().unwrap().get(key).cloned())
///     }
///
///     async fn save(&self, key: &str, value: Vec<u8>) -> Result<(), MapError> {
///         self.0.lock().unwrap().insert(key.to_owned(), value);
///         Ok(())
///     }
///
///     async fn delete(&self, key: &str) -> Result<(), MapError> {
///         self.0.lock().unwrap().remove(key);
///         Ok(())
///     }
///
///     async fn list(&self, prefix: &str) -> Result<Vec<String>, MapError> {
///         Ok(self.0.lock().unwrap().keys().filter(|key| key.starts_with(prefix)).cloned().collect())
///     }
/// }
/// ```
#[async_trait]
pub trait KeyValue: Send + Sync {
    /// Reads the value of a key; `None` if it has none.
    ///
    /// # Errors
    /// [`MapError`].
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MapError>;

    /// Sets the value of a key. On return, the value survives a power failure, as far as the map can promise it. After
    /// an error, or a failure in between, the key may have any value.
    ///
    /// # Errors
    /// [`MapError`].
    async fn save(&self, key: &str, value: Vec<u8>) -> Result<(), MapError>;

    /// Removes a key; a missing one is no error.
    ///
    /// # Errors
    /// [`MapError`].
    async fn delete(&self, key: &str) -> Result<(), MapError>;

    /// Lists the keys that begin with `prefix`, in any order. A key is listed once its `save` has returned.
    ///
    /// # Errors
    /// [`MapError`].
    async fn list(&self, prefix: &str) -> Result<Vec<String>, MapError>;

    /// Sets the value of a key only if it has none, atomically for all processes that use the map. With this, processes
    /// share the map by leases.
    ///
    /// # Errors
    /// [`MapError`].
    async fn create(&self, _key: &str, _value: Vec<u8>) -> Result<Saved, MapError> {
        Ok(Saved::Unsupported)
    }

    /// Takes a lock that ends with this process. Maps on one machine have such locks; for other maps, leases are used.
    ///
    /// # Errors
    /// [`MapError`].
    async fn lock(&self, _key: &str) -> Result<MapLock, MapError> {
        Ok(MapLock::Unsupported)
    }

    /// Process that holds the [lock](Self::lock) of a key.
    ///
    /// # Errors
    /// [`MapError`].
    async fn holder(&self, _key: &str) -> Result<Option<u32>, MapError> {
        Ok(None)
    }
}

/// Outcome of [`KeyValue::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The value was set.
    Yes,
    /// The key has a value already.
    Exists,
    /// The map cannot create a key only where it is absent.
    Unsupported,
}

/// Outcome of [`KeyValue::lock`].
pub enum MapLock {
    /// The lock, until this value is dropped.
    Held(Box<dyn Any + Send + Sync>),
    /// Another process has the lock.
    Busy {
        /// Id of that process; 0 if unknown.
        pid: u32,
    },
    /// The map has no locks.
    Unsupported,
}

impl fmt::Debug for MapLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held(_) => "Held",
            Self::Busy { .. } => "Busy",
            Self::Unsupported => "Unsupported",
        })
    }
}

/// Error of a map.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {key}: {source}")]
pub struct MapError {
    /// Action that failed, as a verb.
    pub doing: &'static str,
    /// Key, or the path of its file.
    pub key: String,
    /// Cause of the failure.
    pub source: io::Error,
}

impl MapError {
    /// Converts an error of the system.
    pub fn new(doing: &'static str, key: impl Into<String>, source: io::Error) -> Self {
        Self { doing, key: key.into(), source }
    }
}

impl From<MapError> for StoreError {
    fn from(MapError { doing, key, source }: MapError) -> Self {
        Self::Io { doing, path: key.into(), source }
    }
}
