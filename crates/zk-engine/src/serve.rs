pub(crate) mod bell;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, EngineName, LegEnd, Legs, StateLock, Take};

use self::bell::Bell;
use crate::clock::duration_ms;
use crate::local::LocalEngine;
use crate::worker::{LegId, LegSource, Looked, Renewal, TakenLeg, serve_legs};
use crate::{rows, schedules};

/// Serves legs until `stop` is cancelled or the worker is drained.
pub(crate) async fn serve(
    engine: &LocalEngine,
    take: Take,
    legs: Arc<dyn Legs>,
    stop: CancellationToken,
) -> Result<(), EngineError> {
    let _name = lock_name(engine, &take.worker).await?;
    let name = take.worker.clone();
    engine
        .write_transaction("begin to serve", move |conn| schedules::begin_worker(conn, &name).map(Ok))
        .await?;
    let name = take.worker.clone();
    let source = LocalSource { engine: engine.clone(), bell: Bell::open(&engine.workers_dir(), &name) };
    let served = serve_legs(Arc::new(source), take, legs, stop).await;
    let ended =
        engine.write_transaction("end serving", move |conn| schedules::end_worker(conn, &name).map(Ok)).await;
    // Other workers can take the legs that were handed over.
    engine.ring().await;
    served.and(ended)
}

async fn lock_name(engine: &LocalEngine, worker: &EngineName) -> Result<StateLock, EngineError> {
    let (files, path) = (engine.files().clone(), engine.lock_path(worker));
    let failed = |why: String| EngineError::Failed { doing: "lock the name of the worker", why };
    let locked = tokio::task::spawn_blocking(move || files.try_lock(&path)).await;
    let locked = locked.map_err(|error| failed(error.to_string()))?;
    locked.map_err(|error| failed(error.to_string()))?.ok_or_else(|| EngineError::NameTaken(worker.clone()))
}

/// Legs of a worker in the engine's file.
struct LocalSource {
    engine: LocalEngine,
    bell: Bell,
}

#[async_trait]
impl LegSource for LocalSource {
    async fn look(&self, take: &Take) -> Result<Looked, EngineError> {
        let take = take.clone();
        let looked = self.engine.read_transaction("look for work", move |conn| {
            Ok(Looked {
                is_draining: schedules::is_draining(conn, &take.worker)?,
                is_due: rows::is_work_due(conn, &take)?,
                cancelled: rows::cancelled_legs(conn, &take.worker)?,
            })
        });
        looked.await
    }

    async fn take_legs(&self, take: &Take, most: usize) -> Result<Vec<TakenLeg>, EngineError> {
        let take = take.clone();
        let taken = self.engine.write_transaction("take runs", move |conn| {
            if let Err(error) = schedules::submit_due(conn)? {
                return Ok(Err(error));
            }
            rows::take_runs(conn, &take, most)
        });
        taken.await
    }

    async fn renew_leases(
        &self,
        legs: Vec<LegId>,
        lease: Duration,
    ) -> Result<Vec<(LegId, Renewal)>, EngineError> {
        let length = duration_ms(lease);
        let renewed = self.engine.write_transaction("renew leases", move |conn| {
            let renew = |leg| Ok((rows::renew_lease(conn, &leg, length)?, leg));
            let renewed = legs.into_iter().map(renew).collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(Ok(renewed.into_iter().map(|(renewal, leg)| (leg, renewal)).collect()))
        });
        renewed.await
    }

    async fn end_leg(&self, leg: &LegId, end: &LegEnd) -> Result<(), EngineError> {
        let (leg, end) = (leg.clone(), end.clone());
        let ended = self
            .engine
            .write_transaction("record the end of a leg", move |conn| rows::end_leg(conn, &leg, &end));
        ended.await.map(|_| ())
    }

    async fn wait(&self) {
        self.bell.wait().await;
    }
}
