//! Blobs: large contents of a session, in files beside its history.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::service::{BlobError, BlobId, Blobs, StateFiles, open_regular};

/// Largest blob, in bytes.
const MAX_BLOB_BYTES: u64 = 64 << 20;

/// Maximum number of bytes of all blobs of a session together.
const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// Blobs of a session, as private files named by the SHA-256 of their content. The session's lock keeps other
/// processes from writing to them.
#[derive(Debug)]
pub struct FileBlobs {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
    max_blob: u64,
    max_total: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all blobs of the session; `None` until they are counted.
    total: Option<u64>,
    /// Files whose content was found to match the hash in their name, with their identity at that time.
    verified: HashMap<BlobId, FileIdentity>,
}

/// Properties that change when a file or its content is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl FileBlobs {
    /// Stores blobs in `dir`, which is created when needed, and writes them with `files`.
    #[must_use]
    pub fn new(dir: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { dir, files, max_blob: MAX_BLOB_BYTES, max_total: MAX_TOTAL_BYTES, state: Mutex::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the bytes of all blobs on disk.
    fn count_bytes(&self) -> io::Result<u64> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.metadata()?.len())).sum()
    }

    /// Opens a blob's file, positioned at its start, after its content was checked against its hash.
    fn open_verified(&self, id: &BlobId) -> Result<File, BlobError> {
        let (mut file, identity) = self.open_file(id)?;
        if self.lock_state().verified.get(id) == Some(&identity) {
            return Ok(file);
        }
        let failed = |source| BlobError::Io { doing: "read", id: id.0.clone(), source };
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match file.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(failed)?,
            };
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            context.update(bytes);
        }
        if hex(context.finish().as_ref()) != id.0 {
            return Err(BlobError::Damaged { id: id.clone() });
        }
        file.rewind().map_err(failed)?;
        self.lock_state().verified.insert(id.clone(), identity);
        Ok(file)
    }

    fn open_file(&self, id: &BlobId) -> Result<(File, FileIdentity), BlobError> {
        let is_hash = id.0.len() == 64 && id.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash {
            return Err(BlobError::Missing { id: id.clone() });
        }
        let opened = open_regular(OpenOptions::new().read(true), &self.dir.join(&id.0));
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::NotFound => BlobError::Missing { id: id.clone() },
            _ => BlobError::Io { doing: "read", id: id.0.clone(), source },
        };
        let file = opened.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.len() > self.max_blob {
            return Err(BlobError::Damaged { id: id.clone() });
        }
        let identity = FileIdentity {
            inode: (found.dev(), found.ino()),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        Ok((file, identity))
    }
}

impl Blobs for FileBlobs {
    fn put(&self, bytes: &[u8]) -> Result<BlobId, BlobError> {
        let size = bytes.len() as u64;
        if size > self.max_blob {
            return Err(BlobError::TooLarge { bytes: size, limit: self.max_blob });
        }
        let id = BlobId(hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref()));
        match self.open_verified(&id) {
            Ok(_) => return Ok(id),
            // A missing or damaged blob is written again.
            Err(BlobError::Missing { .. } | BlobError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        let failed = |source| BlobError::Io { doing: "keep", id: id.0.clone(), source };
        let mut state = self.lock_state();
        let total = match state.total {
            Some(total) => total,
            None => self.count_bytes().map_err(failed)?,
        };
        if total.saturating_add(size) > self.max_total {
            return Err(BlobError::Full { bytes: size, limit: self.max_total });
        }
        // Written before a history entry can refer to the blob.
        let kept = self.files.replace(&self.dir.join(&id.0), bytes);
        kept.map_err(|error| failed(error.into_io()))?;
        state.total = Some(total.saturating_add(size));
        Ok(id)
    }

    fn open(&self, id: &BlobId, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, BlobError> {
        let mut file = self.open_verified(id)?;
        let Some(Range { start, end }) = range else { return Ok(Box::new(file)) };
        file.seek(SeekFrom::Start(start)).map_err(|source| BlobError::Io {
            doing: "read",
            id: id.0.clone(),
            source,
        })?;
        Ok(Box::new(file.take(end.saturating_sub(start))))
    }

    fn len(&self, id: &BlobId) -> Result<u64, BlobError> {
        self.open_file(id).map(|(_, identity)| identity.size)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use zk_exec::LocalStateFiles;

    use super::*;

    fn blobs_in(dir: PathBuf) -> FileBlobs {
        FileBlobs::new(dir, Arc::new(LocalStateFiles::default()))
    }

    fn whole(blobs: &FileBlobs, id: &BlobId, range: Option<Range<u64>>) -> String {
        let mut text = String::new();
        blobs.open(id, range).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn equal_bytes_are_kept_once_and_read_whole_or_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = blobs_in(dir.path().join("a/blobs"));
        let id = blobs.put(b"hello blobs").unwrap();
        assert_eq!(blobs.put(b"hello blobs").unwrap(), id);
        assert_ne!(blobs.put(b"").unwrap(), id);
        assert_eq!(std::fs::read_dir(&blobs.dir).unwrap().count(), 2);
        let mode = std::fs::metadata(blobs.dir.join(&id.0)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let later = blobs_in(dir.path().join("a/blobs"));
        assert_eq!((later.len(&id).unwrap(), whole(&later, &id, None).as_str()), (11, "hello blobs"));
        assert_eq!(whole(&later, &id, Some(6..9)), "blo");
        assert_eq!(whole(&later, &id, Some(6..900)), "blobs");
        assert_eq!(whole(&later, &id, Some(50..60)), "");
    }

    #[test]
    fn a_blob_that_changed_is_not_used_and_can_be_kept_anew() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = blobs_in(dir.path().to_path_buf());
        let id = blobs.put(b"hello").unwrap();
        assert_eq!(whole(&blobs, &id, None), "hello");
        std::fs::write(dir.path().join(&id.0), "jello").unwrap();
        for blobs in [&blobs, &blobs_in(dir.path().to_path_buf())] {
            assert!(matches!(blobs.open(&id, None), Err(BlobError::Damaged { .. })));
        }
        assert_eq!(blobs.put(b"hello").unwrap(), id);
        assert_eq!(whole(&blobs, &id, None), "hello");
    }

    #[test]
    fn neither_a_link_nor_a_name_that_is_no_hash_leads_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let blobs = blobs_in(dir.path().join("blobs"));
        let id = blobs.put(b"hello").unwrap();
        std::fs::remove_file(blobs.dir.join(&id.0)).unwrap();
        assert!(matches!(blobs.open(&id, None), Err(BlobError::Missing { .. })));
        symlink(&secret, blobs.dir.join(&id.0)).unwrap();
        assert!(blobs.open(&id, None).is_err());
        assert!(matches!(blobs.open(&BlobId("../secret".into()), None), Err(BlobError::Missing { .. })));
    }

    #[test]
    fn the_limits_of_one_blob_and_of_all_hold_across_processes() {
        let dir = tempfile::tempdir().unwrap();
        let limited = || FileBlobs { max_blob: 6, max_total: 10, ..blobs_in(dir.path().to_path_buf()) };
        let blobs = limited();
        assert!(matches!(blobs.put(b"1234567"), Err(BlobError::TooLarge { bytes: 7, limit: 6 })));
        blobs.put(b"123456").unwrap();
        let later = limited();
        later.put(b"123456").unwrap();
        assert!(matches!(later.put(b"12345"), Err(BlobError::Full { bytes: 5, limit: 10 })));
        later.put(b"1234").unwrap();
    }
}
