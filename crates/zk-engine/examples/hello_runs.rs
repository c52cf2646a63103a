//! Submits three runs, serves them, and lists them.

use std::error::Error;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{Engine, EngineName, Job, Lease, LegEnd, Legs, RunFilter, RunStatus, Take};
use zk_engine::LocalEngine;
use zk_exec::LocalStateFiles;

struct Hello;

#[async_trait::async_trait]
impl Legs for Hello {
    async fn leg(&self, _job: &Job, _lease: Lease) -> LegEnd {
        LegEnd::Done(RunStatus::Completed)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let engine = LocalEngine::new(dir.path().join("engine"), Arc::new(LocalStateFiles::default()));
    for _ in 0..3 {
        engine.submit(Job::new(RunId::fresh(), SessionId::fresh())?).await?;
    }
    let take = Take { once: true, ..Take::new(EngineName::new("example")?) };
    engine.serve(take, Arc::new(Hello), CancellationToken::new()).await?;
    let runs = engine.list(&RunFilter::default()).await?;
    assert!(runs.iter().all(|run| run.phase.is_finished()));
    Ok(())
}
