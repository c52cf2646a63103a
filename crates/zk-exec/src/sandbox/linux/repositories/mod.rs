//! Repositories that commands make, checked so that a person's next git command starts none of their
//! programs.

mod aside;
mod commands;
mod gitlinks;
mod settings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;
use zk_core::service::{Denial, DeniedAct};

use super::broker::{ReportReader, Reported};
use super::git;
use super::plan::Plan;
use aside::{Common, Directory, SetAside};
use commands::Commands;
use gitlinks::Gitlinks;

/// Maximum number of directory entries that one search visits.
const MAX_ENTRIES: usize = 300_000;
/// Maximum number of git directories that refer to each other in a row.
const MAX_HOPS: usize = 4;

/// Checks the repositories that commands of a sandbox make.
#[derive(Clone, Debug)]
pub(super) struct Repositories {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Directories that commands can write to.
    roots: Vec<PathBuf>,
    /// Read-only files and directories inside of the writable ones.
    read_only: Vec<PathBuf>,
    reports: ReportReader,
    /// Maximum number of directory entries that one search visits.
    most_entries: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Git directories whose settings and hooks commands cannot change.
    protected: HashSet<PathBuf>,
    /// Paths that commands made and that may be repositories: named `.git`, or git directories themselves.
    made: BTreeSet<PathBuf>,
    /// New repositories at writable roots, which the sandbox protects from the next command on, with their
    /// stage.
    roots: BTreeMap<PathBuf, Stage>,
    commands: Commands,
    /// Gitlinks of the repositories that existed when the sandbox was set up.
    gitlinks: Vec<Gitlinks>,
    /// Directories that are still to be searched, the next one last.
    unfinished: Vec<PathBuf>,
    found: Vec<Denial>,
}

/// Stage of a repository at a writable root that had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Absent,
    /// Checked, and still writable for the command that made it.
    Made,
    /// Read-only for commands with a higher number.
    Closed {
        until: u64,
    },
}

impl Repositories {
    pub(super) fn of(plan: &Plan, reports: ReportReader) -> Self {
        let is_config = |path: &&PathBuf| path.file_name() == Some(OsStr::new("config"));
        let protected = plan.read_only.iter().filter(is_config);
        let protected: HashSet<PathBuf> =
            protected.filter_map(|path| path.parent()).map(Path::to_owned).collect();
        let trees = protected.iter().filter(|path| path.ends_with(".git")).filter_map(|path| path.parent());
        let gitlinks = trees.map(|tree| Gitlinks::of(tree.to_owned())).collect();
        let absent = plan.guarded.iter().filter(|path| path.ends_with(".git"));
        let roots = absent.map(|path| (path.clone(), Stage::Absent)).collect();
        let state = Mutex::new(State { protected, roots, gitlinks, ..State::default() });
        // A repository that a command makes at the root takes this name later.
        let read_only = plan.read_only.iter().filter(|path| !path.ends_with(".git")).cloned().collect();
        let (roots, most_entries) = (plan.writable.clone(), MAX_ENTRIES);
        Self { shared: Arc::new(Shared { roots, read_only, reports, most_entries, state }) }
    }

    /// Checks all repositories that commands have made, and sets aside settings and hooks that start
    /// programs. [`Repositories::take_found`] returns the findings.
    pub(super) fn check(&self) {
        let shared = &*self.shared;
        let mut state = self.state();
        let mut found = Vec::new();
        let State { made, roots, commands, .. } = &mut *state;
        // Asked before the check: a command that ends during it may have written to a part that is already
        // checked.
        let mut is_over = Vec::new();
        for (path, stage) in &mut *roots {
            *stage = match *stage {
                Stage::Closed { until } => {
                    is_over.extend((!commands.live_until(until)).then(|| path.clone()));
                    Stage::Closed { until }
                }
                Stage::Absent | Stage::Made if git::is_initialised(path) => Stage::Made,
                Stage::Absent | Stage::Made => Stage::Absent,
            };
            made.extend((*stage != Stage::Absent).then(|| path.clone()));
        }
        shared.record_reports(shared.reports.take_reports(), &mut state, &mut found);
        shared.check_gitlinks(&mut state, &mut found);
        let mut made = std::mem::take(&mut state.made);
        made.retain(|path| {
            let is_there = fs::symlink_metadata(path).is_ok();
            if is_there {
                shared.check_target(path, Closed::All(&state.protected), MAX_HOPS, &mut found);
            }
            is_there
        });
        state.made = made;
        for path in is_over {
            state.roots.remove(&path);
            state.made.remove(&path);
            state.protected.insert(path);
        }
        state.found.extend(found.into_iter().map(denial));
    }

    /// Takes the findings that were not reported yet.
    pub(super) fn take_found(&self) -> Vec<Denial> {
        std::mem::take(&mut self.state().found)
    }

