use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use zk_core::service::{StoreError, open_regular};

use super::files::{Files, with_suffix};

/// Lock of a session's writer: an advisory lock on a separate file, which contains the owner's process id and
/// the number of entries that it has acknowledged.
///
/// The lock has a separate file because closing any other handle of the database would drop SQLite's own
/// locks. The lock ends with this value or with the process. The file remains if the process was killed, or
/// could not move its write-ahead log into the database. Its count then reveals a truncated log, which cannot
/// be noticed otherwise.
#[derive(Debug)]
pub(crate) struct SessionLock {
    path: PathBuf,
    file: File,
    /// Path of the session's write-ahead log.
    log: PathBuf,
    /// Number of entries that the last owner had acknowledged when it was killed.
    left: Option<i64>,
    /// Whether the file's count is up to date, so that the file may be removed with the lock.
    is_settled: bool,
    /// Whether the lock is shared with other writers that have leases, of which only the newest writes.
    is_lease: bool,
}

/// Last word in the lock file of a writer that has a lease.
const LEASE_MARK: &str = "lease";

/// Attempts to take the lock: a process that only checks for an owner holds it for a moment.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

impl SessionLock {
    /// Takes the exclusive lock for a writer without a lease.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process has the lock, [`StoreError::Io`] when the file cannot be
    /// written or is a link.
    pub(crate) fn take(files: &Files) -> Result<Self, StoreError> {
        Self::take_as(files, false)
    }

    /// Takes the lock for a writer with a lease: exclusively if nobody has the session, or else shared with the writers
    /// of older leases, as [`SessionLock::is_shared`] says.
    ///
    /// # Errors
    /// As [`SessionLock::take`], also when a writer without a lease has it.
    pub(super) fn take_for_lease(files: &Files) -> Result<Self, StoreError> {
        Self::take_as(files, true)
    }

    fn take_as(files: &Files, for_lease: bool) -> Result<Self, StoreError> {
        let path = files.lock();
        let fail = |source| StoreError::Io { doing: "write the lock file", path: path.clone(), source };
        let mut pid = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = open_plain(&mut options, &path).map_err(fail)?;
            let exclusive = flock(&file, FlockOperation::NonBlockingLockExclusive);
            let is_beside = for_lease && exclusive == Err(rustix::io::Errno::WOULDBLOCK);
            let locked = match is_beside {
                true => flock(&file, FlockOperation::NonBlockingLockShared),
                false => exclusive,
            };
            match locked {
                // The last owner may have removed the file after it was opened here and before it was locked.
                Ok(()) if is_same_file(&file, &path) => {
                    let left = read_owner(&file).and_then(|owner| owner.entries).filter(|_| !is_beside);
                    let lock = Self {
                        path: path.clone(),
                        file,
                        log: with_suffix(&files.db(), "-wal"),
                        left,
                        is_settled: left.is_none() && !is_beside,
                        is_lease: is_beside,
                    };
                    lock.write_owner(left).map_err(fail)?;
                    return Ok(lock);
                }
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => pid = read_owner(&file).map(|owner| owner.pid),
                Err(error) => return Err(fail(error.into())),
            }
        }
        Err(StoreError::InUse { id: files.id().clone(), pid: pid.unwrap_or(0) })
    }

    /// Whether writers with older leases may have the session open.
    pub(super) fn is_shared(&self) -> bool {
        self.is_lease
    }

    /// Shares the lock with writers that have newer leases.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when a writer without a lease was faster.
    pub(super) fn share(&mut self, files: &Files) -> Result<(), StoreError> {
        self.is_lease = true;
        let path = self.path.clone();
        let fail = |source| StoreError::Io { doing: "write the lock file", path, source };
        self.write_owner(self.left).map_err(fail)?;
        flock(&self.file, FlockOperation::NonBlockingLockShared).map_err(|_| {
            let pid = read_owner(&self.file).map_or(0, |owner| owner.pid);
            StoreError::InUse { id: files.id().clone(), pid }
        })
    }

    /// Number of entries that a killed owner had acknowledged; if the session has fewer, some were lost.
    pub(crate) fn acknowledged_entries(&self) -> Option<i64> {
        self.left
    }

    /// Writes the number of acknowledged entries into the lock file. A failure loses no entry, only the ability to
    /// notice a loss.
    pub(crate) fn record_entries(&mut self, entries: i64) {
        self.left = None;
        self.is_settled = self.write_owner(Some(entries)).is_ok();
    }

    /// Whether the lock file is still at its path.
    pub(crate) fn is_in_place(&self) -> bool {
        is_same_file(&self.file, &self.path)
    }

    fn write_owner(&self, entries: Option<i64>) -> io::Result<()> {
        // The text has a fixed length, so that it is replaced in place and needs no disk space.
        let mark = if self.is_lease { LEASE_MARK } else { "" };
        let text = match entries {
            Some(entries) => format!("{:>10} {entries:>20} {mark}\n", std::process::id()),
            None => format!("{:>10} {:>20} {mark}\n", std::process::id(), ""),
        };
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Removed while the lock is held alone, so that another owner's file cannot be removed.
        let is_alone = !self.is_lease || flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_alone && self.is_settled && self.is_in_place() && !self.log.exists() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Id of the process that has the session open. Does not disturb its lock.
pub(crate) fn holder(files: &Files) -> Option<u32> {
    let file = open_plain(OpenOptions::new().read(true), &files.lock()).ok()?;
    let owner = || Some(read_owner(&file).map_or(0, |owner| owner.pid));
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => owner(),
        // A writer with a lease shares its lock.
        Ok(()) if read_owner(&file).is_some_and(|owner| owner.is_lease) => {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => owner(),
                Ok(()) | Err(_) => None,
            }
        }
        Ok(()) | Err(_) => None,
    }
}

/// Number of entries that the last owner had acknowledged when it was killed.
pub(crate) fn acknowledged_entries(files: &Files) -> Option<i64> {
    let file = open_plain(OpenOptions::new().read(true), &files.lock()).ok()?;
    read_owner(&file).and_then(|owner| owner.entries)
}

/// Opens a regular file that has no other name.
pub(crate) fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = open_regular(options, path).map_err(|error| match error.raw_os_error() {
        Some(_) => error,
        None => refused_error(&error.to_string()),
    })?;
    // A file that was removed since has no name left.
    if file.metadata()?.nlink() > 1 {
        return Err(refused_error("it is a hard link to another file"));
    }
    Ok(file)
}

fn refused_error(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}; remove it and try again"))
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Content of a lock file.
struct Owner {
    pid: u32,
    entries: Option<i64>,
    is_lease: bool,
}

fn read_owner(mut file: &File) -> Option<Owner> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    let mut words = text.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let is_lease = text.trim_end().ends_with(LEASE_MARK);
    Some(Owner { pid, entries: words.next().and_then(|entries| entries.parse().ok()), is_lease })
}
