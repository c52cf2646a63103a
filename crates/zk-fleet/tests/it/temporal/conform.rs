//! The contract of engines, kept by the one on Temporal.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::model::RunId;
use zk_core::service::{Engine, EngineError, EngineName, EngineRun, Job, Legs, RunFilter, Schedule, Take};
use zk_fleet::TemporalEngine;
use zk_testkit::{EngineOptions, check_engine};

use super::server::Server;

/// Engine that returns from the submission of a run without a parent once the server lists it, as the engine itself does
/// with a child. The server's lists lag behind by some milliseconds.
struct Listed(TemporalEngine);

#[async_trait]
impl Engine for Listed {
    async fn submit(&self, job: Job) -> Result<(), EngineError> {
        let (run, is_child) = (job.run().clone(), job.parent().is_some());
        self.0.submit(job).await?;
        if is_child {
            return Ok(());
        }
        loop {
            let listed = self.0.list(&RunFilter::default()).await?;
            if listed.iter().any(|found| *found.job.run() == run) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        self.0.wake(run).await
    }

    async fn cancel(&self, run: &RunId) -> Result<(), EngineError> {
        self.0.cancel(run).await
    }

    async fn list(&self, filter: &RunFilter) -> Result<Vec<EngineRun>, EngineError> {
        self.0.list(filter).await
    }

    async fn schedule(&self, plan: Schedule) -> Result<(), EngineError> {
        self.0.schedule(plan.clone()).await?;
        while !self.0.schedules().await?.contains(&plan) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn unschedule(&self, name: &EngineName) -> Result<bool, EngineError> {
        self.0.unschedule(name).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, EngineError> {
        self.0.schedules().await
    }

    async fn drain(&self, worker: Option<&EngineName>) -> Result<Vec<EngineName>, EngineError> {
        self.0.drain(worker).await
    }

    async fn serve(
        &self,
        take: Take,
        legs: Arc<dyn Legs>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        self.0.serve(take, legs, stop).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_on_temporal_keeps_the_contract() {
    let Some(server) = Server::start().await else { return };
    let (dir, lease) = (server.dir(), Duration::from_secs(2));
    let options = EngineOptions { lease, stored: Some(Arc::new(move |_| Server::stored_bytes(&dir))) };
    let make = |place: u32| {
        let engine = server.engine(place).with_lease(lease);
        async move { Arc::new(Listed(engine)) as Arc<dyn Engine> }
    };
    let conformance = check_engine(make, &options).await;
    assert!(conformance.is_met(), "{conformance}");
    assert_eq!(conformance.passed.len(), 30, "{conformance}");
}
