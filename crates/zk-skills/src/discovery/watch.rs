//! Watches directories of skills, and searches again after changes, when no run is active.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use zk_core::kernel::Scope;
use zk_core::service::{FileWatch, Files, Resolved};

use crate::active::skills::Skills;

/// Time without changes before a search, since an editor writes several files in a row.
const QUIET_BEFORE_SEARCH: Duration = Duration::from_millis(500);

/// File service for directories of skills outside of the conversation's files, such as the person's own: a
/// service of the bus.
#[derive(Clone)]
pub struct SkillFiles(pub Arc<dyn Files>);

impl std::fmt::Debug for SkillFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SkillFiles").finish_non_exhaustive()
    }
}

/// Watches the directories of skills from the first search until `scope` ends. Directories that neither the
/// conversation's files nor [`SkillFiles`] reach, or that cannot be watched, are only searched with the next
/// run.
pub(crate) fn register(scope: &Scope, skills: &Skills) {
    let (skills, place) = (skills.clone(), scope.clone());
    scope.spawn(async move {
        let (sender, mut changes) = channel(1);
        let mut watches = Vec::new();
        loop {
            let Some(bus) = place.bus() else { return };
            let own = bus.service::<SkillFiles>().map(|files| files.0.clone());
            let files: Vec<Arc<dyn Files>> = bus.service::<dyn Files>().into_iter().chain(own).collect();
            if files.is_empty() {
                return;
            }
            if watch_new(&skills, &skills.cwd(&bus.cx()), &files, &sender, &mut watches).await {
                // Changes between the search and the start of the watch would be missed.
                skills.wait_until_idle().await;
                let _ = skills.reload_idle(&bus.cx()).await;
            }
            tokio::select! {
                is_open = quiet_after_change(&mut changes) => if !is_open { return },
                () = skills.wait_for_move() => {}
            }
            skills.wait_until_idle().await;
            // A failing handler is reported by the bus, and the previous set is kept.
            let _ = skills.reload_idle(&bus.cx()).await;
        }
    });
}

/// Watches directories that are new; returns whether there were any.
async fn watch_new(
    skills: &Skills,
    cwd: &Path,
    files: &[Arc<dyn Files>],
    sender: &Sender<()>,
    watches: &mut Vec<(PathBuf, Box<dyn FileWatch>)>,
) -> bool {
    watches.retain(|(dir, _)| dir.is_dir());
    let known: Vec<PathBuf> = watches.iter().map(|(dir, _)| dir.clone()).collect();
    let (files, cwd, sender) = (files.to_vec(), cwd.to_path_buf(), sender.clone());
    let dirs = skills.dirs();
    let begun = tokio::task::spawn_blocking(move || {
        let new = dirs.into_iter().filter(|dir| !known.contains(dir) && dir.is_dir());
        let watch = |dir: PathBuf| {
            let watch = files.iter().find_map(|files| {
                let at = files.resolve(&cwd, dir.to_str()?).ok()?;
                let sender = sender.clone();
                // One pending notification is enough.
                let changed = Arc::new(move |_: &Resolved| {
                    let _ = sender.try_send(());
                });
                files.watch(&at, changed).ok()
            });
            watch.map(|watch| (dir, watch))
        };
        new.filter_map(watch).collect::<Vec<_>>()
    });
    let begun = begun.await.unwrap_or_default();
    let is_any = !begun.is_empty();
    watches.extend(begun);
    is_any
}

/// Waits for a change and a quiet time after it. Returns false at the end of changes.
async fn quiet_after_change(changes: &mut Receiver<()>) -> bool {
    if changes.recv().await.is_none() {
        return false;
    }
    while let Ok(change) = timeout(QUIET_BEFORE_SEARCH, changes.recv()).await {
        if change.is_none() {
            return false;
        }
    }
    true
}
