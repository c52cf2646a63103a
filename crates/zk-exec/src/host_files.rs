mod log_file;
pub mod own_files;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use log_file::LogFile;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, lstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use zk_core::service::{FileOwner, HostFile, HostFileError, HostFiles, HostRead, Overflow};

/// The `dyn HostFiles` of this machine.
///
/// A file is checked through a handle opened with `O_PATH`, then opened without blocking, and checked again:
/// a pipe, a device or a file of another user that replaces it in between is refused too.
///
/// ```
/// use zk_core::service::{HostFileError, HostFiles, HostRead};
/// use zk_exec::LocalHostFiles;
///
/// let files = LocalHostFiles::new();
/// let dir = tempfile::tempdir().unwrap();
/// std::fs::write(dir.path().join("settings.toml"), "a = 1").unwrap();
/// let read = |name: &str| files.read(&dir.path().join(name), &HostRead::whole(1024));
/// assert_eq!(read("settings.toml").unwrap().bytes, b"a = 1");
/// assert!(matches!(read("."), Err(HostFileError::NotRegular { .. })));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalHostFiles {
    also_trusted: Vec<u32>,
}

impl LocalHostFiles {
    /// Trusts the user who runs this process, and root.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts files of this user too, such as the user who started this process with `sudo`.
    #[must_use]
    pub fn trusting(mut self, uid: u32) -> Self {
        self.also_trusted.push(uid);
        self
    }

    fn owner_of(&self, stat: &Stat) -> FileOwner {
        let uid = stat.st_uid;
        if uid == 0 || uid == geteuid().as_raw() || self.also_trusted.contains(&uid) {
            FileOwner::Trusted
        } else {
            FileOwner::Other { uid }
        }
    }

    fn check(&self, stat: &Stat, how: &HostRead) -> Result<(), HostFileError> {
        if let Some(what) = other_than_regular(FileType::from_raw_mode(stat.st_mode)) {
            return Err(HostFileError::NotRegular { what });
        }
        if how.own_only
            && let FileOwner::Other { uid } = self.owner_of(stat)
        {
            return Err(HostFileError::ForeignOwner { uid });
        }
        let too_large = how.overflow == Overflow::Refuse
            && u64::try_from(stat.st_size).is_ok_and(|size| size > how.max_bytes as u64);
        if too_large { Err(HostFileError::TooLarge { max_bytes: how.max_bytes }) } else { Ok(()) }
    }
}

impl HostFiles for LocalHostFiles {
    fn read(&self, path: &Path, how: &HostRead) -> Result<HostFile, HostFileError> {
        let handle = open(CWD, path, OFlags::PATH)?;
        self.check(&fstat(&handle).map_err(explain)?, how)?;
        let file = reopen(&handle, path)?;
        self.check(&fstat(&file).map_err(explain)?, how)?;
        if let Some(directory) = &how.beneath {
            check_place(&file, path, directory)?;
        }
        read_limited(File::from(file), how)
    }

    fn owner(&self, path: &Path) -> Result<FileOwner, HostFileError> {
        lstat(path).map(|stat| self.owner_of(&stat)).map_err(explain)
    }
}

/// Reads an opened regular file into memory, at most one byte more than the limit.
pub(crate) fn read_limited(file: File, how: &HostRead) -> Result<HostFile, HostFileError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(how.max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(HostFileError::Io)?;
    let cut = bytes.len() > how.max_bytes;
    match how.overflow {
        Overflow::Refuse if cut => Err(HostFileError::TooLarge { max_bytes: how.max_bytes }),
        Overflow::Refuse | Overflow::Cut => {
            bytes.truncate(how.max_bytes);
            Ok(HostFile { bytes, cut })
        }
    }
}

/// Name of a file kind that is not regular; `None` for a regular file.
pub(crate) fn other_than_regular(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a link"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Unknown => Some("of an unknown kind"),
    }
}

fn open(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, HostFileError> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(dir, path, flags, Mode::empty()).map_err(explain)
}

/// Opens the file behind a handle, so that it cannot be swapped; by name if that is impossible.
fn reopen(handle: &OwnedFd, path: &Path) -> Result<OwnedFd, HostFileError> {
    match open(CWD, &proc_path(handle), OFlags::RDONLY) {
        Err(HostFileError::Missing) => open(CWD, path, OFlags::RDONLY),
        done => done,
    }
}

fn proc_path(file: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Checks that an opened file lies in a directory, after all links of its path were followed.
fn check_place(file: &OwnedFd, path: &Path, directory: &Path) -> Result<(), HostFileError> {
    let place =
        std::fs::read_link(proc_path(file)).or_else(|_| path.canonicalize()).map_err(HostFileError::Io)?;
    let fence = directory.canonicalize().map_err(HostFileError::Io)?;
    if place.starts_with(&fence) { Ok(()) } else { Err(HostFileError::Outside { directory: fence }) }
}

fn explain(errno: Errno) -> HostFileError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => HostFileError::Missing,
        errno => HostFileError::Io(io::Error::from(errno)),
    }
}
