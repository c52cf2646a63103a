//! Cleaning of a git directory: settings and hooks that start programs are renamed, "set aside".

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, chmodat, fstat, openat, openat2,
    renameat_with, statat,
};
use rustix::io::Errno;

use super::settings;

/// Largest file of git that is read, in bytes; larger ones are set aside unread.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of new names that are tried for a file that is set aside.
const MAX_NAMES: u32 = 1000;
const ENDING: &str = "set-aside";

/// Opened git directory, reached from a writable root without following a link.
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// Common directory of a repository, which has its settings and hooks.
pub(super) enum Common {
    Own,
    /// Content of `commondir`, which names another directory.
    Other(Vec<u8>),
    /// The file `commondir` is unreadable, and was set aside so that git ignores it.
    Unreadable(SetAside),
}

/// Part of a repository that was set aside, or the failure to do so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetAside {
    pub(super) path: PathBuf,
    pub(super) why: String,
}

impl Directory {
    /// Opens the directory `path` below `root`; fails if a symbolic link is on the path.
    pub(super) fn open(root: &Path, path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = openat(CWD, root, flags, Mode::empty())?;
        let below = path.strip_prefix(root).map_err(|_| Errno::XDEV)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let only = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let fd = openat2(base, below, flags, Mode::empty(), only)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Kind of an entry, without following a link; `None` if there is no such entry.
    pub(super) fn kind(&self, name: &OsStr) -> Option<FileType> {
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    /// Content of a small regular file. Never blocks.
    pub(super) fn read(&self, name: &OsStr) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_BYTES)?;
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
    }

    /// Whether git takes this directory for a repository.
    pub(super) fn is_repository(&self) -> bool {
        let has = |name: &str| self.kind(OsStr::new(name)).is_some();
        has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
    }

    /// Sets aside all settings and hooks from which git starts programs.
    pub(super) fn clean(&self, found: &mut Vec<SetAside>) {
        let settings = ["config", "config.worktree"];
        found.extend(settings.into_iter().filter_map(|name| self.clean_settings(name)));
        found.extend(self.clean_hooks());
    }

    /// Finds the common directory, which a regular file `commondir` may move elsewhere.
    pub(super) fn common(&self) -> Common {
        const COMMON: &str = "commondir";
        if self.kind(OsStr::new(COMMON)).is_none() {
            return Common::Own;
        }
        match self.read(OsStr::new(COMMON)) {
            Some(text) => Common::Other(text),
            None => {
                Common::Unreadable(self.set_aside(
                    COMMON,
                    "git reads in it where settings and hooks are, and it is no plain file",
                ))
            }
        }
    }

    /// Sets aside a settings file with settings that start programs, and keeps the harmless ones in a new
    /// file.
    fn clean_settings(&self, name: &str) -> Option<SetAside> {
        let entry = OsStr::new(name);
        self.kind(entry)?;
        let text = self.read(entry).and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = text else {
            return Some(self.set_aside(name, "it is no readable file of settings"));
        };
        let settings::SplitSettings { kept, others } = settings::split_settings(&text);
        if others.is_empty() {
            return None;
        }
        const MAX_SHOWN: usize = 4;
        let mut names = others.get(..MAX_SHOWN).unwrap_or(&others).join(", ");
        if others.len() > MAX_SHOWN {
            names.push_str(", …");
        }
        let mut told = self.set_aside(name, &format!("git may start programs by its settings {names}"));
        if let Err(error) = self.write_new(entry, &kept) {
            told.why.push_str(&format!("; the harmless settings could not be kept: {error}"));
        }
        Some(told)
    }

    /// Sets aside the hooks directory if git would start an entry of it.
    fn clean_hooks(&self) -> Option<SetAside> {
        const HOOKS: &str = "hooks";
        let why = "git starts the programs in it";
        match self.kind(OsStr::new(HOOKS))? {
            FileType::Directory => {}
            _ => return Some(self.set_aside(HOOKS, why)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let starts = |hooks: OwnedFd| {
            let entries = Dir::read_from(&hooks).ok()?;
            let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_bytes().to_vec()));
            names
                .find(|name| {
                    let is_link_above = matches!(name.as_slice(), b"." | b"..");
                    !is_link_above
                        && !name.ends_with(b".sample")
                        && is_started(&hooks, OsStr::from_bytes(name))
                })
                .map(drop)
        };
        match openat(&self.fd, HOOKS, flags, Mode::empty()) {
            Ok(hooks) => starts(hooks).map(|()| self.set_aside(HOOKS, why)),
            Err(_) => Some(self.set_aside(HOOKS, why)),
        }
    }

    /// Renames an entry to a name that git ignores.
    fn set_aside(&self, name: &str, why: &str) -> SetAside {
        let path = self.path.join(name);
        let moved = self.make_writable().and_then(|()| {
            (1..MAX_NAMES)
                .find_map(|number| {
                    let number = if number == 1 { String::new() } else { format!("-{number}") };
                    let other = format!("{name}.{ENDING}{number}");
                    match renameat_with(&self.fd, name, &self.fd, other.as_str(), RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST) => None,
                        done => Some(done.map(|()| other)),
                    }
                })
                .unwrap_or(Err(Errno::EXIST))
        });
        let why = match moved {
            Ok(other) => format!("{why}; it is {other} now"),
            Err(error) => {
                format!("{why}, and it could not be renamed: {error}; remove it before you run git there")
            }
        };
        SetAside { path, why }
    }

    /// Makes the directory writable for its owner, in case a command has changed its mode.
    fn make_writable(&self) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(fstat(&self.fd)?.st_mode & 0o7777);
        if mode.contains(Mode::RWXU) {
            return Ok(());
        }
        chmodat(CWD, format!("/proc/self/fd/{}", self.fd.as_raw_fd()), mode | Mode::RWXU, AtFlags::empty())
    }

    fn write_new(&self, name: &OsStr, text: &str) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, Mode::from_raw_mode(0o644))?;
        File::from(file).write_all(text.as_bytes())
    }
}

/// Whether git would start this entry of a hooks directory. Links count, since their target can change.
fn is_started(hooks: &OwnedFd, name: &OsStr) -> bool {
    statat(hooks, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| {
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => found.st_mode & 0o111 != 0,
            FileType::Symlink => true,
            _ => false,
        }
    })
}
