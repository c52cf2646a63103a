//! File locks between processes; the kernel releases them when the holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::StoreError;

/// Pause between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Flags for opening a file, with which a pipe in its place does not block.
pub(super) const NO_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();

/// Opens the lock file at `path`, whose directory exists.
pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(NO_WAIT)
        .open(path)
        .map_err(|source| StoreError::Io { what: "open", path: path.to_owned(), source })
}

/// Waits for the lock without blocking a thread; dropping the future ends the wait.
pub(super) async fn wait(file: File, path: &Path, limit: Duration) -> Result<File, StoreError> {
    let start = tokio::time::Instant::now();
    while !try_lock(&file, path)? {
        let waited = start.elapsed();
        if waited >= limit {
            return Err(StoreError::Busy { path: path.to_owned(), waited });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(file)
}

/// Waits for the lock and blocks the thread.
pub(super) fn wait_blocking(file: File, path: &Path, limit: Duration) -> Result<File, StoreError> {
    let start = Instant::now();
    while !try_lock(&file, path)? {
        let waited = start.elapsed();
        if waited >= limit {
            return Err(StoreError::Busy { path: path.to_owned(), waited });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(file)
}

fn try_lock(file: &File, path: &Path) -> Result<bool, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => {
            Err(StoreError::Io { what: "lock", path: path.to_owned(), source })
        }
    }
}
