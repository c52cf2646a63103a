//! Figures of the engine, printed with `--nocapture`. Sizes are checked; times depend on the machine, and are not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, EngineName, HandoverCause, Job, Lease, LegEnd, Legs, RunFilter, RunPhase, RunStatus, Take, Wait,
};
use zk_fleet::TemporalEngine;

use super::server::Server;

/// Maximum size in bytes of the history of a leg, and of a parked run.
const MAX_BYTES: u64 = 4096;

/// Number of runs and legs that are measured.
const COUNT: u32 = 20;

/// Legs that tell when they begin, and end as their run's name says.
struct Told(mpsc::UnboundedSender<(RunId, Instant)>);

#[async_trait]
impl Legs for Told {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let _ = self.0.send((job.run().clone(), Instant::now()));
        let run = job.run().as_str();
        if run.starts_with("r_held") {
            lease.draining().cancelled().await;
        } else if run.starts_with("r_parked") {
            return LegEnd::Parked(Wait::Mail);
        } else if run.starts_with("r_done") {
            return LegEnd::Done(RunStatus::Completed);
        }
        LegEnd::Handover(HandoverCause::Draining)
    }
}

async fn submit(engine: &TemporalEngine, run: &str) {
    engine.submit(Job::new(run.into(), SessionId::fresh()).unwrap()).await.unwrap();
}

async fn wait_for_phase(engine: &TemporalEngine, run: &str, phase: RunPhase) {
    loop {
        let found = engine.list(&RunFilter::run(run.into())).await.unwrap().pop().unwrap();
        if found.phase == phase {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn start(
    engine: &TemporalEngine,
    worker: &str,
    legs: &Arc<Told>,
) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let (engine, take, legs, stop) =
        (engine.clone(), Take::new(EngineName::new(worker).unwrap()), legs.clone(), CancellationToken::new());
    let stopped = stop.clone();
    (stop, tokio::spawn(async move { engine.serve(take, legs, stopped).await.unwrap() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_the_engine_on_temporal() {
    let Some(server) = Server::start().await else { return };
    let engine = server.engine(1);
    let (tell, mut begun) = mpsc::unbounded_channel();
    let legs = Arc::new(Told(tell));
    let (stop, first) = start(&engine, "first", &legs);
    submit(&engine, "r_done_warm").await;
    begun.recv().await.unwrap();

    let mut starts = Vec::new();
    for index in 0..COUNT {
        let run = format!("r_done{index}");
        let before = Instant::now();
        submit(&engine, &run).await;
        starts.push(begun.recv().await.unwrap().1 - before);
    }
    starts.sort();
    println!("submission to leg: p50 {:?}, worst {:?}", starts[starts.len() / 2], starts[starts.len() - 1]);

    submit(&engine, "r_parked").await;
    begun.recv().await.unwrap();
    wait_for_phase(&engine, "r_parked", RunPhase::Parked).await;
    let one = server.history_bytes(1, "r_parked");
    for _ in 0..COUNT {
        engine.wake(&"r_parked".into()).await.unwrap();
        begun.recv().await.unwrap();
        wait_for_phase(&engine, "r_parked", RunPhase::Parked).await;
    }
    let per_leg = (server.history_bytes(1, "r_parked") - one) / u64::from(COUNT);
    println!("history: {one} bytes of a run parked after its first leg, {per_leg} bytes of each further leg");
    assert!(one <= MAX_BYTES, "{one} bytes");
    assert!(per_leg <= MAX_BYTES, "{per_leg} bytes");

    submit(&engine, "r_held").await;
    begun.recv().await.unwrap();
    let (second_stop, second) = start(&engine, "second", &legs);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = Instant::now();
    stop.cancel();
    let next = begun.recv().await.unwrap().1;
    first.await.unwrap();
    println!("stop of a worker to the next leg: {:?}, to its end: {:?}", next - before, before.elapsed());

    let (third_stop, third) = start(&engine, "third", &legs);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = Instant::now();
    second.abort();
    let next = begun.recv().await.unwrap().1;
    println!(
        "death of a worker to the next leg: {:?}, with a lease of {:?}",
        next - before,
        Take::DEFAULT_LEASE
    );
    drop(second_stop);
    third_stop.cancel();
    third.await.unwrap();
}
