mod cron;
mod error;
mod health;
mod job;
mod lease;
mod name;
mod phase;
mod run;
mod schedule;
pub(in crate::service) mod unix_ms;

pub use cron::{CronError, CronLine};
pub use error::EngineError;
pub use health::{EngineHealth, WorkerHealth};
pub use job::{JOB_FORMAT, Job, JobParent, MAX_JOB_BYTES};
pub use lease::{Lease, Take};
pub use name::{EngineName, MAX_CALL_ID_BYTES, MAX_ENGINE_NAME_BYTES};
pub use phase::RunPhase;
pub use run::{
    EngineRun, HandoverCause, LegEnd, LegFailure, MAX_WAITED_CHILDREN, RunFilter, UnreadableEntry,
    UnreadableKind, Wait,
};
pub use schedule::{MIN_SCHEDULE_INTERVAL, Schedule, ScheduleTimes, ScheduledJob};

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::model::RunId;

/// Engine of durable runs: keeps runs alive when workers die, and assigns their legs to workers.
///
/// A *leg* is the stretch of a run on one worker. The engine stores ids alone; what was said and done is in
/// the log of the run's session. Runs are delivered at least once, and each leg has a larger token than all
/// legs of its session before, whichever run they are of: a store refuses the writes of earlier ones.
///
/// ```
/// use zk_core::model::{RunId, SessionId};
/// use zk_core::service::{Engine, EngineError, EngineName, Job, RunFilter};
///
/// async fn submit(engine: &dyn Engine, session: SessionId) -> Result<RunId, EngineError> {
///     let job = Job::new(RunId::fresh(), session)?.with_queue(EngineName::new("nightly")?);
///     engine.submit(job.clone()).await?;
///     engine.submit(job.clone()).await?; // The second time changes nothing.
///     assert_eq!(engine.list(&RunFilter::run(job.run().clone())).await?.len(), 1);
///     Ok(job.run().clone())
/// }
/// ```
#[async_trait]
pub trait Engine: Send + Sync {
    /// Adds a run. A job that is submitted again changes nothing. A session has at most one unfinished run, also of two
    /// that are submitted at the same moment, and of jobs in a format that this version cannot read.
    ///
    /// # Errors
    /// [`EngineError::OtherJob`] when the run exists with another job, [`EngineError::SessionTaken`], and when the engine
    /// cannot be used.
    async fn submit(&self, job: Job) -> Result<(), EngineError>;

    /// Wakes a parked run: its next leg begins soon. A run that is queued stays so; a running one has another leg if
    /// its present leg ends parked or done.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`], [`EngineError::Finished`], and when the engine cannot be used.
    async fn wake(&self, run: &RunId) -> Result<(), EngineError>;

    /// Cancels a run and all its descendants. A waiting run ends at once; the leg of a running one learns it
    /// from [`Lease::cancelled`]. A finished run stays unchanged.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`], and when the engine cannot be used.
    async fn cancel(&self, run: &RunId) -> Result<(), EngineError>;

    /// Lists runs in the order of their submission. Those that cannot be read are in [`Engine::unreadable`].
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError>;

    /// Returns a handle to the engine for one tenant, from which the engine's database hides the runs of other tenants.
    /// `None`, the default, for an engine without row-level security.
    fn of_tenant(&self, tenant: &EngineName) -> Option<Arc<dyn Engine>> {
        let _ = tenant;
        None
    }

    /// Lists the entries that this version cannot read; none by default.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn unreadable(&self) -> Result<Vec<UnreadableEntry>, EngineError> {
        Ok(Vec::new())
    }

    /// Returns the state of the engine itself, for a diagnosis; by default only that it can list runs.
    ///
    /// # Errors
    /// When the engine cannot be reached or used.
    async fn health(&self) -> Result<EngineHealth, EngineError> {
        self.list(&RunFilter { limit: Some(1), ..RunFilter::default() }).await?;
        Ok(EngineHealth::default())
    }

    /// Adds or replaces a schedule, by its name.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError>;

    /// Removes a schedule; returns whether there was one. Its runs stay.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError>;

    /// Lists the schedules by name.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError>;

    /// Asks a worker, or all of them, to end their legs with [`LegEnd::Handover`] and to stop serving. Returns the
    /// names of the workers that were asked.
    ///
    /// # Errors
    /// When the engine cannot be used.
    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError>;

    /// Serves legs until `stop` is cancelled or the worker is drained, and returns once all its legs have ended.
    ///
    /// # Errors
    /// [`EngineError::NameTaken`] when another worker of that name serves, and when the engine cannot be used.
    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError>;
}

/// Executor of legs, which a worker passes to [`Engine::serve`].
#[async_trait]
pub trait Legs: Send + Sync {
    /// Runs a leg until the run is done, parks, or goes to another worker. Ends soon after a token of `lease` is
    /// cancelled.
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd;
}
