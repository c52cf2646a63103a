//! Scan of a workspace: the state of each file that git does not ignore, with contents kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;

use crate::objects::Objects;
use crate::state::{Content, FileState, Stamp};
use crate::workspace::beneath::{Place, mode_of, open_dir, open_file, open_listed, read_link};
use crate::workspace::git::{Index, MAX_TEXT_BYTES, Repository, Tracked, blob_id, is_git_dir, read_text};
use crate::workspace::git_settings::{Conversions, GitSettings};
use crate::workspace::rules::Rules;
use crate::workspace::snapshot::{Identity, Known, LeftOut, Snapshot, now_ns};
use crate::{UndoError, UndoSettings};

/// Maximum depth of directories that are scanned, counted from the root.
const MAX_DEPTH: usize = 200;

/// Largest file that is read into memory as a whole, in bytes.
const MAX_MEMORY_BYTES: u64 = 8 << 20;

/// Number of files between two checks of the time limit.
const FILES_PER_CHECK: u64 = 128;

const TOO_LARGE: &str = "larger than `undo.max_file_bytes`";
const TOO_MANY: &str = "beyond `undo.max_files`";
const FULL: &str = "for which the journal has no room (`undo.max_journal_bytes`)";
const UNREADABLE: &str = "that cannot be read";
const OF_GIT: &str = "of git's own";
const TOO_DEEP: &str = "in directories too deep to follow";

/// Limits of a scan, and the store for the contents that it keeps.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) settings: &'a UndoSettings,
    /// Directories that are never scanned, such as that of the journal.
    pub(crate) excluded: &'a [PathBuf],
    /// Git's settings beside those of the workspace's own repository; `None` if no file may be named by its objects.
    pub(crate) git: Option<&'a GitSettings>,
    /// Longest time of a scan.
    pub(crate) limit: Duration,
}

impl Scan<'_> {
    /// Scans the workspace at `root`. Files that are unchanged since `before` are not read again.
    pub(crate) fn run(&self, root: &Path, before: Option<&Snapshot>) -> Result<Snapshot, UndoError> {
        let limit = self.limit;
        let identity = Identity::of(root)?;
        let repository = Repository::of(root).filter(|_| self.git.is_some());
        let index = match &repository {
            Some(repository) => {
                repository.read_index(before.and_then(|before| before.index.as_ref()), self.objects)?
            }
            None => None,
        };
        let entries = index.as_ref().map_or(0, |index| index.len());
        let conversions = repository.as_ref().zip(self.git).map(|(own, git)| git.conversions(own));
        let mut walk = Walk {
            scan: self,
            root,
            before,
            conversions: conversions.unwrap_or_default(),
            index: index.as_deref(),
            clean: vec![0; entries],
            files: BTreeMap::new(),
            ignored: BTreeSet::new(),
            of_git: Vec::new(),
            left_out: LeftOut::default(),
            taken_ns: now_ns(),
            deadline: Instant::now() + limit,
            limit,
            looked_at: 0,
            kept: 0,
        };
        let rules = walk.outer_rules(repository.as_ref());
        let dir = open_dir(root).map_err(|errno| UndoError::io("read", root)(errno.into()))?;
        let dir =
            open_listed(&dir, OsStr::new(".")).map_err(|errno| UndoError::io("read", root)(errno.into()))?;
        let tracked = index.as_ref().map_or(0..0, |index| index.positions());
        walk.walk_dir(&dir, &mut Vec::new(), &rules, &Within { tracked, is_ignored: false, depth: 0 })?;
        walk.add_unseen()?;
        let modes = walk.split_unusual_modes();
        let Walk { files, ignored, left_out, taken_ns, .. } = walk;
        Ok(Snapshot { identity, taken_ns, index, modes, files, ignored, left_out })
    }

    /// Reads the state of one path, and keeps its content.
    pub(crate) fn read_path(&self, path: &Path, left_out: &mut LeftOut) -> Result<Known, UndoError> {
        let place = match Place::of(path) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Known::absent()),
            Err(errno) => return Err(UndoError::io("read", path)(errno.into())),
        };
        let Some(stat) = place.stat().map_err(|errno| UndoError::io("read", path)(errno.into()))? else {
            return Ok(Known::absent());
        };
        self.read_state(&place.dir, &place.name, path, &stat, None, &mut |why| left_out.add(why, path))
    }

    fn read_state(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        stat: &Stat,
        tracked: Option<Tracked<'_>>,
        left_out: &mut dyn FnMut(&'static str),
    ) -> Result<Known, UndoError> {
        let now = now_ns();
        let stamp = Stamp::of(stat);
        let known = |state| Known { state, stamp: Some(stamp), is_settled: stamp.is_settled(now) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Ok(known(FileState::Directory { mode: mode_of(stat) })),
            FileType::Symlink => {
                let target = read_link(dir, name);
                return Ok(match target {
                    Ok(target) => known(FileState::Link { target }),
                    Err(_) => Known::absent(),
                });
            }
            FileType::RegularFile => {}
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Ok(known(FileState::Other)),
        }
        let (mut file, stat) = match open_file(dir, name) {
            Ok(opened) => opened,
            // The file was removed or replaced just now.
            Err(Errno::NOENT | Errno::LOOP | Errno::INVAL) => return Ok(Known::absent()),
            Err(_) => {
                left_out(UNREADABLE);
                return Ok(known(file_state(stat, Content::LeftOut { stamp })));
            }
        };
        let stamp = Stamp::of(&stat);
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let mut leave = |why| {
            left_out(why);
            let state = file_state(&stat, Content::LeftOut { stamp });
            Ok(Known { state, stamp: Some(stamp), is_settled: stamp.is_settled(now) })
        };
        if size > self.settings.max_file_bytes {
            return leave(TOO_LARGE);
        }
        let kept = if size > MAX_MEMORY_BYTES {
            self.objects.put_file(&file, size)?
        } else {
            let mut bytes = Vec::new();
            file.by_ref()
                .take(MAX_MEMORY_BYTES)
                .read_to_end(&mut bytes)
                .map_err(UndoError::io("read", path))?;
            let id = tracked.filter(Tracked::is_blob).map(|tracked| tracked.id());
            if id.is_some() && id == blob_id(&bytes) {
                let content = Content::Git { id: id.unwrap_or_default() };
                return Ok(self.state_after_read(
                    &file,
                    &stat,
                    now,
                    FileState::File { mode: mode_of(&stat), size: bytes.len() as u64, content },
                ));
            }
            self.objects.put(&bytes)?
        };
        let Some(hash) = kept else { return leave(FULL) };
        let size = std::fs::metadata(self.objects.path(&hash)).map_or(size, |kept| kept.len());
        let state = FileState::File { mode: mode_of(&stat), size, content: Content::Kept { hash } };
        Ok(self.state_after_read(&file, &stat, now, state))
    }

    /// State of a file that was read. It counts as settled only if nobody wrote the file meanwhile.
    fn state_after_read(&self, file: &std::fs::File, stat: &Stat, now: u64, state: FileState) -> Known {
        let stamp = Stamp::of(stat);
        let is_same = rustix::fs::fstat(file).is_ok_and(|after| Stamp::of(&after) == stamp);
        Known { state, stamp: Some(stamp), is_settled: is_same && stamp.is_settled(now) }
    }
}

