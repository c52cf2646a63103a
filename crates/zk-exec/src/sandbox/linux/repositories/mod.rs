//! Repositories that commands make, and from which a person's next git command would start programs of theirs.

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

/// Entries of directories that are looked through where a name may have been made unseen.
const MAX_ENTRIES: usize = 300_000;
/// Directories of git that one names, one after the other.
const MAX_HOPS: usize = 4;

/// Looks at the repositories that commands of a sandbox make.
#[derive(Clone, Debug)]
pub(super) struct Repositories {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Directories that commands write to.
    roots: Vec<PathBuf>,
    /// Files and directories there that commands do not write to.
    read_only: Vec<PathBuf>,
    reports: ReportReader,
    /// Entries of directories that are looked through at a time.
    most_entries: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Directories of git from which commands cannot have programs started.
    protected: HashSet<PathBuf>,
    /// Paths of a name `.git`, or of a directory that may be a repository itself, made by commands.
    made: BTreeSet<PathBuf>,
    /// Repositories that the sandbox protects from the next command on, with how far that is.
    roots: BTreeMap<PathBuf, Stage>,
    commands: Commands,
    /// Gitlinks of the repositories that were there when the sandbox was set up.
    gitlinks: Vec<Gitlinks>,
    /// Directories that are left to look through, the next one at the end.
    unfinished: Vec<PathBuf>,
    found: Vec<Denial>,
}

