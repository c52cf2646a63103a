use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, fstat, statat};
use rustix::io::Errno;
use zk_core::service::{
    FileKind, Files, HostFileError, HostFiles, HostRead, PathError, Resolved, WalkEntry, WalkOptions,
    WalkReport,
};

use super::ignore_rules::{IgnoreRules, IgnoreTexts, MAX_BYTES};
use super::protect::Access;
use super::{Root, WorkspaceFiles, below, file_kind, modified};
use crate::host_files::{LocalHostFiles, other_than_regular, read_limited};

/// Maximum number of directory levels that are held open, which bounds the descriptors of a walk through a
/// deep tree.
const MAX_OPEN_DIRECTORIES: usize = 64;

/// Remark on a walk that left something out.
const LEFT_OUT: &str = "files that a rule restricts, or that may hold credentials, were left out";

/// One walk through a tree. Every directory is opened from the root's descriptor with all links refused, so
/// that a link that is swapped in meanwhile cannot lead outside.
pub(super) struct Walk<'a> {
    paths: &'a WorkspaceFiles,
    root: &'a Root,
    options: WalkOptions,
    only: Option<globset::GlobMatcher>,
    report: WalkReport,
}

struct Level {
    /// Path of the directory, relative to the root.
    dir: PathBuf,
    /// Absolute path of the directory.
    path: PathBuf,
    /// Open descriptor, through which modification times of entries are read.
    fd: Option<OwnedFd>,
    names: std::vec::IntoIter<(OsString, FileKind)>,
    rules: Arc<IgnoreRules>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        paths: &'a WorkspaceFiles,
        root: &'a Root,
        options: WalkOptions,
        only: Option<globset::GlobMatcher>,
    ) -> Self {
        Self { paths, root, options, only, report: WalkReport::default() }
    }

    /// Reports an entry if the query wants it. `place` is its directory and its name there.
    fn visit(
        &self,
        start: &Path,
        path: PathBuf,
        kind: FileKind,
        place: Option<(&OwnedFd, &OsStr)>,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if let Some(only) = &self.only
            && !(kind == FileKind::File && below(start, &path).is_some_and(|below| only.is_match(below)))
        {
            return ControlFlow::Continue(());
        }
        let at = Resolved { shown: self.paths.shown(&path), path };
        let modified = if self.options.dates { self.modified(&at, place) } else { None };
        visit(WalkEntry { modified, at, kind })
    }

    fn modified(&self, at: &Resolved, place: Option<(&OwnedFd, &OsStr)>) -> Option<SystemTime> {
        match place {
            Some((dir, name)) => modified(&statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?),
            None => self.paths.stat(at).ok()?.modified,
        }
    }

    /// Visits all entries below `start`, which is relative to the root; `start` itself if it is a file.
    pub(super) fn run(
        mut self,
        at: &Resolved,
        start: &Path,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        let handle = self.paths.open_path("search", at)?;
        let stat = fstat(&handle).map_err(|errno| self.paths.explain("search", at, errno))?;
        let kind = file_kind(&stat);
        if kind != FileKind::Directory {
            let _ = self.visit(&at.path, at.path.clone(), kind, None, visit);
            return Ok(self.report);
        }
        let (names, fd) = self.read_names(start).map_err(|errno| self.paths.explain("search", at, errno))?;
        let above = self.rules_above(start);
        let rules = self.rules_of(start, &names, above);
        let path = self.root.path.join(start);
        let mut levels = vec![Level {
            dir: start.to_owned(),
            path,
            fd: self.options.dates.then_some(fd),
            names: names.into_iter(),
            rules,
        }];
        let mut has_left_out = false;
        while let Some(level) = levels.last_mut() {
            let Some((name, kind)) = level.names.next() else {
                levels.pop();
                continue;
            };
            if name == ".git" {
                continue;
            }
            let path = level.path.join(&name);
            let is_dir = kind == FileKind::Directory;
            if !self.options.ignored && level.rules.ignores(&path, is_dir) {
                continue;
            }
            if self.paths.protection.leaves_out(&path) {
                has_left_out = true;
                continue;
            }
            if is_dir && self.paths.protection.refusal(&path, Access::Read).is_some() {
                continue;
            }
            let inside = is_dir.then(|| (level.dir.join(&name), path.clone(), level.rules.clone()));
            let place = level.fd.as_ref().map(|dir| (dir, name.as_os_str()));
            if self.visit(&at.path, path, kind, place, visit).is_break() {
                break;
            }
            // A directory that cannot be read, or was removed, is skipped.
            if let Some((dir, path, rules)) = inside
                && let Ok((names, fd)) = self.read_names(&dir)
            {
                let rules = self.rules_of(&dir, &names, rules);
                let fd = (self.options.dates && levels.len() < MAX_OPEN_DIRECTORIES).then_some(fd);
                levels.push(Level { dir, path, fd, names: names.into_iter(), rules });
            }
        }
        if has_left_out {
            self.report.notices.push(LEFT_OUT.to_owned());
        }
        Ok(self.report)
    }

    fn open(&self, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags =
            flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.paths.door.open(self.root.fd.as_fd(), below, flags)
    }

    /// Names in a directory, sorted, and the opened directory.
    fn read_names(&self, dir: &Path) -> Result<(Vec<(OsString, FileKind)>, OwnedFd), Errno> {
        let fd = self.open(dir, OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Directory,
                FileType::Symlink => FileKind::Link,
                // Some file systems do not report the kind.
                FileType::Unknown => match statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => file_kind(&stat),
                    Err(_) => continue,
                },
                FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                    FileKind::Other
                }
            };
            names.push((OsString::from_vec(name.to_bytes().to_vec()), kind));
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok((names, fd))
    }

    /// Ignore rules of a directory whose entries are known.
    fn rules_of(
        &mut self,
        dir: &Path,
        names: &[(OsString, FileKind)],
        above: Arc<IgnoreRules>,
    ) -> Arc<IgnoreRules> {
        if self.options.ignored {
            return above;
        }
        let has = |name: &str| names.binary_search_by(|(at, _)| at.as_os_str().cmp(name.as_ref())).is_ok();
        let texts = IgnoreTexts {
            plain: has(".ignore").then(|| self.read_ignore_file(&dir.join(".ignore"))).flatten(),
            git: has(".gitignore").then(|| self.read_ignore_file(&dir.join(".gitignore"))).flatten(),
            exclude: has(".git").then(|| self.read_ignore_file(&dir.join(".git/info/exclude"))).flatten(),
            is_repository: has(".git"),
        };
        IgnoreRules::new(&self.root.path.join(dir), &texts, above)
    }

    /// Ignore rules that apply at `start`: from its parents up to the root, and from the root's parents up to
    /// the repository.
    fn rules_above(&mut self, start: &Path) -> Arc<IgnoreRules> {
        let mut rules = Arc::default();
        if self.options.ignored {
            return rules;
        }
        let outer: Vec<&Path> = self.root.path.ancestors().skip(1).collect();
        let own = self.root.path.join(".git").symlink_metadata().is_ok();
        let repository = outer.iter().position(|dir| dir.join(".git").symlink_metadata().is_ok());
        if let (false, Some(repository)) = (own, repository) {
            for dir in outer.iter().take(repository + 1).rev() {
                let texts = IgnoreTexts {
                    plain: self.read_host_ignore_file(&dir.join(".ignore")),
                    git: self.read_host_ignore_file(&dir.join(".gitignore")),
                    exclude: self.read_host_ignore_file(&dir.join(".git/info/exclude")),
                    is_repository: dir.join(".git").symlink_metadata().is_ok(),
                };
                rules = IgnoreRules::new(dir, &texts, rules);
            }
        }
        let mut inner: Vec<&Path> = start.ancestors().skip(1).collect();
        inner.reverse();
        for dir in inner {
            if let Ok((names, _)) = self.read_names(dir) {
                rules = self.rules_of(dir, &names, rules);
            }
        }
        rules
    }

    /// Content of an ignore file inside the root.
    fn read_ignore_file(&mut self, below: &Path) -> Option<Vec<u8>> {
        let path = self.root.path.join(below);
        let file = match self.open(below, OFlags::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return None,
            Err(errno) => return self.skip_ignore_file(&path, &HostFileError::Io(errno.into())),
        };
        let kind =
            fstat(&file).ok().and_then(|stat| other_than_regular(FileType::from_raw_mode(stat.st_mode)));
        let read = match kind {
            Some(what) => Err(HostFileError::NotRegular { what }),
            None => read_limited(File::from(file), &HostRead::whole(MAX_BYTES)),
        };
        match read {
            Ok(file) => Some(file.bytes),
            Err(error) => self.skip_ignore_file(&path, &error),
        }
    }

    /// Content of an ignore file above the root.
    fn read_host_ignore_file(&mut self, path: &Path) -> Option<Vec<u8>> {
        match LocalHostFiles::new().read(path, &HostRead::whole(MAX_BYTES).own_only()) {
            Ok(file) => Some(file.bytes),
            Err(error) if error.is_missing() => None,
            Err(error) => self.skip_ignore_file(path, &error),
        }
    }

    fn skip_ignore_file(&mut self, path: &Path, error: &HostFileError) -> Option<Vec<u8>> {
        self.report.notices.push(format!("the rules of {} are not used: {error}", self.paths.shown(path)));
        None
    }
}
