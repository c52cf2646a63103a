use std::fmt;
use std::io::Read;
use std::ops::Range;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Large contents kept outside the history, by the hash of their bytes: `cx.service::<dyn Blobs>()`.
///
/// They are kept exactly as they were given, for whoever has to give them back (an undo, a diff): whoever keeps
/// what may hold a secret redacts it first. Calls block for as long as the disk does; tools run them on a
/// blocking thread.
pub trait Blobs: Send + Sync {
    /// Keeps `bytes`. Equal bytes have one id and are kept once.
    ///
    /// # Errors
    /// [`BlobError`], [`BlobError::TooLarge`] and [`BlobError::Full`] among them; nothing was kept then.
    fn put(&self, bytes: &[u8]) -> Result<BlobId, BlobError>;

    /// The bytes, or those of `range` that exist.
    ///
    /// # Errors
    /// [`BlobError::Missing`] when nothing of that id is kept, [`BlobError::Damaged`] when it changed since.
    fn open(&self, id: &BlobId, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, BlobError>;

    /// Returns the size of the blob in bytes.
    ///
    /// # Errors
    /// [`BlobError::Missing`] when nothing of that id is kept.
    fn len(&self, id: &BlobId) -> Result<u64, BlobError>;
}

/// The id of a blob: what a history refers to it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
pub struct BlobId(pub String);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reason for which a blob is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// Nothing is kept under this id.
    #[error("nothing is kept under `{id}`; it may have been removed with its session")]
    Missing {
        /// The id.
        id: BlobId,
    },
    /// The blob is not what it was when it was kept.
    #[error("what is kept under `{id}` changed since; it is not used")]
    Damaged {
        /// The id.
        id: BlobId,
    },
    /// The blob is larger than any one may be.
    #[error("cannot keep {bytes} bytes as a blob: the limit is {limit}")]
    TooLarge {
        /// Size of the blob.
        bytes: u64,
        /// The most bytes one may have.
        limit: u64,
    },
    /// There is no room left for all of them together.
    #[error("cannot keep {bytes} bytes more: all blobs of a session may have {limit} bytes together")]
    Full {
        /// Size of the blob.
        bytes: u64,
        /// The most bytes all may have together.
        limit: u64,
    },
    /// The disk said no.
    #[error("cannot {doing} blob `{id}`: {source}")]
    Io {
        /// Act that failed, as a verb.
        doing: &'static str,
        /// The blob.
        id: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
