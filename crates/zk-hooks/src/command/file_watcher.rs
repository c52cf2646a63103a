use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use zk_core::events::{FileChange, FileChanged};
use zk_core::kernel::{BoxError, Bus, Plugin, Scope};
use zk_core::service::{FileWatch, Files, Resolved};

use super::matcher::Matcher;

/// Debounce interval: time without changes of a file after which it is announced, since editors write a file in several
/// steps.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Maximum delay: time for which changes of one file are held back at most, however often it changes.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Maximum number of changed files that wait to be announced; more are left out.
const MAX_WAITING_FILES: usize = 10_000;

/// Invalid pattern of files to watch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern of files {0}")]
pub struct FilePatternError(String);

/// Plugin that announces changed files of a directory as [`FileChanged`], whoever changed them: once a file has
/// been quiet for 200 ms. Files in `.git` are left out. It watches through the bus's
/// [`Files`](zk_core::service::Files); where these cannot watch, nothing is announced.
///
/// ```
/// use zk_core::events::FileChanged;
/// use zk_core::kernel::{Bus, Cx};
/// use zk_hooks::FileWatcher;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # let _guard = runtime.enter();
/// let bus = Bus::new();
/// bus.scope("settings").on_sync(|changed: &FileChanged, _: &Cx| println!("{}", changed.path.display()));
/// bus.install(&FileWatcher::new("/home/me/project", "*.toml|src/**")?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FileWatcher {
    root: PathBuf,
    matchers: Vec<Matcher>,
}

impl FileWatcher {
    /// Watcher of the files below `root` that match `globs`, separated by `|`: a glob with a slash is matched with
    /// the path below `root`, one without with the file's name.
    ///
    /// # Errors
    /// [`FilePatternError`] for a glob that cannot be read.
    pub fn new(root: impl Into<PathBuf>, globs: &str) -> Result<Self, FilePatternError> {
        let matcher = Matcher::parse_globs(globs).map_err(FilePatternError)?;
        Ok(Self::of(root.into(), vec![matcher]))
    }

    pub(super) fn of(root: PathBuf, matchers: Vec<Matcher>) -> Self {
        Self { root, matchers }
    }

    fn is_watched(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.root) else { return false };
        let is_of_git = below.components().any(|part| part.as_os_str() == ".git");
        let name = below.to_string_lossy();
        !is_of_git && !name.is_empty() && self.matchers.iter().any(|matcher| matcher.is_match(&name))
    }

    /// Watches until `scope` ends; calls `failed` with the reason if that is not possible.
    pub(super) fn watch(self, scope: &Scope, failed: impl Fn(&str) + Send + Sync + 'static) {
        let place = scope.clone();
        scope.spawn(async move {
            let Some(bus) = place.bus() else { return };
            let changes = Arc::<Changes>::default();
            let Some(files) = bus.service::<dyn Files>() else { return failed("nothing here reaches files") };
            let changed = {
                let (watcher, changes) = (self.clone(), changes.clone());
                Arc::new(move |at: &Resolved| {
                    if watcher.is_watched(&at.path) {
                        changes.add(&at.path);
                    }
                })
            };
            // Walks the whole tree on some systems.
            let begun = tokio::task::spawn_blocking(move || {
                let root = self.root.to_str().ok_or_else(|| "the directory's name is no text".to_owned())?;
                let at = files.resolve(&self.root, root).map_err(|error| error.to_string())?;
                files.watch(&at, changed).map_err(|error| error.to_string())
            });
            let watch: Box<dyn FileWatch> = match begun.await {
                Ok(Ok(watch)) => watch,
                Ok(Err(why)) => return failed(&why),
                Err(error) => return failed(&error.to_string()),
            };
            announce(&bus, &changes).await;
            drop(watch);
        });
    }
}

impl Plugin for FileWatcher {
    fn name(&self) -> &'static str {
        "file-watcher"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        self.clone().watch(scope, |_| ());
        Ok(())
    }
}

/// Changes of one file that wait to be announced.
struct Waiting {
    first: Instant,
    last: Instant,
}

