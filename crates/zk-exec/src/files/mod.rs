mod beneath;
#[cfg(target_os = "linux")]
mod cached;
mod facts;
mod glob;
mod hint;
mod ignore_rules;
mod placeholder;
pub(crate) mod protect;
mod replace;
mod resolve;
#[cfg(feature = "grep")]
mod search;
mod walk;
mod watch;

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, statat, unlinkat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
#[cfg(target_os = "linux")]
use zk_core::service::CachedFile;
use zk_core::service::{
    FileKind, FileStat, FileWatch, Files, OnChange, PathError, Resolved, SearchFound, SearchQuery, WalkEntry,
    WalkOptions, WalkReport, WriteReceipt,
};

use crate::host_files::other_than_regular;
use beneath::Door;
use facts::{file_kind, file_stat, modified};
use placeholder::{is_empty, is_placeholder};
#[cfg(feature = "grep")]
use protect::Reading;
use protect::{Access, Protection};
use walk::Walk;

/// The files of a workspace on this machine.
///
/// A path is first resolved by name: links are followed, `..` leads to the physical parent, and the result
/// must lie inside a root. Files are then opened from the root's own descriptor, along the resolved path,
/// with every link refused, so that a link swapped in meanwhile cannot lead outside. Links that stay inside
/// the roots work as usual; links of `/proc` never do. Devices, pipes and sockets are not opened.
///
/// A file with several hard links is readable by any name, since names outside the roots cannot be found. A
/// write replaces the name inside the root and leaves the other names as they were. Some files are always
/// refused. Credentials such as `.ssh`, `.aws` and `.netrc`, and the paths that the host adds with
/// [`WorkspaceFiles::secret`], are neither read nor written, also under other names of the same file. Files
/// that start programs, such as `.git`, `.zk` and shells' start files, are not written.
///
/// ```
/// use zk_core::service::{PathError, Files};
/// use zk_exec::WorkspaceFiles;
///
/// let dir = tempfile::tempdir().unwrap();
/// let paths = WorkspaceFiles::new([dir.path()]).unwrap();
/// let at = paths.resolve(dir.path(), "notes/today.md").unwrap();
/// assert!(paths.write(&at, b"hello").unwrap().created);
/// assert_eq!(at.shown, "notes/today.md");
/// assert!(matches!(paths.resolve(dir.path(), "../elsewhere"), Err(PathError::Outside { .. })));
/// ```
#[derive(Debug)]
pub struct WorkspaceFiles {
    roots: Vec<Root>,
    home: Option<PathBuf>,
    door: Door,
    protection: Protection,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Open descriptor, so that the root stays the same directory when it is renamed.
    fd: Arc<OwnedFd>,
    writable: bool,
    #[cfg(target_os = "linux")]
    cached: cached::CachedReads,
}

impl WorkspaceFiles {
    /// A workspace of these root directories; the first is the main root.
    ///
    /// # Errors
    /// [`PathError`] when a root is missing or no directory.
    pub fn new<P: AsRef<Path>>(roots: impl IntoIterator<Item = P>) -> Result<Self, PathError> {
        let mut this =
            Self { roots: Vec::new(), home: None, door: Door::default(), protection: Protection::default() };
        for root in roots {
            this.add(root.as_ref(), true)?;
        }
        Ok(this)
    }

    /// Adds this directory as a root for reads and listings only.
    ///
    /// # Errors
    /// [`PathError`] when the directory is missing or no directory.
    pub fn read_only(mut self, root: impl AsRef<Path>) -> Result<Self, PathError> {
        self.add(root.as_ref(), false)?;
        Ok(self)
    }

