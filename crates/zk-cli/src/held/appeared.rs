use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Cx, Handler, Scope};
use zk_exec::SandboxExec;
use zk_permission::{Access, Decision, PermissionJudge, Rule};

use super::look_through;

/// Age from which on the time of a directory tells of each change after it: longer than the tick of any kernel's clock.
const SETTLED: Duration = Duration::from_millis(20);

/// Files that rules deny by a pattern, so that more of them may appear. They are looked for before each command of the model.
pub(crate) struct DeniedFiles {
    judge: PermissionJudge,
    rules: Mutex<Vec<Watched>>,
    sandboxes: Mutex<Vec<Weak<SandboxExec>>>,
}

/// A rule with a pattern, and what was found when it was looked for last.
struct Watched {
    rule: Rule,
    below: PathBuf,
    /// Nothing before the first look.
    directories: Option<Vec<(PathBuf, Option<Stamp>)>>,
    hidden: HashSet<PathBuf>,
    is_held: bool,
}

/// State of a directory: another one once a name in it was made or removed.
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
        Some(Self { device: found.dev(), inode: found.ino(), changed, is_settled: age >= SETTLED })
    }
}

impl Watched {
    fn is_as_found(&self) -> bool {
        let is_same = |(path, found): &(PathBuf, Option<Stamp>)| match found {
            Some(found) => found.is_settled && Stamp::of(path) == Some(*found),
            None => path.symlink_metadata().is_err(),
        };
        self.directories.as_ref().is_some_and(|directories| directories.iter().all(is_same))
    }

    /// Looks again; returns what has appeared.
    fn look(&mut self) -> Vec<PathBuf> {
        if self.is_as_found() {
            return Vec::new();
        }
        // The state of each is taken before it is read.
        let mut directories = vec![(self.below.clone(), Stamp::of(&self.below))];
        let found = look_through(&self.rule, &self.below, &mut |path| {
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
    /// Watches the rules that a sandbox holds by what their patterns find.
    pub(crate) fn watch(
        scope: &Scope,
        rules: impl Iterator<Item = Rule>,
        judge: PermissionJudge,
    ) -> Arc<Self> {
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
        let watched: Vec<Watched> = watched.collect();
        let is_needed = !watched.is_empty();
        let files = Arc::new(Self { judge, rules: Mutex::new(watched), sandboxes: Mutex::default() });
        if is_needed {
            scope.handle::<ToolPrepare, _>(Arc::new(Look(files.clone())));
        }
        files
    }

    /// Hides what appears in this sandbox, too.
    pub(crate) fn hide_in(&self, sandbox: &Arc<SandboxExec>) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.push(Arc::downgrade(sandbox));
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<PathBuf> = rules.iter().flat_map(|rule| rule.hidden.iter().cloned()).collect();
        if !known.is_empty() {
            // One that cannot be told is set up anew.
            let _ = sandbox.hide(&known);
        }
    }

    fn look(&self) {
        // Held until the sandboxes know of it.
        let sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut appeared = Vec::new();
        for watched in &mut *rules {
            appeared.extend(watched.look());
            self.judge.set_held(&watched.rule, watched.is_held);
        }
        if !appeared.is_empty() {
            for sandbox in sandboxes.iter().filter_map(Weak::upgrade) {
                let _ = sandbox.hide(&appeared);
            }
        }
    }
}

struct Look(Arc<DeniedFiles>);

impl Handler<ToolPrepare> for Look {
    async fn call(&self, event: &ToolPrepare, _: &Cx) -> Answer<ToolPrepare> {
        if event.call.name == "shell" {
            let files = self.0.clone();
            tokio::task::spawn_blocking(move || files.look()).await?;
        }
        Ok(None)
    }
}
