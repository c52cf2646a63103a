use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use zk_core::service::StoreError;

use super::files::Files;

/// The right to write one session: an advisory lock on a file beside it that holds the owner's process id.
///
/// It is a file of its own because closing any other handle of the database would drop SQLite's own locks. It
/// ends with the value or with the process, whichever comes first.
#[derive(Debug)]
pub(super) struct SessionLock {
    path: PathBuf,
    file: File,
}

/// Looking whether a session is in use takes the lock for a moment; one that is only looked at is free again
/// long before this is used up.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

impl SessionLock {
    /// # Errors
    /// [`StoreError::InUse`] when somebody has it, [`StoreError::Io`] when the lock file cannot be written.
    pub(super) fn take(files: &Files) -> Result<Self, StoreError> {
        let path = files.lock();
        let fail = |source| StoreError::Io { doing: "write the lock file", path: path.clone(), source };
        let mut pid = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(fail)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The last owner may have removed the file between our opening and locking it.
                Ok(()) if is_at(&file, &path) => {
                    let mut lock = Self { path: path.clone(), file };
                    lock.sign().map_err(fail)?;
                    return Ok(lock);
                }
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => pid = read_pid(&file),
                Err(error) => return Err(fail(error.into())),
            }
        }
        Err(StoreError::InUse { id: files.id().clone(), pid: pid.unwrap_or(0) })
    }

    fn sign(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        write!(self.file, "{}", std::process::id())
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Removed while it is still held, so nobody else's file can be removed by mistake.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Who has the session open, without disturbing them.
pub(super) fn holder(files: &Files) -> Option<u32> {
    let file = File::open(files.lock()).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Some(read_pid(&file).unwrap_or(0)),
        Ok(()) | Err(_) => None,
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

fn read_pid(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