    /// Sets the directory that `~` stands for; without it such paths are refused. Credentials and start files
    /// below it are protected.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        self.protection.home(&home);
        self.home = Some(home);
        self
    }

    /// Denies reads and writes of this file or directory, existing or not.
    #[must_use]
    pub fn secret(mut self, path: impl AsRef<Path>) -> Self {
        self.protection.secret(path.as_ref());
        self
    }

    /// Denies reads and writes of a file or directory that a person wants to hide, existing or not.
    #[must_use]
    pub fn hidden(mut self, path: impl AsRef<Path>) -> Self {
        self.protection.hidden(path.as_ref());
        self
    }

    /// Denies writes of this file or directory, existing or not.
    #[must_use]
    pub fn protected(mut self, path: impl AsRef<Path>) -> Self {
        self.protection.read_only(path.as_ref());
        self
    }

    /// Opens paths one component at a time, as on kernels without `openat2`, where this happens by itself.
    #[must_use]
    pub fn without_openat2(mut self) -> Self {
        self.door = Door::without_openat2();
        self
    }

    fn add(&mut self, root: &Path, writable: bool) -> Result<(), PathError> {
        let fail = |source| io_error("use", &root.display().to_string(), source);
        let path = root.canonicalize().map_err(fail)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| fail(e.into()))?;
        self.roots.push(Root {
            path,
            #[cfg(target_os = "linux")]
            cached: cached::CachedReads::of(fd.as_fd()),
            fd: Arc::new(fd),
            writable,
        });
        Ok(())
    }

    /// Finds the innermost root of a canonical path, and the path relative to that root.
    fn root_of<'a>(&self, path: &'a Path) -> Option<(&Root, &'a Path)> {
        self.roots
            .iter()
            .filter_map(|root| Some((root, below(&root.path, path)?)))
            .max_by_key(|(root, _)| root.path.as_os_str().len())
    }

    fn locate<'a>(&self, at: &'a Resolved) -> Result<(&Root, &'a Path), PathError> {
        self.root_of(&at.path).ok_or_else(|| self.outside(&at.shown))
    }

    /// Whether a path lies in a root or is one of its parents.
    fn is_on_the_way(&self, path: &Path) -> bool {
        self.root_of(path).is_some() || self.roots.iter().any(|root| root.path.starts_with(path))
    }

    /// Refuses protected files.
    fn check_protected(&self, at: &Resolved, access: Access) -> Result<(), PathError> {
        match self.protection.refusal(&at.path, access) {
            Some(why) => Err(protected_error(at, access, why)),
            None => Ok(()),
        }
    }

    /// Refuses an opened file that is another name of a credentials file.
    fn check_other_names(&self, stat: &Stat, at: &Resolved) -> Result<(), PathError> {
        if stat.st_nlink < 2 {
            return Ok(());
        }
        let is_same = |path: PathBuf| {
            rustix::fs::stat(&path)
                .is_ok_and(|other| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino))
        };
        if self.protection.secret_files().into_iter().any(is_same) {
            return Err(protected_error(at, Access::Read, "it is another name of a file with credentials"));
        }
        Ok(())
    }

    /// Suggests an existing path for a missing one: similar names, or the first missing parent.
    fn hint(&self, at: &Resolved) -> Option<String> {
        let (root, _) = self.locate(at).ok()?;
        let mut missing = at.path.clone();
        while missing.starts_with(&root.path) {
            let above = missing.parent()?.to_owned();
            let place = Resolved { shown: self.shown(&above), path: above };
            if self.check_protected(&place, Access::Read).is_err() {
                return None;
            }
            // Tried before the listing, since a failed listing would look for a hint again at each level.
            if self.open_directory(&place).is_ok() {
                let names = self.list(&place).ok()?;
                let gone = missing.file_name()?.to_str()?;
                return if missing == at.path {
                    hint::nearest(gone, names.into_iter().map(|(name, _)| name))
                } else {
                    Some(format!("; there is no directory `{gone}`"))
                };
            }
            missing = place.path;
        }
        None
    }

    fn open_directory(&self, at: &Resolved) -> Result<OwnedFd, Errno> {
        let (root, rest) = self.locate(at).map_err(|_| Errno::XDEV)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.door.open(root.fd.as_fd(), rest, flags)
    }

    fn outside(&self, path: &str) -> PathError {
        let roots: Vec<String> = self.roots.iter().map(|root| root.path.display().to_string()).collect();
        PathError::Outside { path: path.to_owned(), roots: roots.join(", ") }
    }

    fn shown(&self, path: &Path) -> String {
        let main = self.roots.first().and_then(|root| below(&root.path, path));
        match main {
            Some(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Some(rest) => rest.display().to_string(),
            None => path.display().to_string(),
        }
    }

    /// Translates a system error for a resolved path.
    fn explain(&self, doing: &'static str, at: &Resolved, errno: Errno) -> PathError {
        match errno {
            Errno::NOENT => {
                PathError::Missing { path: at.shown.clone(), hint: self.hint(at).unwrap_or_default() }
            }
            Errno::LOOP | Errno::XDEV => PathError::Invalid {
                path: at.shown.clone(),
                why: "a link was put there while it was used; look again before you go on".into(),
            },
            _ => io_error(doing, &at.shown, errno.into()),
        }
    }

    /// Opens a regular file; a swap during the call cannot make it open another kind of file.
    pub(super) fn open_file(&self, at: &Resolved) -> Result<File, PathError> {
        let place = self.locate(at)?;
        self.check_protected(at, Access::Read)?;
        // Checked before the open, since opening a device can already have an effect.
        let looked = fstat(self.open_path("open", at)?).map_err(|errno| self.explain("open", at, errno))?;
        check_regular(&looked, at)?;
        self.open_checked(place, at)
    }

    /// Opens a file as [`open_file`](Self::open_file) does, if it was just listed as a regular file.
    #[cfg(feature = "grep")]
    fn open_listed(&self, at: &Resolved, reading: &mut Reading<'_>) -> Result<File, PathError> {
        if let Some(why) = reading.refusal(&at.path) {
            return Err(protected_error(at, Access::Read, why));
        }
        self.open_checked(self.locate(at)?, at)
    }

    fn open_checked(&self, (root, rest): (&Root, &Path), at: &Resolved) -> Result<File, PathError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            self.door.open(root.fd.as_fd(), rest, flags).map_err(|errno| self.explain("open", at, errno))?;
        let opened = fstat(&fd).map_err(|errno| self.explain("open", at, errno))?;
        check_regular(&opened, at)?;
        self.check_other_names(&opened, at)?;
        Ok(File::from(fd))
    }

    fn open_path(&self, doing: &'static str, at: &Resolved) -> Result<OwnedFd, PathError> {
        let (root, rest) = self.locate(at)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            self.door.open(root.fd.as_fd(), rest, flags).map_err(|errno| self.explain(doing, at, errno))?;
        let has_name = rest.file_name().and_then(OsStr::to_str).is_some_and(protect::is_start_file);
        let is_free = has_name
            && fstat(&fd).is_ok_and(|stat| file_kind(&stat) == FileKind::Directory)
            && self.open_directory(at).is_ok_and(is_empty);
        if is_free { Err(self.explain(doing, at, Errno::NOENT)) } else { Ok(fd) }
    }
}

