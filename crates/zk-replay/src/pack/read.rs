use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;

use super::{PACK_VERSION, Pack};

/// Largest pack in bytes.
pub const MAX_PACK_BYTES: usize = 64 << 20;

/// Largest unpacked content of a pack in bytes.
pub const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// First bytes of a compressed file.
const GZIP_SIGN: [u8; 2] = [0x1f, 0x8b];

/// Hexadecimal digits of a blob's id.
const BLOB_ID_DIGITS: usize = 64;

/// Reason for which a pack cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The file is something else.
    #[error("this is no pack of a session; `zk replay --pack SESSION` writes one")]
    NotAPack,
    /// Bytes are wrong or missing.
    #[error("the pack is damaged ({0}); ask for it again")]
    Damaged(String),
    /// A newer version of zk wrote it.
    #[error("the pack has format {found}, and this zk reads up to {known}; use a newer zk")]
    TooNew {
        /// Version of the pack.
        found: u32,
        /// Newest version that this program knows.
        known: u32,
    },
    /// The pack or its content is larger than allowed.
    #[error("the pack is larger than {} MiB, which no pack of zk is; it was not read further", limit >> 20)]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The session has an id that zk never gives.
    #[error("the pack names its session `{id}`, which is no id of zk; it was not read")]
    Session {
        /// First 80 characters of the session id.
        id: String,
    },
    /// A stored output has a name that zk never gives.
    #[error("the pack names a stored output `{name}`, which is no name of zk; it was not read")]
    Name {
        /// First 80 characters of the name.
        name: String,
    },
}

/// Version of a pack, read before the rest.
#[derive(Deserialize)]
struct Head {
    zkpack: u32,
}

/// Whether the word is the id of a blob.
pub(super) fn is_blob_id(word: &str) -> bool {
    word.len() == BLOB_ID_DIGITS
        && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Longest id of a session in bytes.
const MAX_SESSION_ID_BYTES: usize = 100;

/// Whether the id can name a directory of this machine.
fn is_session_id(id: &str) -> bool {
    (1..=MAX_SESSION_ID_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

impl Pack {
    /// Whether bytes begin like a pack; not yet whether they are one.
    #[must_use]
    pub fn looks_like_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&GZIP_SIGN)
    }

    /// Reads a pack of anybody. Nothing is written anywhere, and no more than [`MAX_UNPACKED_BYTES`] are unpacked.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PackError> {
        if !Self::looks_like_one(bytes) {
            return Err(PackError::NotAPack);
        }
        if bytes.len() > MAX_PACK_BYTES {
            return Err(PackError::TooLarge { limit: MAX_PACK_BYTES as u64 });
        }
        let mut json = Vec::new();
        let unpacked = GzDecoder::new(bytes).take(MAX_UNPACKED_BYTES + 1).read_to_end(&mut json);
        unpacked.map_err(|error| PackError::Damaged(error.to_string()))?;
        if json.len() as u64 > MAX_UNPACKED_BYTES {
            return Err(PackError::TooLarge { limit: MAX_UNPACKED_BYTES });
        }
        if !json.starts_with(b"{") {
            return Err(PackError::NotAPack);
        }
        let damaged = |error: serde_json::Error| PackError::Damaged(error.to_string());
        let head: Head = serde_json::from_slice(&json)
            .map_err(|error| if error.is_data() { PackError::NotAPack } else { damaged(error) })?;
        if head.zkpack > PACK_VERSION {
            return Err(PackError::TooNew { found: head.zkpack, known: PACK_VERSION });
        }
        let pack: Self = serde_json::from_slice(&json).map_err(damaged)?;
        if !is_session_id(pack.session.as_str()) {
            let id = pack.session.as_str().chars().take(80).collect();
            return Err(PackError::Session { id });
        }
        if let Some(name) = pack.blobs.keys().find(|name| !is_blob_id(name)) {
            return Err(PackError::Name { name: name.chars().take(80).collect() });
        }
        Ok(pack)
    }

    /// Content of a stored output; `None` if the pack has none of this id.
    #[must_use]
    pub fn blob(&self, id: &str) -> Option<Vec<u8>> {
        STANDARD.decode(self.blobs.get(id)?).ok()
    }
}