    /// Puts back findings that could not be reported.
    pub(super) fn keep_found(&self, found: Vec<Denial>) {
        let mut state = self.state();
        let later = std::mem::replace(&mut state.found, found);
        state.found.extend(later);
    }

    /// Registers a command that is about to be started; the sandbox protects the existing repositories before
    /// it starts.
    pub(super) fn begin(&self) -> Starting {
        let mut state = self.state();
        let made = state.roots.iter().filter(|(_, stage)| **stage == Stage::Made);
        let closes = made.map(|(path, _)| path.clone()).collect();
        Starting { repositories: self.clone(), number: state.commands.begin(), closes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Command that is being started. Dropping this records that the start failed.
pub(super) struct Starting {
    repositories: Repositories,
    number: u64,
    /// Repositories that the sandbox protects before the command starts.
    closes: Vec<PathBuf>,
}

impl Starting {
    /// Records that the command was started, with the connection that closes when its last process ends.
    pub(super) fn started(mut self, life: Option<OwnedFd>) {
        let repositories = self.repositories.clone();
        let mut state = repositories.state();
        state.commands.started(std::mem::take(&mut self.number), life);
        let until = state.commands.last;
        for path in std::mem::take(&mut self.closes) {
            if let Some(stage @ Stage::Made) = state.roots.get_mut(&path) {
                *stage = Stage::Closed { until };
            }
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.number != 0 {
            self.repositories.state().commands.failed(self.number);
        }
    }
}

/// Git directories that a check skips.
#[derive(Clone, Copy)]
enum Closed<'a> {
    /// Skips all protected directories, since commands cannot have changed them.
    All(&'a HashSet<PathBuf>),
    /// Skips protected directories when they are common directories, and the repository of the index.
    Common { protected: &'a HashSet<PathBuf>, own: &'a Path },
}

impl<'a> Closed<'a> {
    fn has(self, path: &Path) -> bool {
        match self {
            Self::All(protected) => protected.contains(path),
            Self::Common { own, .. } => path == own,
        }
    }

    fn protected(self) -> &'a HashSet<PathBuf> {
        match self {
            Self::All(protected) | Self::Common { protected, .. } => protected,
        }
    }
}

impl Shared {
    fn record_reports(&self, reported: Reported, state: &mut State, found: &mut Vec<SetAside>) {
        let Reported { named, moved, is_cut } = reported;
        for path in named {
            let is_dot_git = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
            // A hook lies one directory deeper than the other files.
            let has_head = |dir: &&Path| dir.join("HEAD").symlink_metadata().is_ok();
            let around = || path.ancestors().skip(1).take(2).find(has_head);
            let path = if is_dot_git { Some(path) } else { around().map(Path::to_owned) };
            let path = path.filter(|path| self.root_of(path).is_some() && !state.protected.contains(path));
            state.made.extend(path);
        }
        let moved = if is_cut { self.roots.clone() } else { moved };
        // Directories in a search that has already begun are searched again, since they may have changed.
        let is_new = |dir: &PathBuf| self.root_of(dir).is_some() && !state.unfinished.contains(dir);
        let mut todo: Vec<PathBuf> = moved.into_iter().filter(is_new).collect();
        todo.append(&mut state.unfinished);
        find_below(&mut todo, self.most_entries, &state.protected, &mut state.made);
        state.unfinished = todo;
        if let Some(path) = state.unfinished.last().cloned() {
            let why = format!(
                "more than {} entries are to be looked at, and nothing from here on is set aside yet: look \
                 for repositories that commands have made before you run git there",
                self.most_entries
            );
            found.push(SetAside { path, why });
        }
    }

    /// Checks the targets of new gitlinks, regardless of the repositories' origin: git now obeys settings in
    /// them that it ignored before.
    fn check_gitlinks(&self, state: &mut State, found: &mut Vec<SetAside>) {
        let mut added = Vec::new();
        for gitlinks in &mut state.gitlinks {
            match gitlinks.added() {
                Ok(paths) => {
                    let own = gitlinks.directory();
                    added.extend(paths.into_iter().map(|path| (path.join(".git"), own.clone())));
                }
                Err(path) => found.push(SetAside {
                    path,
                    why: "it cannot be read, and may have gitlinks that commands made; look before you run git there"
                        .to_owned(),
                }),
            }
        }
        for (path, own) in added.into_iter().filter(|(path, _)| self.root_of(path).is_some()) {
            let closed = Closed::Common { protected: &state.protected, own: &own };
            self.check_target(&path, closed, MAX_HOPS, found);
            if !state.protected.contains(&path) {
                state.made.insert(path);
            }
        }
    }

    fn root_of(&self, path: &Path) -> Option<&PathBuf> {
        let roots = self.roots.iter().filter(|root| path.starts_with(root));
        roots.max_by_key(|root| root.components().count())
    }

    /// Checks the target of a name: a git directory, or a file or link that names one.
    fn check_target(&self, path: &Path, closed: Closed<'_>, hops: usize, found: &mut Vec<SetAside>) {
        let Some(hops) = hops.checked_sub(1) else { return };
        let (Some(root), Some(above), Some(name)) = (self.root_of(path), path.parent(), path.file_name())
        else {
            return;
        };
        if closed.has(path) {
            return;
        }
        let go_on = |target: PathBuf, found: &mut Vec<SetAside>| {
            // A target outside of the writable roots cannot have been changed by commands.
            if let Ok(target) = target.canonicalize()
                && self.root_of(&target).is_some()
            {
                self.check_target(&target, closed, hops, found);
            }
        };
        if path == root {
            return self.check_directory(root, path, closed, found);
        }
        let Ok(parent) = Directory::open(root, above) else { return };
        match parent.kind(name) {
            Some(FileType::Directory) => self.check_directory(root, path, closed, found),
            Some(FileType::Symlink) => go_on(path.to_owned(), found),
            Some(_) => {
                if let Some(target) =
                    parent.read(name).as_deref().and_then(|text| text.strip_prefix(b"gitdir: "))
                {
                    go_on(above.join(named_path(target)), found);
                }
            }
            None => {}
        }
    }

    fn check_directory(&self, root: &Path, path: &Path, closed: Closed<'_>, found: &mut Vec<SetAside>) {
        let directory = match Directory::open(root, path) {
            Ok(directory) => directory,
            Err(error) => return found.push(unchecked_part(path.to_owned(), error)),
        };
        if !directory.is_repository() {
            return;
        }
        directory.clean(found);
        match directory.common() {
            Common::Own => {}
            Common::Other(target) => {
                self.clean_common(&path.join(named_path(&target)), closed.protected(), found);
            }
            Common::Unreadable(told) => found.push(told),
        }
    }

    /// Cleans a common directory, which needs no `HEAD` to be used by git.
    fn clean_common(&self, path: &Path, protected: &HashSet<PathBuf>, found: &mut Vec<SetAside>) {
        let Ok(path) = path.canonicalize() else { return };
        let Some(root) = self.root_of(&path) else { return };
        // Commands cannot write to these directories.
        if protected.contains(&path) || self.read_only.iter().any(|dir| path.starts_with(dir)) {
            return;
        }
        match Directory::open(root, &path) {
            Ok(directory) => directory.clean(found),
            Err(error) => found.push(unchecked_part(path, error)),
        }
    }
}

/// Searches the last of the directories, with its subdirectories, for names that git looks for, then the
/// others. Links are not followed. Stops after `most` directory entries and leaves the rest for later.
fn find_below(
    todo: &mut Vec<PathBuf>,
    most: usize,
    protected: &HashSet<PathBuf>,
    into: &mut BTreeSet<PathBuf>,
) {
    let mut seen = 0;
    while seen < most
        && let Some(dir) = todo.pop()
    {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            let (name, path) = (entry.file_name(), entry.path());
            if name.eq_ignore_ascii_case("HEAD") && !protected.contains(&dir) {
                into.insert(dir.clone());
            }
            if name.eq_ignore_ascii_case(".git") {
                if !protected.contains(&path) {
                    into.insert(path);
                }
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(path);
            }
        }
    }
}

/// Path in a file of git, parsed as git does: trailing blanks belong to it.
fn named_path(text: &[u8]) -> &Path {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    Path::new(OsStr::from_bytes(text.split(|byte| *byte == 0).next().unwrap_or_default()))
}

fn unchecked_part(path: PathBuf, error: Errno) -> SetAside {
    SetAside { path, why: format!("it cannot be looked at: {error}; do so before you run git there") }
}

fn denial(SetAside { path, why }: SetAside) -> Denial {
    Denial { act: DeniedAct::SetAside, target: path.display().to_string(), reason: why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_ends_early_is_reported_each_time_and_continues_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for number in 0..20 {
            fs::create_dir_all(root.join(format!("{number}/.git"))).unwrap();
        }
        let moved = || Reported { moved: vec![root.clone()], ..Reported::default() };
        let shared = Shared {
            roots: vec![root.clone()],
            read_only: Vec::new(),
            reports: ReportReader::default(),
            most_entries: 10,
            state: Mutex::default(),
        };
        let (mut state, mut found) = (State::default(), Vec::new());
        let mut told = Vec::new();
        for reported in [moved(), moved(), Reported::default(), Reported::default()] {
            shared.record_reports(reported, &mut state, &mut found);
            told.push(found.drain(..).count());
        }
        while !state.unfinished.is_empty() {
            shared.record_reports(Reported::default(), &mut state, &mut found);
        }
        assert_eq!((told.as_slice(), state.made.len()), (&[1, 1, 1, 1][..], 20));
    }
}