impl Files for WorkspaceFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.iter().filter(|root| root.writable).map(|root| root.path.clone()).collect()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
        let target = resolve::target(cwd, path, self.home.as_deref())?;
        let found =
            resolve::canonical(&target, |place| self.is_on_the_way(place)).map_err(|stop| match stop {
                resolve::Stop::Forbidden => self.outside(path),
                resolve::Stop::NotADirectory => PathError::Kind {
                    path: path.to_owned(),
                    what: "below a file".into(),
                    wanted: "below a directory".into(),
                },
                resolve::Stop::Loop => {
                    PathError::Invalid { path: path.to_owned(), why: "its links lead in a circle".into() }
                }
                resolve::Stop::Io(source) => io_error("look at", path, source),
            })?;
        // Checked first, so that the answer does not reveal whether a path outside exists.
        if self.root_of(&found).is_none() {
            return Err(self.outside(path));
        }
        let shown = self.shown(&found);
        Ok(Resolved { path: found, shown })
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError> {
        let mut file = self.open_file(at)?;
        let Some(Range { start, end }) = range else { return Ok(Box::new(file)) };
        file.seek(SeekFrom::Start(start)).map_err(|source| io_error("read", &at.shown, source))?;
        Ok(Box::new(file.take(end.saturating_sub(start))))
    }

    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError> {
        let fd = self.open_path("look at", at)?;
        fstat(fd).map(|stat| file_stat(&stat)).map_err(|errno| self.explain("look at", at, errno))
    }

    #[cfg(target_os = "linux")]
    fn read_cached(&self, cwd: &Path, path: &str, max_bytes: usize) -> Option<CachedFile> {
        self.cached(cwd, path, max_bytes)
    }

    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError> {
        let (root, rest) = self.locate(at)?;
        self.check_protected(at, Access::Read)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.door.open(root.fd.as_fd(), rest, flags).map_err(|errno| match errno {
            Errno::NOTDIR => not_a_directory_error(at),
            _ => self.explain("list", at, errno),
        })?;
        let fail = |errno| self.explain("list", at, errno);
        let mut found = Vec::new();
        for entry in Dir::read_from(&fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // A file that was removed since the listing is left out.
            let Ok(stat) = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if is_placeholder(&fd, name, &stat) {
                continue;
            }
            found.push((name.to_string_lossy().into_owned(), file_stat(&stat)));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        let (root, start) = self.locate(from)?;
        self.check_protected(from, Access::Read)?;
        let only = options.only.as_deref().map(glob::glob).transpose()?;
        Walk::new(self, root, options.clone(), only).run(from, start, visit)
    }

    fn can_search(&self) -> bool {
        cfg!(feature = "grep")
    }

    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError> {
        #[cfg(feature = "grep")]
        return search::search(self, from, query, stop);
        #[cfg(not(feature = "grep"))]
        {
            let _ = (query, stop);
            let source = io::Error::new(
                io::ErrorKind::Unsupported,
                "this program was built without the feature `grep` of zk-exec",
            );
            Err(io_error("search", &from.shown, source))
        }
    }

    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        watch::watch(self, at, changed)
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError> {
        let (root, rest) = self.locate(at)?;
        if !root.writable {
            return Err(PathError::Invalid { path: at.shown.clone(), why: "it may only be read".into() });
        }
        self.check_protected(at, Access::Write)?;
        let Some(name) = rest.file_name() else {
            return Err(PathError::Kind {
                path: at.shown.clone(),
                what: "a directory".into(),
                wanted: "a file".into(),
            });
        };
        let fail = |errno: Errno| match errno {
            Errno::NOTDIR => not_a_directory_error(at),
            _ => self.explain("write", at, errno),
        };
        let parent = rest.parent().unwrap_or(Path::new(""));
        let parent = self.door.make_dirs(root.fd.as_fd(), parent).map_err(fail)?;
        let mut old = stat_existing(&parent, name).map_err(fail)?;
        let c_name = CString::new(name.as_bytes()).unwrap_or_default();
        if old.as_ref().is_some_and(|old| is_placeholder(&parent, &c_name, old)) {
            // The write was approved, so the placeholder goes; the sandbox protects the new file from its
            // next command on.
            unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(fail)?;
            old = None;
        }
        if let Some(old) = &old {
            if FileType::from_raw_mode(old.st_mode) == FileType::Symlink {
                return Err(self.explain("write", at, Errno::LOOP));
            }
            check_regular(old, at)?;
        }
        replace::replace(&parent, name, old.as_ref(), bytes).map_err(|error| match error {
            replace::Failure::Beside(source) => io_error("make a new file beside", &at.shown, source),
            replace::Failure::Fill(source) => io_error("write", &at.shown, source),
        })?;
        Ok(WriteReceipt { created: old.is_none() })
    }
}

