//! Non-blocking reads of files that are in the page cache.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, fstatfs, major, minor,
    openat2, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use zk_core::service::{CachedFile, Resolved};

use super::facts::file_stat;
use super::protect::Access;
use super::{WorkspaceFiles, resolve};

/// File systems on local disks whose cached files can be opened and read without blocking: ext2 to ext4, XFS,
/// Btrfs and F2FS.
const LOCAL: [u32; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];

/// Whether files of a root can be read from the page cache without blocking.
#[derive(Debug)]
pub(super) struct CachedReads(AtomicBool);

impl CachedReads {
    pub(super) fn of(root: BorrowedFd<'_>) -> Self {
        let kind = fstatfs(root).ok().and_then(|stat| u32::try_from(stat.f_type).ok());
        Self(AtomicBool::new(kind.is_some_and(|kind| LOCAL.contains(&kind))))
    }

    /// Remembers that the kernel lacks this call, so that it is not tried again.
    fn note_missing_call(&self, errno: Errno) {
        if matches!(errno, Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::NOTSUP) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
}

impl WorkspaceFiles {
    /// Reads the file at `path` under the same rules as any other read, if it is a regular file with one hard
    /// link and both its path and its content are cached. `None` in all other cases: the blocking read
    /// reports the reason.
    pub(super) fn cached(&self, cwd: &Path, path: &str, max_bytes: usize) -> Option<CachedFile> {
        let path = resolve::plain_target(cwd, path)?;
        let (root, rest) = self.root_of(&path)?;
        if !root.cached.0.load(Ordering::Relaxed) || rest.as_os_str().is_empty() {
            return None;
        }
        if self.protection.refusal(&path, Access::Read).is_some() {
            return None;
        }
        let noted = |errno| root.cached.note_missing_call(errno);
        let named = look_up(&path).map_err(noted).ok()?;
        if named.size > max_bytes as u64 {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.door.open_cached(root.fd.as_fd(), rest, flags).map_err(noted).ok()?;
        let stat = fstat(&file).ok()?;
        // The root is the directory that was opened at the start, even if its name now means another one.
        if Identity::of(&stat) != named.identity || !is_ordinary(stat.st_mode, stat.st_nlink == 1) {
            return None;
        }
        let size = usize::try_from(stat.st_size).ok().filter(|size| *size <= max_bytes)?;
        let mut bytes = vec![0; size];
        // A short read means that the rest is not in the page cache.
        let read = match size {
            0 => 0,
            _ => preadv2(&file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT)
                .map_err(noted)
                .ok()?,
        };
        let at = Resolved { shown: self.shown(&path), path };
        (read == size).then(|| CachedFile { at, stat: file_stat(&stat), bytes })
    }
}

/// Identity and size of a file before it is opened, since opening a device can already have an effect.
struct Named {
    identity: Identity,
    size: u64,
}

/// Looks up a path without links, from the kernel's cache only.
fn look_up(path: &Path) -> Result<Named, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let fd = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let asked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(&fd, c"", asked, StatxFlags::BASIC_STATS)?;
    if !is_ordinary(stat.stx_mode.into(), stat.stx_nlink == 1) {
        return Err(Errno::ISDIR);
    }
    let device = (stat.stx_dev_major, stat.stx_dev_minor);
    Ok(Named { identity: Identity { device, number: stat.stx_ino }, size: stat.stx_size })
}

/// Whether the mode is that of a regular file, and the file has one hard link.
fn is_ordinary(mode: u32, has_one_name: bool) -> bool {
    has_one_name && FileType::from_raw_mode(mode) == FileType::RegularFile
}

#[derive(PartialEq, Eq)]
struct Identity {
    device: (u32, u32),
    number: u64,
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self { device: (major(stat.st_dev), minor(stat.st_dev)), number: stat.st_ino }
    }
}
