//! File access relative to directory descriptors, so that no symbolic link on a path is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, readlinkat, symlinkat, unlinkat,
};
use rustix::io::Errno;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory whose entries are reached without following a link.
#[derive(Debug)]
pub(crate) struct Tree {
    fd: OwnedFd,
}

/// Content of a path in a tree.
#[derive(Debug)]
pub(crate) enum Found {
    File {
        file: File,
        mode: u32,
    },
    Link(PathBuf),
    /// Neither a file nor a link, such as a directory.
    Other,
}

impl Tree {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { fd: openat(CWD, dir, DIRECTORY, Mode::empty())? })
    }

    /// Opens what is at a relative path; `None` if nothing is.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        let Some((dir, name)) = self.open_parent(path, false)? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(dir.as_ref().unwrap_or(&self.fd), name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::MLINK) => {
                let target = readlinkat(dir.as_ref().unwrap_or(&self.fd), name, Vec::new())?;
                return Ok(Some(Found::Link(path_from_bytes(target.as_bytes()))));
            }
            Err(errno) => return Err(errno.into()),
        };
        let stat = fstat(&file)?;
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                Found::File { file: File::from(file), mode: Mode::from_raw_mode(stat.st_mode).bits() & 0o777 }
            }
            _ => Found::Other,
        }))
    }

    /// Creates a new file, with its missing parent directories. Fails if the path exists.
    pub(crate) fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let Some((dir, name)) = self.open_parent(path, true)? else { return Err(Errno::NOENT.into()) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode((mode & 0o777) | 0o600);
        let file = openat(dir.as_ref().unwrap_or(&self.fd), name, flags, mode)?;
        Ok(File::from(file))
    }

    /// Creates a new symbolic link, with its missing parent directories. Fails if the path exists.
    pub(crate) fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(path, true)? else { return Err(Errno::NOENT.into()) };
        Ok(symlinkat(target, dir.as_ref().unwrap_or(&self.fd), name)?)
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(path, false)? else { return Ok(()) };
        match unlinkat(dir.as_ref().unwrap_or(&self.fd), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sets or removes the execute permission of a file.
    pub(crate) fn set_executable(&self, path: &Path, is_executable: bool) -> io::Result<()> {
        if let Some(Found::File { file, mode }) = self.find(path)? {
            let mode = if is_executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 };
            fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Opens the directory of a path, `None` for the tree itself, and returns the last name. `None` if a
    /// directory is missing and not to be made.
    fn open_parent<'a>(
        &self,
        path: &'a Path,
        makes: bool,
    ) -> io::Result<Option<(Option<OwnedFd>, &'a OsStr)>> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let mut dir: Option<OwnedFd> = None;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { return Err(Errno::INVAL.into()) };
            let above = dir.as_ref().unwrap_or(&self.fd);
            let next = match openat(above, part, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) if makes => {
                    match mkdirat(above, part, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    openat(above, part, DIRECTORY, Mode::empty())?
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !makes => return Ok(None),
                next => next?,
            };
            dir = Some(next);
        }
        Ok(Some((dir, name)))
    }
}

/// Converts the bytes of a path, as git prints them, to a `PathBuf`.
pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}
