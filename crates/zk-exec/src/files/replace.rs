use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr,
    fsync, openat, renameat, unlinkat,
};
use rustix::io::Errno;

/// Failure of a replacement; the old file is unchanged.
#[derive(Debug)]
pub(super) enum Failure {
    /// The temporary file could not be created in the directory.
    Beside(io::Error),
    /// The new content could not be written, or the file could not be renamed.
    Fill(io::Error),
}

/// Writes `bytes` to a temporary file and renames it to `name` in `dir`. Owner, mode and attributes of `old`
/// are kept.
pub(super) fn replace(dir: &OwnedFd, name: &OsStr, old: Option<&Stat>, bytes: &[u8]) -> Result<(), Failure> {
    let (new, temporary) = create(dir, old.is_some()).map_err(|errno| Failure::Beside(errno.into()))?;
    let done = fill_and_rename(dir, name, old, bytes, new, &temporary);
    if done.is_err() {
        let _ = unlinkat(dir, &*temporary, AtFlags::empty());
    }
    done.map_err(Failure::Fill)
}

/// Creates a temporary file under a random, unused name.
fn create(dir: &OwnedFd, private: bool) -> Result<(File, String), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The file must never be readable by more people than the file that it replaces.
    let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
    loop {
        let name = format!(".zk-{:016x}.tmp", RandomState::new().build_hasher().finish());
        match openat(dir, &*name, flags, mode) {
            Ok(fd) => return Ok((File::from(fd), name)),
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "file tools write on threads that may block")]
fn fill_and_rename(
    dir: &OwnedFd,
    name: &OsStr,
    old: Option<&Stat>,
    bytes: &[u8],
    mut new: File,
    temporary: &str,
) -> io::Result<()> {
    new.write_all(bytes)?;
    if let Some(old) = old {
        copy_metadata(dir, name, old, &new);
    }
    new.sync_all()?;
    renameat(dir, temporary, dir, name)?;
    // The directory was opened with `O_PATH`; syncing its entries needs a descriptor that can be read.
    if let Ok(dir) = openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = fsync(dir);
    }
    Ok(())
}

/// Copies owner, extended attributes (such as access lists) and mode, as far as this user may set them. The
/// owner comes first, since a change of owner clears the set-user-id bits.
fn copy_metadata(dir: &OwnedFd, name: &OsStr, old: &Stat, new: &File) {
    let _ = fchown(new, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(from) = openat(dir, name, flags, Mode::empty()) {
        copy_attributes(&from, new);
    }
    let _ = fchmod(new, Mode::from_raw_mode(old.st_mode & 0o7777));
}

fn copy_attributes(from: &OwnedFd, to: &File) {
    let mut names = vec![0_u8; 64 * 1024];
    let Ok(len) = flistxattr(from, &mut *names) else { return };
    names.truncate(len);
    let mut value = vec![0_u8; 64 * 1024];
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(len) = fgetxattr(from, name, &mut *value) else { continue };
        if let Some(value) = value.get(..len) {
            let _ = fsetxattr(to, name, value, XattrFlags::empty());
        }
    }
}