/// State of a repository at the root of a writable directory that had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Absent,
    /// Looked at, and still open to the command that made it.
    Made,
    /// Read-only for commands that are started later than the one with this number.
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
        // A repository that is made at the root has that name from then on.
        let read_only = plan.read_only.iter().filter(|path| !path.ends_with(".git")).cloned().collect();
        let (roots, most_entries) = (plan.writable.clone(), MAX_ENTRIES);
        Self { shared: Arc::new(Shared { roots, read_only, reports, most_entries, state }) }
    }

    /// Looks at all repositories that commands have made, and sets aside what starts programs. What was found is told with
    /// [`Repositories::take_found`].
    pub(super) fn check(&self) {
        let shared = &*self.shared;
        let mut state = self.state();
        let mut found = Vec::new();
        let State { made, roots, commands, .. } = &mut *state;
        // Before the look: a command that ends during it may have written behind it.
        let mut is_over = Vec::new();
        for (path, stage) in &mut *roots {
            *stage = match *stage {
                Stage::Closed { until } => {
                    is_over.extend((!commands.live_until(until)).then(|| path.clone()));
                    Stage::Closed { until }
                }
                Stage::Absent | Stage::Made if git::is_made(path) => Stage::Made,
                Stage::Absent | Stage::Made => Stage::Absent,
            };
            made.extend((*stage != Stage::Absent).then(|| path.clone()));
        }
        shared.note(shared.reports.take(), &mut state, &mut found);
        shared.look_at_gitlinks(&mut state, &mut found);
        let mut made = std::mem::take(&mut state.made);
        made.retain(|path| {
            let is_there = fs::symlink_metadata(path).is_ok();
            if is_there {
                shared.look(path, Closed::All(&state.protected), MAX_HOPS, &mut found);
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

    /// Parts that were set aside and that nobody was told of.
    pub(super) fn take_found(&self) -> Vec<Denial> {
        std::mem::take(&mut self.state().found)
    }

    /// Keeps what was taken and could not be told.
    pub(super) fn keep_found(&self, found: Vec<Denial>) {
        let mut state = self.state();
        let later = std::mem::replace(&mut state.found, found);
        state.found.extend(later);
    }

    /// Takes note of a command that is about to be started: the sandbox protects before it what is there.
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

/// A command that is being started. Dropping it says that it was not.
pub(super) struct Starting {
    repositories: Repositories,
    number: u64,
    /// Repositories that the sandbox protects before it starts.
    closes: Vec<PathBuf>,
}

impl Starting {
    /// Takes note of a command that was started, and of the connection that is closed once nothing of it is left.
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

/// Directories of git that a look leaves as they are.
#[derive(Clone, Copy)]
enum Closed<'a> {
    /// All of these: commands have changed none.
    All(&'a HashSet<PathBuf>),
    /// These as the common directory of another one, and the repository of the index itself.
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
    fn note(&self, reported: Reported, state: &mut State, found: &mut Vec<SetAside>) {
        let Reported { named, moved, is_cut } = reported;
        for path in named {
            let is_dot_git = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
            // A hook lies one directory deeper than the others.
            let has_head = |dir: &&Path| dir.join("HEAD").symlink_metadata().is_ok();
            let around = || path.ancestors().skip(1).take(2).find(has_head);
            let path = if is_dot_git { Some(path) } else { around().map(Path::to_owned) };
            let path = path.filter(|path| self.root_of(path).is_some() && !state.protected.contains(path));
            state.made.extend(path);
        }
        let moved = if is_cut { self.roots.clone() } else { moved };
        // Of those that are looked through already, what has been seen of them may have changed.
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

    /// Looks at directories that commands made gitlinks of, whoever made the repositories there: git starts programs by their
    /// settings where it did not before.
    fn look_at_gitlinks(&self, state: &mut State, found: &mut Vec<SetAside>) {
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
            self.look(&path, closed, MAX_HOPS, found);
            if !state.protected.contains(&path) {
                state.made.insert(path);
            }
        }
    }

    fn root_of(&self, path: &Path) -> Option<&PathBuf> {
        let roots = self.roots.iter().filter(|root| path.starts_with(root));
        roots.max_by_key(|root| root.components().count())
    }

    /// Looks at what a name leads git to: a directory of git, or a file or link that names one.
    fn look(&self, path: &Path, closed: Closed<'_>, hops: usize, found: &mut Vec<SetAside>) {
        let Some(hops) = hops.checked_sub(1) else { return };
        let (Some(root), Some(above), Some(name)) = (self.root_of(path), path.parent(), path.file_name())
        else {
            return;
        };
        if closed.has(path) {
            return;
        }
        let go_on = |target: PathBuf, found: &mut Vec<SetAside>| {
            // Commands write nothing of what lies elsewhere.
            if let Ok(target) = target.canonicalize()
                && self.root_of(&target).is_some()
            {
                self.look(&target, closed, hops, found);
            }
        };
        if path == root {
            return self.look_into(root, path, closed, found);
        }
        let Ok(parent) = Directory::open(root, above) else { return };
        match parent.kind(name) {
            Some(FileType::Directory) => self.look_into(root, path, closed, found),
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

    fn look_into(&self, root: &Path, path: &Path, closed: Closed<'_>, found: &mut Vec<SetAside>) {
        let directory = match Directory::open(root, path) {
            Ok(directory) => directory,
            Err(error) => return found.push(unseen(path.to_owned(), error)),
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

    /// Cleans a common directory, which git takes without a `HEAD` in it.
    fn clean_common(&self, path: &Path, protected: &HashSet<PathBuf>, found: &mut Vec<SetAside>) {
        let Ok(path) = path.canonicalize() else { return };
        let Some(root) = self.root_of(&path) else { return };
        // Commands write nothing of these.
        if protected.contains(&path) || self.read_only.iter().any(|dir| path.starts_with(dir)) {
            return;
        }
        match Directory::open(root, &path) {
            Ok(directory) => directory.clean(found),
            Err(error) => found.push(unseen(path, error)),
        }
    }
}

/// Finds names that git looks for in the last of the directories and all below it, then in the others, without following
/// links. After some directories with `most` entries together the rest is left.
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

/// The path in a file of git, as git reads it: a blank at its end is a part of it.
fn named_path(text: &[u8]) -> &Path {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    Path::new(OsStr::from_bytes(text.split(|byte| *byte == 0).next().unwrap_or_default()))
}

fn unseen(path: PathBuf, error: Errno) -> SetAside {
    SetAside { path, why: format!("it cannot be looked at: {error}; do so before you run git there") }
}

fn denial(SetAside { path, why }: SetAside) -> Denial {
    Denial { act: DeniedAct::SetAside, target: path.display().to_string(), reason: why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_ends_early_is_told_each_time_and_goes_on_with_the_next() {
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
            shared.note(reported, &mut state, &mut found);
            told.push(found.drain(..).count());
        }
        while !state.unfinished.is_empty() {
            shared.note(Reported::default(), &mut state, &mut found);
        }
        assert_eq!((told.as_slice(), state.made.len()), (&[1, 1, 1, 1][..], 20));
    }
}
