//! Repositories that commands make, and from which a person's next git command would start programs of theirs.

mod aside;
mod settings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FileType;
use zk_core::service::{Denial, DeniedAct};

use rustix::io::Errno;
use super::broker::{ReportReader, Reported};
use super::plan::Plan;
use aside::{Common, Directory, SetAside};

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
    is_cut_told: bool,
}

/// State of a repository at the root of a writable directory that had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Absent,
    /// Looked at, and still open to the command that made it.
    Made,
    /// Read-only since a command was started.
    Closed,
}

impl Repositories {
    pub(super) fn of(plan: &Plan, reports: ReportReader) -> Self {
        let is_config = |path: &&PathBuf| path.file_name() == Some(OsStr::new("config"));
        let protected = plan.read_only.iter().filter(is_config);
        let protected = protected.filter_map(|path| path.parent()).map(Path::to_owned).collect();
        let absent = plan.guarded.iter().filter(|path| path.ends_with(".git"));
        let roots = absent.map(|path| (path.clone(), Stage::Absent)).collect();
        let state = Mutex::new(State { protected, roots, ..State::default() });
        // A repository that is made at the root has that name from then on.
        let read_only = plan.read_only.iter().filter(|path| !path.ends_with(".git")).cloned().collect();
        Self { shared: Arc::new(Shared { roots: plan.writable.clone(), read_only, reports, state }) }
    }

    /// Looks at all repositories that commands have made, and sets aside what starts programs.
    pub(super) fn check(&self) -> Vec<Denial> {
        let shared = &*self.shared;
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let reported = shared.reports.take();
        let mut found = Vec::new();
        shared.note(reported, &mut state, &mut found);
        let mut made = std::mem::take(&mut state.made);
        made.retain(|path| {
            let is_there = fs::symlink_metadata(path).is_ok();
            if is_there {
                shared.look(path, &state.protected, MAX_HOPS, &mut found);
            }
            is_there
        });
        state.made = made;
        let State { protected, made, roots, .. } = &mut *state;
        roots.retain(|path, stage| match *stage {
            Stage::Closed => {
                protected.insert(path.clone());
                made.remove(path);
                false
            }
            Stage::Absent | Stage::Made => {
                *stage = if path.exists() { Stage::Made } else { Stage::Absent };
                true
            }
        });
        found.into_iter().map(denial).collect()
    }

    /// Takes note that a command was started, before which the sandbox has protected what was there.
    pub(super) fn note_start(&self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .roots
            .values_mut()
            .filter(|stage| **stage == Stage::Made)
            .for_each(|stage| *stage = Stage::Closed);
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
        let mut left = MAX_ENTRIES;
        for dir in moved.iter().filter(|dir| self.root_of(dir).is_some()) {
            find_below(dir, &state.protected, &mut left, &mut state.made);
        }
        if left == 0 && !std::mem::replace(&mut state.is_cut_told, true) {
            let path = self.roots.first().cloned().unwrap_or_default();
            let why = format!(
                "nothing of it is set aside where more than {MAX_ENTRIES} entries are to be looked at: look \
                 for repositories that commands have made before you run git there"
            );
            found.push(SetAside { path, why });
        }
    }

    fn root_of(&self, path: &Path) -> Option<&PathBuf> {
        let roots = self.roots.iter().filter(|root| path.starts_with(root));
        roots.max_by_key(|root| root.components().count())
    }

    /// Looks at what a name leads git to: a directory of git, or a file or link that names one.
    fn look(&self, path: &Path, protected: &HashSet<PathBuf>, hops: usize, found: &mut Vec<SetAside>) {
        let Some(hops) = hops.checked_sub(1) else { return };
        let (Some(root), Some(above), Some(name)) = (self.root_of(path), path.parent(), path.file_name())
        else {
            return;
        };
        if protected.contains(path) {
            return;
        }
        let go_on = |target: PathBuf, found: &mut Vec<SetAside>| {
            // Commands write nothing of what lies elsewhere.
            if let Ok(target) = target.canonicalize()
                && self.root_of(&target).is_some()
            {
                self.look(&target, protected, hops, found);
            }
        };
        if path == root {
            return self.look_into(root, path, protected, found);
        }
        let Ok(parent) = Directory::open(root, above) else { return };
        match parent.kind(name) {
            Some(FileType::Directory) => self.look_into(root, path, protected, found),
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

    fn look_into(&self, root: &Path, path: &Path, protected: &HashSet<PathBuf>, found: &mut Vec<SetAside>) {
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
            Common::Other(target) => self.clean_common(&path.join(named_path(&target)), protected, found),
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

/// Finds names that git looks for in a directory and all below it, without following links.
fn find_below(dir: &Path, protected: &HashSet<PathBuf>, left: &mut usize, into: &mut BTreeSet<PathBuf>) {
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let Some(less) = left.checked_sub(1) else { return };
            *left = less;
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

fn denial(SetAside { path, why }: SetAside) -> Denial {
    Denial { act: DeniedAct::SetAside, target: path.display().to_string(), reason: why }
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

