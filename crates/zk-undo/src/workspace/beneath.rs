//! Files by descriptors of their directories, so that no link is followed on the way to them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, readlinkat, renameat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
use rustix::fs::{RenameFlags, renameat_with};

/// Mode of a new directory until its wanted mode is set.
pub(crate) const NEW_DIR_MODE: u32 = 0o700;

/// Name in an open directory, whether or not a file has it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: OwnedFd,
    pub(crate) name: OsString,
}

impl Place {
    /// Opens the parent of an absolute path; links on the way are refused.
    pub(crate) fn of(path: &Path) -> Result<Self, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        Ok(Self { dir: open_dir(parent)?, name: name.to_owned() })
    }

    /// Metadata of the file, without following a link; `None` if there is no file.
    pub(crate) fn stat(&self) -> Result<Option<Stat>, Errno> {
        match statat(&self.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Creates a new file, which is private until its mode is set.
    pub(crate) fn create(&self) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.dir, &*self.name, flags, Mode::from_raw_mode(0o600)).map(File::from)
    }

    pub(crate) fn remove_file(&self) -> Result<(), Errno> {
        unlinkat(&self.dir, &*self.name, AtFlags::empty())
    }

    pub(crate) fn remove_dir(&self) -> Result<(), Errno> {
        unlinkat(&self.dir, &*self.name, AtFlags::REMOVEDIR)
    }

    pub(crate) fn make_dir(&self) -> Result<(), Errno> {
        mkdirat(&self.dir, &*self.name, Mode::from_raw_mode(NEW_DIR_MODE))
    }

    pub(crate) fn make_link(&self, target: &Path) -> Result<(), Errno> {
        symlinkat(target, &self.dir, &*self.name)
    }

    /// Sets the mode of a regular file or directory; a link is refused.
    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.dir, &*self.name, flags, Mode::empty())?;
        fchmod(&file, Mode::from_raw_mode(mode))
    }
}

/// Renames a file to a name that no other file has.
pub(crate) fn rename_new(from: &Place, to: &Place) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, RenameFlags::NOREPLACE) {
        // The file system does not support a rename that never replaces.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        done => return done,
    }
    match to.stat()? {
        Some(_) => Err(Errno::EXIST),
        None => renameat(&from.dir, &*from.name, &to.dir, &*to.name),
    }
}

/// Opens a directory by an absolute path; links in the path are refused.
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    let mut dir = openat(CWD, "/", directory_flags(), Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                dir = openat(&dir, name, directory_flags(), Mode::empty())
                    .map_err(|errno| link_error_or(errno, &dir, name))?;
            }
            Component::Prefix(_) | Component::ParentDir => return Err(Errno::INVAL),
        }
    }
    Ok(dir)
}

/// Opens a directory in an open directory, to list its files.
pub(crate) fn open_listed(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(dir, name, DIRECTORY, Mode::empty())
}

fn directory_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    return OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    DIRECTORY
}

/// Returns `LOOP` if the error comes from a link at this name, or else the error itself.
fn link_error_or(errno: Errno, dir: &OwnedFd, name: &OsStr) -> Errno {
    let is_link = errno == Errno::NOTDIR
        && statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    if is_link { Errno::LOOP } else { errno }
}

/// Opens a regular file for reading; never waits for a pipe and never follows a link.
pub(crate) fn open_file(dir: &OwnedFd, name: &OsStr) -> Result<(File, Stat), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    Ok((File::from(file), stat))
}

/// Target of a link.
pub(crate) fn read_link(dir: &OwnedFd, name: &OsStr) -> Result<PathBuf, Errno> {
    use std::os::unix::ffi::OsStringExt;
    let target = readlinkat(dir, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

/// Permission bits of a file.
pub(crate) fn mode_of(stat: &Stat) -> u32 {
    Mode::from_raw_mode(stat.st_mode).bits() & 0o7777
}
