use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::model::RunId;
use zk_core::service::{Engine, EngineError, EngineName, EngineRun, Job, Legs, RunFilter, Schedule, Take};

use super::connection::{Connection, failed};
use super::source::STORED_FORMAT;
use super::{PostgresEngine, rows};

/// Handle to an engine for one tenant. Rows are read on a connection that row-level security binds to the tenant. Absurd's
/// procedures, which know no tenants, run on the connection of the engine, once that connection has seen the run.
pub(super) struct TenantEngine {
    engine: PostgresEngine,
    tenant: EngineName,
    bound: Connection,
}

impl TenantEngine {
    pub(super) fn new(engine: PostgresEngine, tenant: EngineName) -> Self {
        let bound = engine.0.of_tenant(&tenant);
        Self { engine, tenant, bound }
    }

    /// Checks that a run is one of the tenant.
    async fn check_own(&self, run: &RunId) -> Result<(), EngineError> {
        match self.list(&RunFilter::run(run.clone())).await?.is_empty() {
            false => Ok(()),
            true => Err(EngineError::UnknownRun(run.clone())),
        }
    }

    fn refuse(&self, doing: &'static str) -> EngineError {
        failed(doing, format!("the tenant `{}` may use its runs alone", self.tenant))
    }
}

#[async_trait]
impl Engine for TenantEngine {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        if job.tenant() != Some(&self.tenant) {
            return Err(self.refuse("submit the run"));
        }
        self.engine.submit(job).await
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        self.check_own(run).await?;
        self.engine.wake(run).await
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        self.check_own(run).await?;
        self.engine.cancel(run).await
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        rows::list_runs(&self.bound, filter, STORED_FORMAT).await
    }

    async fn schedule(&self, _: Schedule) -> Result<(), EngineError> {
        Err(self.refuse("set the schedule"))
    }

    async fn unschedule(&self, _: &EngineName) -> Result<bool, EngineError> {
        Err(self.refuse("remove the schedule"))
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        rows::list_schedules(&self.bound).await
    }

    async fn drain(&self, _: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        Err(self.refuse("drain the workers"))
    }

    async fn serve(&self, _: Take, _: Arc<dyn Legs>, _: CancellationToken) -> Result<(), EngineError> {
        Err(self.refuse("serve runs"))
    }
}