impl Waiting {
    fn announce_at(&self) -> Instant {
        (self.last + DEBOUNCE).min(self.first + MAX_DELAY)
    }
}

/// Changed files that wait to be announced, at most [`MAX_WAITING_FILES`].
#[derive(Default)]
struct Changes {
    waiting: Mutex<HashMap<PathBuf, Waiting>>,
    added: Notify,
}

impl Changes {
    fn waiting(&self) -> MutexGuard<'_, HashMap<PathBuf, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, path: &Path) {
        let now = Instant::now();
        let mut waiting = self.waiting();
        if let Some(known) = waiting.get_mut(path) {
            // Only delays the announcement, so that nobody has to wake up.
            known.last = now;
        } else if waiting.len() < MAX_WAITING_FILES {
            waiting.insert(path.to_owned(), Waiting { first: now, last: now });
            self.added.notify_one();
        }
    }

    /// Removes the files that are due, and returns them in order.
    fn take_due(&self) -> Vec<PathBuf> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        let mut due: Vec<PathBuf> =
            waiting.extract_if(|_, file| file.announce_at() <= now).map(|(path, _)| path).collect();
        due.sort();
        due
    }
}

/// Announces changed files until the task is dropped.
async fn announce(bus: &Bus, changes: &Changes) {
    loop {
        let due = changes.waiting().values().map(Waiting::announce_at).min();
        match due {
            None => changes.added.notified().await,
            Some(due) => tokio::select! {
                () = changes.added.notified() => {}
                () = sleep_until(due) => emit_changes(bus, changes.take_due()).await,
            },
        }
    }
}

async fn emit_changes(bus: &Bus, due: Vec<PathBuf>) {
    for path in due {
        let change = match tokio::fs::symlink_metadata(&path).await {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => FileChange::Written,
            Err(_) => FileChange::Removed,
        };
        // A failing subscriber is reported by the bus.
        let _ = bus.cx().emit(FileChanged { path, change }).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use zk_core::kernel::Cx;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_changes_of_a_file_are_one_once_it_is_quiet_and_a_restless_one_is_not_held_back_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let (busy, short, gone) =
            (dir.path().join("busy"), dir.path().join("short"), dir.path().join("gone"));
        std::fs::write(&busy, "1").unwrap();
        std::fs::write(&short, "1").unwrap();
        let bus = Bus::new();
        let (began, seen) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let kept = seen.clone();
        bus.scope("test").on_sync(move |changed: &FileChanged, _: &Cx| {
            let name = changed.path.file_name().unwrap().to_string_lossy().into_owned();
            kept.lock().unwrap().push((name, changed.change, began.elapsed().as_millis() / 100));
        });
        let changes = Changes::default();
        let writing = async {
            for step in 0..60 {
                changes.add(&busy);
                if step < 3 {
                    changes.add(&short);
                    changes.add(&gone);
                    changes.add(dir.path());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            () = announce(&bus, &changes) => {}
            () = writing => {}
        }
        let seen = seen.lock().unwrap().clone();
        let of = |name: &str| {
            seen.iter().filter(|row| row.0 == name).map(|row| (row.1, row.2)).collect::<Vec<_>>()
        };
        assert_eq!(of("short"), [(FileChange::Written, 4)]);
        assert_eq!(of("gone"), [(FileChange::Removed, 4)]);
        assert_eq!(of("busy"), [(FileChange::Written, 50), (FileChange::Written, 61)]);
        assert_eq!(seen.len(), 4, "a directory is no file: {seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_come_while_a_subscriber_is_slow_are_held_once_and_up_to_the_limit() {
        let changes = Changes::default();
        for _ in 0..3 {
            for n in 0..MAX_WAITING_FILES + 5 {
                changes.add(Path::new(&n.to_string()));
            }
        }
        assert_eq!(changes.waiting().len(), MAX_WAITING_FILES);
        tokio::time::sleep(DEBOUNCE).await;
        assert_eq!(changes.take_due().len(), MAX_WAITING_FILES);
        assert!(changes.waiting().is_empty());
    }
}
