use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use zk_core::model::RunId;
use zk_core::service::{
    Engine, EngineError, EngineHealth, EngineName, EngineRun, Job, Legs, RunFilter, Schedule, Take,
    UnreadableEntry,
};

use super::location::TemporalLocation;
use super::order::RunTerms;
use super::server::{Server, Target};
use super::{changes, health, runs, schedules, serve, workers};

/// Number of legs after which a workflow continues as a new execution, unless set.
const LEGS_PER_EXECUTION: u64 = 500;

/// Engine of durable runs on a Temporal server: a workflow per run, an activity per leg. Clones share a connection, which is
/// made at the first use.
///
/// ```no_run
/// # async fn list() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::service::{Engine, RunFilter};
/// use zk_fleet::TemporalEngine;
///
/// let engine = TemporalEngine::new("temporal://127.0.0.1:7233/default".parse()?);
/// for run in engine.list(&RunFilter::unfinished()).await? {
///     println!("{} is {}", run.job.run(), run.phase);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TemporalEngine {
    target: Target,
    lease: Duration,
    legs_per_execution: u64,
    server: Arc<OnceCell<Server>>,
}

impl fmt::Debug for TemporalEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalEngine").field("location", &self.target.location).finish_non_exhaustive()
    }
}

impl TemporalEngine {
    /// Creates the engine of a namespace.
    #[must_use]
    pub fn new(location: TemporalLocation) -> Self {
        Self {
            target: Target { location, api_key: None },
            lease: Take::DEFAULT_LEASE,
            legs_per_execution: LEGS_PER_EXECUTION,
            server: Arc::default(),
        }
    }

    /// Sets the API key, which is sent with each call. A location without TLS sends it in clear.
    #[must_use]
    pub fn with_api_key(mut self, key: SecretString) -> Self {
        self.target.api_key = Some(key);
        self
    }

    /// Sets the time after which the leg of a silent worker goes to another, for runs that are submitted from now on. The
    /// lease in [`Take`] is that of the worker's name alone.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets the number of legs after which a run's history begins anew.
    #[must_use]
    pub fn with_legs_per_execution(self, legs: u64) -> Self {
        Self { legs_per_execution: legs.max(1), ..self }
    }

    /// Returns the location.
    #[must_use]
    pub fn location(&self) -> &TemporalLocation {
        &self.target.location
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    fn terms(&self) -> RunTerms {
        RunTerms { lease: self.lease, legs_per_execution: self.legs_per_execution }
    }

    /// Checks that the server can keep runs, and returns its version.
    pub(super) async fn check(&self) -> Result<String, EngineError> {
        Ok(self.health().await?.version)
    }

    async fn server(&self) -> Result<&Server, EngineError> {
        self.server.get_or_try_init(|| Server::connect(&self.target, None)).await
    }
}

#[async_trait]
impl Engine for TemporalEngine {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        changes::submit(self.server().await?, self.terms(), job).await
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        changes::wake(self.server().await?, run).await
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        changes::cancel(self.server().await?, run).await
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        let found = runs::list(self.server().await?, filter).await?;
        Ok(found.into_iter().map(|found| found.run).collect())
    }

    async fn unreadable(&self) -> Result<Vec<UnreadableEntry>, EngineError> {
        health::list_unreadable(self.server().await?).await
    }

    async fn health(&self) -> Result<EngineHealth, EngineError> {
        health::look(self.server().await?).await
    }

    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError> {
        schedules::put(self.server().await?, self.terms(), &plan).await
    }

    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError> {
        schedules::remove(self.server().await?, name).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        schedules::list(self.server().await?).await
    }

    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        workers::drain(self.server().await?, worker).await
    }

    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        serve::serve(self.target(), take, legs, stop).await
    }
}
