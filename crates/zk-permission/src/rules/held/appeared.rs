use std::collections::HashSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::find_matching;
use crate::PermissionJudge;
use crate::rules::{Access, Decision, Rule};

/// Age of a directory's time stamp from which on it reveals every later change: longer than the tick of any
/// kernel's clock.
const SETTLED_AGE: Duration = Duration::from_millis(20);

/// Callback that makes a sandbox hide further files; returns false once the sandbox is closed.
pub type HideFiles = Box<dyn Fn(&[PathBuf]) -> bool + Send + Sync>;

/// Files denied by pattern rules. New files are searched for before each command of the model.
pub struct DeniedFiles {
    judge: PermissionJudge,
    rules: Mutex<Vec<Watched>>,
    sandboxes: Mutex<Vec<HideFiles>>,
}

/// Rule with a pattern, and the files found by the last search.
struct Watched {
    rule: Rule,
    below: PathBuf,
    /// Directories of the last search, with their stamps; `None` before the first search.
    directories: Option<Vec<(PathBuf, Option<Stamp>)>>,
    hidden: HashSet<PathBuf>,
    is_held: bool,
}

/// Fingerprint of a directory, which changes when a name in it is created or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
    is_settled: bool,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        let (seconds, nanos) = (found.ctime(), found.ctime_nsec());
        let since = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
        let age = SystemTime::now().duration_since(UNIX_EPOCH + since).unwrap_or_default();
        let changed = (seconds, nanos);
        Some(Self { device: found.dev(), inode: found.ino(), changed, is_settled: age >= SETTLED_AGE })
    }
}

impl Watched {
    fn is_unchanged(&self) -> bool {
        let is_same = |(path, found): &(PathBuf, Option<Stamp>)| match found {
            Some(found) => found.is_settled && Stamp::of(path) == Some(*found),
            None => path.symlink_metadata().is_err(),
        };
        self.directories.as_ref().is_some_and(|directories| directories.iter().all(is_same))
    }

    /// Searches again; returns new files.
    fn find_new_files(&mut self) -> Vec<PathBuf> {
        if self.is_unchanged() {
            return Vec::new();
        }
        // The stamp of each directory is taken before it is read.
        let mut directories = vec![(self.below.clone(), Stamp::of(&self.below))];
        let found = find_matching(&self.rule, &self.below, &mut |path| {
            directories.push((path.to_owned(), Stamp::of(path)));
        });
        self.directories = Some(directories);
        self.is_held = found.is_some();
        let appeared = found.into_iter().flatten().filter(|path| !self.hidden.contains(path));
        let appeared: Vec<PathBuf> = appeared.collect();
        self.hidden.extend(appeared.iter().cloned());
        appeared
    }
}

impl DeniedFiles {
    /// Watches sandbox-enforced rules by the files that match their patterns.
    pub fn new(rules: impl Iterator<Item = Rule>, judge: PermissionJudge) -> Self {
        let watched = rules.filter_map(|rule| {
            let (access, below) = rule.denied_below()?;
            let is_pattern = (access, rule.denied_tree().is_none()) == (Access::Read, true);
            let below = below.to_owned();
            (is_pattern && rule.decision == Decision::Deny).then(|| Watched {
                rule,
                below,
                directories: None,
                hidden: HashSet::new(),
                is_held: false,
            })
        });
        Self { judge, rules: Mutex::new(watched.collect()), sandboxes: Mutex::default() }
    }

    /// Whether there are rules to watch.
    pub fn is_needed(&self) -> bool {
        !self.rules.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Adds a sandbox, in which denied files are hidden when they appear.
    pub fn hide_in(&self, hide: HideFiles) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<PathBuf> = rules.iter().flat_map(|rule| rule.hidden.iter().cloned()).collect();
        if known.is_empty() || hide(&known) {
            sandboxes.push(hide);
        }
    }

    /// Searches for new denied files, hides them in the sandboxes and tells the judge which rules the sandbox
    /// enforces. Reads directories.
    pub fn find_new_files(&self) {
        // Locked until all sandboxes hide the files, so that no sandbox is added in between.
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut appeared = Vec::new();
        for watched in &mut *rules {
            appeared.extend(watched.find_new_files());
            self.judge.set_held(&watched.rule, watched.is_held);
        }
        if !appeared.is_empty() {
            sandboxes.retain(|hide| hide(&appeared));
        }
    }
}

impl fmt::Debug for DeniedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedFiles").finish_non_exhaustive()
    }
}
