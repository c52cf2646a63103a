use std::fmt;
use std::io::Read;
use std::ops::Range;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Store of large contents outside of the history, addressed by the hash of their bytes: `cx.service::<dyn
/// Blobs>()`.
///
/// Contents are stored unchanged, since an undo or a diff needs the exact bytes. Callers redact secrets
/// before they store a content. Calls block on disk access; tools make them on a blocking thread.
pub trait Blobs: Send + Sync {
    /// Stores `bytes` and returns their id. Equal bytes have the same id and are stored once.
    ///
    /// # Errors
    /// [`BlobError`], among others [`BlobError::TooLarge`] and [`BlobError::Full`]; nothing was stored then.
    fn put(&self, bytes: &[u8]) -> Result<BlobId, BlobError>;

    /// Opens a blob, as a whole or only the bytes of `range`.
    ///
    /// # Errors
    /// [`BlobError::Missing`] for an unknown id, [`BlobError::Damaged`] when the content changed since it was
    /// stored.
    fn open(&self, id: &BlobId, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, BlobError>;

    /// Returns the size of the blob in bytes.
    ///
    /// # Errors
    /// [`BlobError::Missing`] for an unknown id.
    fn len(&self, id: &BlobId) -> Result<u64, BlobError>;
}

/// Id of a blob, by which a history refers to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
pub struct BlobId(pub String);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reason for which a blob cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// No blob has this id.
    #[error("nothing is kept under `{id}`; it may have been removed with its session")]
    Missing {
        /// Id of the requested blob.
        id: BlobId,
    },
    /// The content changed since it was stored.
    #[error("what is kept under `{id}` changed since; it is not used")]
    Damaged {
        /// Id of the blob.
        id: BlobId,
    },
    /// The blob exceeds the size limit of one blob.
    #[error("cannot keep {bytes} bytes as a blob: the limit is {limit}")]
    TooLarge {
        /// Size of the blob in bytes.
        bytes: u64,
        /// Size limit of one blob in bytes.
        limit: u64,
    },
    /// The store has no room for the blob.
    #[error("cannot keep {bytes} bytes more: all blobs of a session may have {limit} bytes together")]
    Full {
        /// Size of the blob in bytes.
        bytes: u64,
        /// Size limit of all blobs together in bytes.
        limit: u64,
    },
    /// The file system reported an error.
    #[error("cannot {doing} blob `{id}`: {source}")]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Id of the blob.
        id: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