fn stat_existing(parent: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn protected_error(at: &Resolved, access: Access, why: &'static str) -> PathError {
    let access = match access {
        Access::Read | Access::Found => "read",
        Access::Write => "written",
    };
    PathError::Protected { path: at.shown.clone(), access: access.into(), why: why.into() }
}

fn io_error(doing: &'static str, path: &str, source: io::Error) -> PathError {
    PathError::Io { doing: doing.into(), path: path.to_owned(), source }
}

fn not_a_directory_error(at: &Resolved) -> PathError {
    PathError::Kind {
        path: at.shown.clone(),
        what: "a file or below one".into(),
        wanted: "a directory".into(),
    }
}

/// Path relative to a directory that contains it.
fn below<'a>(dir: &Path, path: &'a Path) -> Option<&'a Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(dir.as_os_str().as_bytes())?;
    let rest = match rest {
        [] => rest,
        [b'/', rest @ ..] => rest,
        // Only the file system's root ends with a separator.
        _ if dir.parent().is_none() => rest,
        _ => return None,
    };
    Some(Path::new(OsStr::from_bytes(rest)))
}

fn check_regular(stat: &Stat, at: &Resolved) -> Result<(), PathError> {
    let Some(what) = other_than_regular(FileType::from_raw_mode(stat.st_mode)) else { return Ok(()) };
    Err(PathError::Kind { path: at.shown.clone(), what: what.into(), wanted: "a regular file".into() })
}
