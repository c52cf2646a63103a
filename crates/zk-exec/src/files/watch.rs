use std::path::Path;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use zk_core::service::{FileWatch, OnChange, PathError, Resolved};

use super::protect::Access;
use super::{WorkspaceFiles, io_error};

struct Watch {
    _watcher: RecommendedWatcher,
}

impl FileWatch for Watch {}

/// Calls `changed` for changes at `at` and below it. The reported paths start with `at`; callers that open
/// them do not follow a link that is put in between.
pub(super) fn watch(
    files: &WorkspaceFiles,
    at: &Resolved,
    changed: OnChange,
) -> Result<Box<dyn FileWatch>, PathError> {
    files.locate(at)?;
    files.check_protected(at, Access::Read)?;
    // A missing path cannot be watched.
    files.open_path("watch", at)?;
    let main = files.roots.first().map(|root| root.path.clone());
    let below = at.path.clone();
    let told = move |event: Result<Event, notify::Error>| {
        let Ok(event) = event else { return };
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        for path in event.paths.into_iter().filter(|path| path.starts_with(&below)) {
            changed(&Resolved { shown: shown(main.as_deref(), &path), path });
        }
    };
    let begin = |error: notify::Error| io_error("watch", &at.shown, std::io::Error::other(error));
    let mut watcher = notify::recommended_watcher(told).map_err(begin)?;
    watcher.watch(&at.path, RecursiveMode::Recursive).map_err(begin)?;
    Ok(Box::new(Watch { _watcher: watcher }))
}

fn shown(main: Option<&Path>, path: &Path) -> String {
    let below = main.and_then(|main| path.strip_prefix(main).ok());
    below.unwrap_or(path).display().to_string()
}
