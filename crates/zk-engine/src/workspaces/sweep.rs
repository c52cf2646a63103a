use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zk_core::model::RunId;
use zk_core::service::{Engine, EngineError, RunFilter, WorkspaceError};

use super::kept::{KeptWorkspaces, TREE, blocking, in_state};

/// Age at which a worker removes the directory of a run: the time since the run was over or, of a run that the engine does not
/// list, since the directory was begun.
pub const KEPT_DIRECTORY_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Interval between two sweeps of a worker.
const SWEEP_INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// Suffix of the lock of a run's directory.
const LOCK_SUFFIX: &str = ".lock";

impl KeptWorkspaces {
    /// Removes old directories of runs that are over: now, and every six hours. Never returns. `log` writes a line into the log
    /// of the worker.
    pub async fn keep_swept(&self, engine: &dyn Engine, log: impl Fn(&str)) {
        loop {
            match self.sweep(engine, KEPT_DIRECTORY_AGE).await {
                Ok(0) => {}
                Ok(count) => log(&format!("removed the files of {count} runs that are over")),
                Err(error) => log(&format!("old files of runs stay: {error}")),
            }
            tokio::time::sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Removes the directories of runs that have been over for `age`, and those as old of runs that the engine does not list.
    /// Returns the number of directories. A directory that a leg works in stays.
    ///
    /// # Errors
    /// [`WorkspaceError`] when the directories cannot be listed or the engine cannot be asked.
    pub async fn sweep(&self, engine: &dyn Engine, age: Duration) -> Result<usize, WorkspaceError> {
        let root = self.root.clone();
        let found = blocking(move || list_directories(&root)).await?;
        let mut removed = 0;
        for (run, begun) in found {
            let listed = engine.list(&RunFilter::run(run.clone())).await;
            let asked = |error: EngineError| WorkspaceError::io("sweep", &self.root, error);
            let since = match listed.map_err(asked)?.pop() {
                Some(listed) if listed.phase.is_finished() => listed.changed,
                Some(_) => continue,
                None => begun,
            };
            if SystemTime::now().duration_since(since).is_ok_and(|passed| passed >= age) {
                removed += usize::from(self.remove(&run).await?);
            }
        }
        Ok(removed)
    }

    /// Removes the directory of a run; false if a leg works in it.
    async fn remove(&self, run: &RunId) -> Result<bool, WorkspaceError> {
        let (home, lock_at) = (self.root.join(run.as_str()), self.root.join(format!("{run}{LOCK_SUFFIX}")));
        let (files, at) = (self.files.clone(), lock_at.clone());
        let locked = blocking(move || files.try_lock(&at).map_err(|error| in_state(&at, &error))).await?;
        let Some(lock) = locked else { return Ok(false) };
        self.store.forget(&home.join(TREE)).await;
        blocking(move || {
            remove_tree(&home)?;
            let _ = std::fs::remove_file(lock_at);
            drop(lock);
            Ok(true)
        })
        .await
    }
}

/// Lists the directories of runs with the times at which they were begun.
fn list_directories(root: &Path) -> Result<Vec<(RunId, SystemTime)>, WorkspaceError> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(WorkspaceError::io("list", root, error)),
    };
    let directory = |path: PathBuf| {
        let found = path.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
        Some((RunId::from(path.file_name()?.to_str()?), found.modified().ok()?))
    };
    Ok(entries.flatten().filter_map(|entry| directory(entry.path())).collect())
}

fn remove_tree(home: &Path) -> Result<(), WorkspaceError> {
    match std::fs::remove_dir_all(home) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(WorkspaceError::io("remove", home, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use tokio_util::sync::CancellationToken;
    use zk_core::service::{
        Checkpoint, CheckpointOf, EngineName, Job, Lease, LegEnd, Legs, RunStatus, StateFiles, Take, Wait,
        WorkspaceRef, Workspaces,
    };
    use zk_exec::LocalStateFiles;

    use super::*;
    use crate::LocalEngine;

    struct Nowhere;

    #[async_trait]
    impl Workspaces for Nowhere {
        fn kind(&self) -> &'static str {
            "nowhere"
        }

        async fn checkpoint(&self, dir: &Path, _: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
            Err(WorkspaceError::io("keep", dir, "it is nowhere"))
        }

        async fn materialise(&self, _: &WorkspaceRef, dir: &Path) -> Result<(), WorkspaceError> {
            Err(WorkspaceError::io("bring", dir, "it is nowhere"))
        }
    }

    struct Ending;

    #[async_trait]
    impl Legs for Ending {
        async fn leg(&self, job: &Job, _: Lease) -> LegEnd {
            match job.run().as_str() {
                "r_parked" => LegEnd::Parked(Wait::Mail),
                _ => LegEnd::Done(RunStatus::Completed),
            }
        }
    }

    #[tokio::test]
    async fn old_directories_of_runs_that_are_over_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, files) = (dir.path().join("runs"), Arc::new(LocalStateFiles::default()));
        let engine = LocalEngine::new(dir.path().join("engine"), files.clone());
        for run in ["r_parked", "r_over", "r_used"] {
            engine.submit(Job::new(run.into(), format!("s_{run}").as_str().into()).unwrap()).await.unwrap();
        }
        let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
        engine.serve(take, Arc::new(Ending), CancellationToken::new()).await.unwrap();
        engine.submit(Job::new("r_queued".into(), "s_queued".into()).unwrap()).await.unwrap();
        for run in ["r_parked", "r_over", "r_used", "r_queued", "r_unknown"] {
            zk_core::service::make_private_dir(&root.join(run)).unwrap();
            std::fs::write(root.join(run).join("file"), run).unwrap();
        }
        let kept = KeptWorkspaces::new(Arc::new(Nowhere), &root, files.clone());
        assert_eq!(kept.sweep(&engine, KEPT_DIRECTORY_AGE).await.unwrap(), 0);
        let used = files.try_lock(&root.join("r_used.lock")).unwrap().unwrap();
        assert_eq!(kept.sweep(&engine, Duration::ZERO).await.unwrap(), 2);
        let left = || {
            let found = list_directories(&root).unwrap().into_iter();
            let mut runs: Vec<String> = found.map(|(run, _)| run.to_string()).collect();
            runs.sort();
            runs
        };
        assert_eq!(left(), ["r_parked", "r_queued", "r_used"]);
        drop(used);
        assert_eq!(kept.sweep(&engine, Duration::ZERO).await.unwrap(), 1);
        assert_eq!(left(), ["r_parked", "r_queued"]);
        // A worker without runs has no directory.
        let none = KeptWorkspaces::new(Arc::new(Nowhere), dir.path().join("none"), files);
        assert_eq!(none.sweep(&engine, Duration::ZERO).await.unwrap(), 0);
    }
}
