//! Placeholders: empty directories by which a sandbox reserves the names of start files.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, Stat, openat};
use zk_core::service::FileKind;

use super::facts::file_kind;
use super::protect;

/// Whether a directory entry is such a placeholder: an empty directory with the name of a start file.
pub(super) fn is_placeholder(dir: &OwnedFd, name: &CStr, stat: &Stat) -> bool {
    let has_name = name.to_str().is_ok_and(protect::is_start_file);
    if !has_name || file_kind(stat) != FileKind::Directory {
        return false;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty()).is_ok_and(is_empty)
}

pub(super) fn is_empty(dir: OwnedFd) -> bool {
    Dir::new(dir).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")))
    })
}
