//! Thread for the workflows of a worker. Their futures stay on one thread.

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use std::pin::pin;
use std::time::Duration;

use temporalio_client::{Client, ClientOptions};
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use zk_core::service::EngineError;

use super::flow::RunFlow;
use super::server::{Server, Target};

/// Time for which the steps of a run are kept for the worker that made the last one.
const STICKY_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of workflows of a queue that stay in memory.
const MAX_CACHED: usize = 500;

/// Time for the steps that are under way when a worker stops.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Workflows of a worker. Dropping it ends them at once, as a kill would.
pub(super) struct Flows {
    queues: mpsc::UnboundedSender<String>,
    ended: oneshot::Receiver<Result<(), EngineError>>,
    stop: CancellationToken,
    _killed: DropGuard,
}

impl Flows {
    /// Starts the thread, without a queue.
    pub(super) fn start(target: Target, worker: String) -> Result<Self, EngineError> {
        let (queues, added) = mpsc::unbounded_channel();
        let (told, ended) = oneshot::channel();
        let (stop, killed) = (CancellationToken::new(), CancellationToken::new());
        let (stopped, dropped) = (stop.clone(), killed.clone());
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let served = runtime.map_err(|error| failed(&error)).and_then(|runtime| {
                runtime.block_on(async {
                    let serving = serve_flows(&target, &worker, added, stopped);
                    dropped.run_until_cancelled(serving).await.unwrap_or(Ok(()))
                })
            });
            let _ = told.send(served);
        };
        std::thread::Builder::new().name("zk-flows".to_owned()).spawn(run).map_err(|error| failed(&error))?;
        Ok(Self { queues, ended, stop, _killed: killed.drop_guard() })
    }

    /// Adds the workflows of a task queue.
    pub(super) fn add_queue(&self, queue: String) {
        // A thread that has ended is found by `ended`.
        let _ = self.queues.send(queue);
    }

    /// Waits until the workflows end, which without a stop is an error.
    pub(super) async fn ended(&mut self) -> Result<(), EngineError> {
        (&mut self.ended).await.unwrap_or_else(|_| Err(failed(&"its thread broke off")))
    }

    /// Stops: steps that are under way are reported first.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(STOP_LIMIT, self.ended()).await;
    }
}

fn failed(why: &dyn std::fmt::Display) -> EngineError {
    EngineError::Failed { doing: "serve Temporal's workflows", why: why.to_string() }
}

async fn serve_flows(
    target: &Target,
    worker: &str,
    mut added: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
) -> Result<(), EngineError> {
    let server = Server::connect(target, Some(worker)).await?;
    let options = RuntimeOptions::builder().heartbeat_interval(None).build().map_err(|why| failed(&why))?;
    let runtime = Runtime::from_current_tokio(options).map_err(|error| failed(&error))?;
    let mut serving = FuturesUnordered::new();
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            queue = added.recv() => queue,
            Some(ended) = serving.next() => return ended,
        };
        let Some(queue) = next else { break };
        let client = Client::new(server.connection().clone(), ClientOptions::new(server.namespace()).build());
        let client = client.map_err(|error| failed(&error))?;
        let options = WorkerOptions::new(queue)
            .sticky_queue_schedule_to_start_timeout(STICKY_LIMIT)
            .max_cached_workflows(MAX_CACHED)
            .client_identity_override(worker.to_owned())
            .register_workflow::<RunFlow>()
            .map_err(|error| failed(&error))?
            .build();
        let mut worker = Worker::new(&runtime, client, options).map_err(|error| failed(&error))?;
        let stop = stop.clone();
        serving.push(async move {
            let shut_down = worker.shutdown_handle();
            let stopped = pin!(stop.cancelled());
            match select(pin!(worker.run()), stopped).await {
                Either::Left((ended, _)) => ended.map_err(|error| failed(&error)),
                Either::Right(((), running)) => {
                    shut_down();
                    running.await.map_err(|error| failed(&error))
                }
            }
        });
    }
    while let Some(ended) = serving.next().await {
        ended?;
    }
    Ok(())
}
