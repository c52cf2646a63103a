use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::Transaction;
use tokio_util::sync::CancellationToken;
use zk_core::model::RunId;
use zk_core::service::{
    Engine, EngineError, EngineHealth, EngineName, EngineRun, Job, Legs, RunFilter, Schedule, StateFiles,
    Take, UnreadableEntry, WorkerHealth,
};

use crate::file::EngineFile;
use crate::serve::{self, bell};
use crate::{rows, schedules};

/// Name of the engine's file in its directory.
const FILE_NAME: &str = "runs.db";

/// Name of the directory with the locks and sockets of the workers.
const WORKERS_DIR: &str = "workers";

/// Engine of one machine: runs, leases and schedules in one SQLite file, which several worker processes share.
///
/// A lease holds for 10 seconds by a clock that nobody sets, and is renewed. The run of a dead worker goes on elsewhere once its
/// lease has ended, or at once when a worker of the same name starts. Finished runs stay listed for 30 days.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path().join("engine");
/// use std::sync::Arc;
/// use zk_core::model::{RunId, SessionId};
/// use zk_core::service::{Engine, Job, RunFilter};
/// use zk_engine::LocalEngine;
/// use zk_exec::LocalStateFiles;
///
/// let engine = LocalEngine::new(dir, Arc::new(LocalStateFiles::default()));
/// engine.submit(Job::new(RunId::fresh(), SessionId::fresh())?).await?;
/// assert_eq!(engine.list(&RunFilter::default()).await?.len(), 1);
/// # Ok::<(), zk_core::service::EngineError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct LocalEngine(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
    file: Mutex<Option<EngineFile>>,
}

impl fmt::Debug for LocalEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEngine").field("dir", &self.0.dir).finish_non_exhaustive()
    }
}

impl LocalEngine {
    /// Creates the engine in the directory `dir`, which need not exist. `files` locks the names of workers.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self(Arc::new(Shared { dir: dir.into(), files, file: Mutex::default() }))
    }

    /// Returns the path of the engine's file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.dir.join(FILE_NAME)
    }

    pub(crate) fn workers_dir(&self) -> PathBuf {
        self.0.dir.join(WORKERS_DIR)
    }

    pub(crate) fn files(&self) -> &Arc<dyn StateFiles> {
        &self.0.files
    }

    /// Returns the path whose lock a worker of this name holds.
    pub(crate) fn lock_path(&self, worker: &EngineName) -> PathBuf {
        self.workers_dir().join(format!("{worker}.worker"))
    }

    /// Runs `change` in one write transaction on a blocking thread.
    pub(crate) async fn write_transaction<T: Send + 'static>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.with_file(doing, move |file| file.write_transaction(doing, change)).await
    }

    /// Runs `read` in one read transaction on a blocking thread.
    pub(crate) async fn read_transaction<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.with_file(doing, move |file| file.read_transaction(doing, read)).await
    }

    async fn with_file<T: Send + 'static>(
        &self,
        doing: &'static str,
        act: impl FnOnce(&mut EngineFile) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let engine = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut file = engine.0.file.lock().unwrap_or_else(PoisonError::into_inner);
            if file.is_none() {
                *file = Some(EngineFile::open(&engine.path())?);
            }
            let Some(open) = file.as_mut() else { return Err(shutdown_error(doing)) };
            let done = act(open);
            if let Err(EngineError::Lost { .. } | EngineError::Damaged { .. }) = &done {
                *file = None;
            }
            done
        });
        task.await.map_err(|_| shutdown_error(doing))?
    }

    /// Wakes the workers of this machine, because the file has work.
    pub(crate) async fn ring(&self) {
        let dir = self.workers_dir();
        let _ = tokio::task::spawn_blocking(move || bell::ring(&dir)).await;
    }
}

fn shutdown_error(doing: &'static str) -> EngineError {
    EngineError::Failed { doing, why: "the program is ending".to_owned() }
}

/// Whether no process holds the lock of `path`.
fn is_free(files: &dyn StateFiles, path: &Path) -> bool {
    files.try_lock(path).is_ok_and(|lock| lock.is_some())
}

#[async_trait]
impl Engine for LocalEngine {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        self.write_transaction("submit the run", move |conn| rows::submit_run(conn, &job)).await?;
        self.ring().await;
        Ok(())
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        let run = run.clone();
        self.write_transaction("wake the run", move |conn| rows::wake_run(conn, &run)).await?;
        self.ring().await;
        Ok(())
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        let run = run.clone();
        self.write_transaction("cancel the run", move |conn| rows::cancel_run(conn, &run)).await?;
        self.ring().await;
        Ok(())
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        let filter = filter.clone();
        self.read_transaction("list the runs", move |conn| rows::list_runs(conn, &filter)).await
    }

    async fn unreadable(&self) -> Result<Vec<UnreadableEntry>, EngineError> {
        self.read_transaction("list the runs", |conn| {
            let mut found = rows::list_unreadable(conn)?;
            found.extend(schedules::list_unreadable(conn)?);
            Ok(found)
        })
        .await
    }

    async fn health(&self) -> Result<EngineHealth, EngineError> {
        let engine = self.clone();
        self.read_transaction("look at the engine", move |conn| {
            let (legs, expired_leases) = rows::count_legs(conn)?;
            let mut workers = Vec::new();
            for name in schedules::list_workers(conn)? {
                let is_alive = !is_free(&**engine.files(), &engine.lock_path(&name));
                let is_draining = schedules::is_draining(conn, &name)?;
                let legs = legs.get(name.as_str()).copied().unwrap_or_default();
                workers.push(WorkerHealth { name, is_alive, is_draining, legs });
            }
            let version = format!("local engine on SQLite {}", rusqlite::version());
            let place = engine.path().display().to_string();
            Ok(EngineHealth { version, place, clock: None, workers, expired_leases })
        })
        .await
    }

    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError> {
        self.write_transaction("store the schedule", move |conn| schedules::put_schedule(conn, &plan)).await
    }

    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError> {
        let name = name.clone();
        self.write_transaction("remove the schedule", move |conn| {
            schedules::remove_schedule(conn, &name).map(Ok)
        })
        .await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        self.read_transaction("list the schedules", |conn| schedules::list_schedules(conn)).await
    }

    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        let (wanted, engine) = (worker.cloned(), self.clone());
        let asked = self
            .write_transaction("drain the workers", move |conn| {
                let mut asked = Vec::new();
                for name in schedules::list_workers(conn)? {
                    if wanted.as_ref().is_some_and(|wanted| *wanted != name) {
                        continue;
                    }
                    if is_free(&**engine.files(), &engine.lock_path(&name)) {
                        // The worker's process ended without removing its entry.
                        schedules::end_worker(conn, &name)?;
                    } else {
                        schedules::ask_to_drain(conn, &name)?;
                        asked.push(name);
                    }
                }
                Ok(Ok(asked))
            })
            .await?;
        self.ring().await;
        Ok(asked)
    }

    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        serve::serve(self, take, legs, stop).await
    }
}
