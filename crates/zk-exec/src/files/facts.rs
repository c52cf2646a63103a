//! Conversion of the kernel's file metadata to the types that tools see.

use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};
use zk_core::service::{FileIdentity, FileKind, FileStat};

pub(super) fn file_kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => FileKind::Other,
    }
}

pub(super) fn file_stat(stat: &Stat) -> FileStat {
    FileStat {
        kind: file_kind(stat),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified: modified(stat),
        identity: FileIdentity::new(format!("{:x}.{:x}", stat.st_dev, stat.st_ino)),
    }
}

pub(super) fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanos = u32::try_from(stat.st_mtime_nsec).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}
