use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
#[cfg(target_os = "linux")]
use rustix::fs::{ResolveFlags, openat2};
use rustix::io::Errno;

/// Opens paths beneath a directory and refuses every symbolic link on the way.
#[derive(Debug, Default)]
pub(super) struct Door {
    /// Whether paths are opened one component at a time, because the kernel has no `openat2` or a sandbox
    /// blocks it.
    walk: AtomicBool,
}

const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(target_os = "linux")]
const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

impl Door {
    pub(super) fn without_openat2() -> Self {
        Self { walk: AtomicBool::new(true) }
    }

    /// Opens `rest`, relative to `root` and free of `..`; a symbolic link anywhere on the path gives the
    /// error `LOOP`.
    pub(super) fn open(&self, root: BorrowedFd<'_>, rest: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        #[cfg(target_os = "linux")]
        if !self.walk.load(Ordering::Relaxed) {
            // The kernel occasionally gives up if directories are renamed concurrently.
            for _ in 0..64 {
                match openat2(root, rest, flags, Mode::empty(), RESOLVE) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(Errno::NOSYS | Errno::PERM) => {
                        self.walk.store(true, Ordering::Relaxed);
                        return open_by_components(root, rest, flags);
                    }
                    done => return done,
                }
            }
            return Err(Errno::AGAIN);
        }
        open_by_components(root, rest, flags)
    }

    /// Variant of [`open`](Self::open) on the file system of `root` only, which fails unless the whole path
    /// is in the kernel's cache, so that it never waits for the disk.
    #[cfg(target_os = "linux")]
    pub(super) fn open_cached(
        &self,
        root: BorrowedFd<'_>,
        rest: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        if self.walk.load(Ordering::Relaxed) {
            return Err(Errno::NOTSUP);
        }
        let resolve = RESOLVE | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
        openat2(root, rest, flags, Mode::empty(), resolve)
    }

    /// Opens the directory `rest` and makes its missing parts.
    pub(super) fn make_dirs(&self, root: BorrowedFd<'_>, rest: &Path) -> Result<OwnedFd, Errno> {
        match self.open(root, rest, STEP) {
            Err(Errno::NOENT) => {}
            done => return done,
        }
        let mut dir = openat(root, ".", STEP, Mode::empty())?;
        for name in components(rest)? {
            dir = match openat(&dir, name, STEP, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    openat(&dir, name, STEP, Mode::empty())?
                }
                done => done?,
            };
        }
        Ok(dir)
    }
}

fn open_by_components(root: BorrowedFd<'_>, rest: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names = components(rest)?;
    let Some((last, above)) = names.split_last() else {
        return openat(root, ".", flags | OFlags::NOFOLLOW, Mode::empty());
    };
    let mut dir = openat(root, ".", STEP, Mode::empty())?;
    for name in above {
        dir = openat(&dir, *name, STEP, Mode::empty()).map_err(|errno| link_or(errno, &dir, name))?;
    }
    openat(&dir, *last, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| link_or(errno, &dir, last))
}

/// Corrects the error: for a link, `O_DIRECTORY` together with `O_NOFOLLOW` returns "not a directory".
fn link_or(errno: Errno, dir: &OwnedFd, name: &OsStr) -> Errno {
    use rustix::fs::{AtFlags, FileType, statat};
    let is_link = errno == Errno::NOTDIR
        && statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    if is_link { Errno::LOOP } else { errno }
}

fn components(rest: &Path) -> Result<Vec<&OsStr>, Errno> {
    rest.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
                Err(Errno::XDEV)
            }
        })
        .collect()
}