fn file_state(stat: &Stat, content: Content) -> FileState {
    FileState::File { mode: mode_of(stat), size: u64::try_from(stat.st_size).unwrap_or_default(), content }
}

/// Directory of a workspace that is being scanned.
struct Within {
    /// Positions in the index of the tracked files in the directory.
    tracked: Range<usize>,
    is_ignored: bool,
    depth: usize,
}

struct Walk<'a> {
    scan: &'a Scan<'a>,
    root: &'a Path,
    before: Option<&'a Snapshot>,
    conversions: Conversions,
    index: Option<&'a Index>,
    /// Finding about each entry of the index, by its position: 0 for a file that was not seen, 1 for one that differs
    /// from the index, or else its mode plus 2.
    clean: Vec<u32>,
    files: BTreeMap<PathBuf, Known>,
    ignored: BTreeSet<PathBuf>,
    /// Directories of repositories that are named other than `.git`, relative to the root.
    of_git: Vec<PathBuf>,
    left_out: LeftOut,
    taken_ns: u64,
    deadline: Instant,
    limit: Duration,
    looked_at: u64,
    kept: u64,
}

impl Walk<'_> {
    /// Rules of directories above the workspace, in the same repository.
    fn outer_rules(&self, repository: Option<&Repository>) -> Arc<Rules> {
        let Some(repository) = repository else { return Arc::default() };
        let mut rules = Arc::<Rules>::default();
        for attributes in &self.conversions.attributes {
            rules = Rules::of(&repository.root, None, read_text(attributes).as_deref(), rules);
        }
        let own = (read_text(&repository.exclude_path()), read_text(&repository.attributes_path()));
        rules = Rules::of(&repository.root, own.0.as_deref(), own.1.as_deref(), rules);
        let mut above: Vec<&Path> =
            self.root.ancestors().skip(1).take_while(|dir| dir.starts_with(&repository.root)).collect();
        above.reverse();
        for dir in above {
            let texts = (read_text(&dir.join(".gitignore")), read_text(&dir.join(".gitattributes")));
            rules = Rules::of(dir, texts.0.as_deref(), texts.1.as_deref(), rules);
        }
        rules
    }

    fn walk_dir(
        &mut self,
        fd: &OwnedFd,
        path: &mut Vec<u8>,
        above: &Arc<Rules>,
        within: &Within,
    ) -> Result<(), UndoError> {
        let whole = self.root.join(OsStr::from_bytes(path));
        let text = |name: &str| {
            let (file, _) = open_file(fd, OsStr::new(name)).ok()?;
            let mut text = Vec::new();
            file.take(MAX_TEXT_BYTES).read_to_end(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let (ignored, attributes) = (text(".gitignore"), text(".gitattributes"));
        let rules = Rules::of(&whole, ignored.as_deref(), attributes.as_deref(), above.clone());
        let Ok(entries) = Dir::read_from(fd) else {
            self.left_out.add(UNREADABLE, &whole);
            return Ok(());
        };
        let length = path.len();
        for entry in entries {
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b".." | b".git") {
                continue;
            }
            self.check_time()?;
            path.extend_from_slice(name);
            let done = self.walk_entry(fd, OsStr::from_bytes(name), entry.file_type(), path, &rules, within);
            path.truncate(length);
            done?;
        }
        Ok(())
    }

    fn walk_entry(
        &mut self,
        fd: &OwnedFd,
        name: &OsStr,
        kind: FileType,
        path: &mut Vec<u8>,
        rules: &Arc<Rules>,
        within: &Within,
    ) -> Result<(), UndoError> {
        let tracked = match self.index {
            Some(index) if kind != FileType::Directory && !within.tracked.is_empty() => {
                index.find(within.tracked.clone(), path)
            }
            Some(_) | None => None,
        };
        let relative = || PathBuf::from(OsStr::from_bytes(path));
        if tracked.is_none() && kind != FileType::Directory && within.is_ignored {
            return Ok(());
        }
        let is_ignored =
            |is_dir| within.is_ignored || rules.ignores(&self.root.join(OsStr::from_bytes(path)), is_dir);
        if tracked.is_none() && kind != FileType::Directory && kind != FileType::Unknown && is_ignored(false)
        {
            self.ignored.insert(relative());
            return Ok(());
        }
        // A file that was removed since the listing is not there.
        let Ok(stat) = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let is_ignored = is_ignored(true);
            return self.walk_subdirectory(fd, name, &stat, path, rules, within, is_ignored);
        }
        if let Some(tracked) = tracked {
            if tracked.is_clean(&Stamp::of(&stat))
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && self.conversions.keep_bytes(&tracked, &self.root.join(OsStr::from_bytes(path)), rules)
            {
                if let Some(mode) = self.clean.get_mut(tracked.position) {
                    *mode = mode_of(&stat) + 2;
                }
                return Ok(());
            }
            if let Some(mode) = self.clean.get_mut(tracked.position) {
                *mode = 1;
            }
        } else if kind == FileType::Unknown && is_ignored(false) {
            self.ignored.insert(relative());
            return Ok(());
        }
        let relative = relative();
        let known = self.unchanged_state(&relative, &stat);
        let known = match known {
            Some(known) => known,
            None if self.kept >= self.scan.settings.max_files => {
                self.left_out.add(TOO_MANY, &relative);
                let stamp = Stamp::of(&stat);
                let state = file_state(&stat, Content::LeftOut { stamp });
                Known { state, stamp: Some(stamp), is_settled: true }
            }
            None => {
                let whole = self.root.join(&relative);
                let left_out = &mut self.left_out;
                let mut add = |why| left_out.add(why, &relative);
                let known = self.scan.read_state(fd, name, &whole, &stat, tracked, &mut add)?;
                if matches!(known.state, FileState::File { content: Content::Kept { .. }, .. }) {
                    self.kept += 1;
                }
                known
            }
        };
        self.files.insert(relative, known);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the walk, apart from its caller")]
    fn walk_subdirectory(
        &mut self,
        fd: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
        path: &mut Vec<u8>,
        rules: &Arc<Rules>,
        within: &Within,
        is_ignored: bool,
    ) -> Result<(), UndoError> {
        let relative = PathBuf::from(OsStr::from_bytes(path));
        let whole = self.root.join(&relative);
        if self.scan.excluded.contains(&whole) {
            return Ok(());
        }
        path.push(b'/');
        let tracked = self.index.map_or(0..0, |index| index.positions_below(within.tracked.clone(), path));
        if is_ignored {
            self.ignored.insert(relative.clone());
        }
        if is_ignored && tracked.is_empty() {
            return Ok(());
        }
        if is_git_dir(&whole) {
            self.left_out.add(OF_GIT, &relative);
            self.of_git.push(relative);
            return Ok(());
        }
        if !is_ignored {
            let known = self.scan.read_state(fd, name, &whole, stat, None, &mut |_| {})?;
            self.files.insert(relative.clone(), known);
        }
        if within.depth >= MAX_DEPTH {
            self.left_out.add(TOO_DEEP, &relative);
            return Ok(());
        }
        match open_listed(fd, name) {
            Ok(dir) => {
                let within = Within { tracked, is_ignored, depth: within.depth + 1 };
                self.walk_dir(&dir, path, rules, &within)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(_) => {
                self.left_out.add(UNREADABLE, &relative);
                Ok(())
            }
        }
    }

    /// State of a file from the previous scan, if the file is unchanged since.
    fn unchanged_state(&self, relative: &Path, stat: &Stat) -> Option<Known> {
        let known = self.before?.files.get(relative)?;
        let is_same = known.is_settled && known.stamp == Some(Stamp::of(stat));
        let is_kept = matches!(known.state, FileState::File { .. } | FileState::Link { .. });
        (is_same && is_kept).then(|| known.clone())
    }

    /// Adds paths that the walk did not reach: tracked files that are gone, and files of the previous scan that git
    /// ignores now.
    fn add_unseen(&mut self) -> Result<(), UndoError> {
        let mut unseen: Vec<PathBuf> = Vec::new();
        if let Some(index) = self.index {
            for position in index.positions() {
                if self.clean.get(position) == Some(&0)
                    && let Some((path, _)) = index.entry_at(position)
                {
                    unseen.push(OsStr::from_bytes(path).into());
                }
            }
        }
        let before = self.before.into_iter().flat_map(|before| &before.files);
        let gone = before.filter(|(path, known)| known.state.exists() && !self.files.contains_key(*path));
        let gone: Vec<PathBuf> =
            gone.filter(|(path, _)| !self.is_seen_clean(path)).map(|(path, _)| path.clone()).collect();
        unseen.extend(gone);
        unseen.retain(|path| !self.of_git.iter().any(|dir| path.starts_with(dir)));
        for relative in unseen {
            self.check_time()?;
            let mut left_out = LeftOut::default();
            let known = self.scan.read_path(&self.root.join(&relative), &mut left_out)?;
            self.files.insert(relative, known);
        }
        Ok(())
    }

    fn is_seen_clean(&self, path: &Path) -> bool {
        let found = self.index.and_then(|index| index.find(index.positions(), path.as_os_str().as_bytes()));
        found.is_some_and(|tracked| self.clean.get(tracked.position).is_some_and(|mode| *mode > 1))
    }

    /// Adds unchanged tracked files with an unusual mode to `files`. Returns the usual modes of plain files and of
    /// programs.
    fn split_unusual_modes(&mut self) -> (u32, u32) {
        let Some(index) = self.index else { return (0o644, 0o755) };
        let mut counts: [BTreeMap<u32, usize>; 2] = Default::default();
        let entries = |clean: &[u32]| -> Vec<(usize, u32)> {
            clean
                .iter()
                .copied()
                .enumerate()
                .filter(|(_, mode)| *mode > 1)
                .map(|(at, mode)| (at, mode - 2))
                .collect()
        };
        let entries = entries(&self.clean);
        for (at, mode) in &entries {
            let Some((_, tracked)) = index.entry_at(*at) else { continue };
            let [plain, programs] = &mut counts;
            *if tracked.is_executable() { programs } else { plain }.entry(*mode).or_default() += 1;
        }
        let usual = |counts: &BTreeMap<u32, usize>, without: u32| {
            counts.iter().max_by_key(|(_, count)| **count).map_or(without, |(mode, _)| *mode)
        };
        let modes = (usual(&counts[0], 0o644), usual(&counts[1], 0o755));
        for (at, mode) in entries {
            let Some((path, tracked)) = index.entry_at(at) else { continue };
            if mode == if tracked.is_executable() { modes.1 } else { modes.0 } {
                continue;
            }
            let content = Content::Git { id: tracked.id() };
            let state = FileState::File { mode, size: tracked.size(), content };
            let known = Known { state, stamp: Some(tracked.stamp()), is_settled: true };
            self.files.insert(OsStr::from_bytes(path).into(), known);
        }
        modes
    }

    fn check_time(&mut self) -> Result<(), UndoError> {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(FILES_PER_CHECK) && Instant::now() > self.deadline {
            return Err(UndoError::TooSlow { root: self.root.to_owned(), limit: self.limit });
        }
        Ok(())
    }
}
