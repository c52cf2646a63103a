//! Workflows of runs with many legs, and locations that lead nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::model::SessionId;
use zk_core::service::{
    Engine, EngineError, EngineName, HandoverCause, Job, JobParent, Lease, LegEnd, Legs, RunFilter, RunPhase,
    RunStatus, Take, Wait,
};
use zk_fleet::TemporalEngine;

use super::server::Server;

/// Number of legs of the run.
const LEGS: usize = 8;

/// Longest time until a run is taken. A long poll takes twice that.
const TAKE_LIMIT: Duration = Duration::from_secs(15);

/// Legs that are handed over, until the last one.
struct Handovers(AtomicUsize);

#[async_trait]
impl Legs for Handovers {
    async fn leg(&self, _job: &Job, _lease: Lease) -> LegEnd {
        if self.0.fetch_add(1, Ordering::SeqCst) + 1 == LEGS {
            return LegEnd::Done(RunStatus::Completed);
        }
        LegEnd::Handover(HandoverCause::Draining)
    }
}

fn once(worker: &str) -> Take {
    Take { once: true, ..Take::new(EngineName::new(worker).unwrap()) }
}

/// A history that begins anew keeps the job, the tokens and the count of legs, and stays one run in lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_many_legs_is_one_run() {
    let Some(server) = Server::start().await else { return };
    let engine = server.engine(1).with_legs_per_execution(3);
    let job = Job::new("r_many".into(), SessionId::fresh()).unwrap().with_priority(3);
    engine.submit(job.clone()).await.unwrap();
    let before = engine.list(&RunFilter::run(job.run().clone())).await.unwrap().pop().unwrap();
    // A run is as old as its submission, not as its first leg.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let legs = Arc::new(Handovers(AtomicUsize::new(0)));
    engine.serve(once("w"), legs.clone(), CancellationToken::new()).await.unwrap();
    let listed = engine.list(&RunFilter::default()).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let run = &listed[0];
    assert_eq!((run.phase, run.legs, &run.job), (RunPhase::Done, LEGS as u64, &job), "{run:?}");
    assert_eq!(run.submitted.duration_since(before.submitted).unwrap_or_default().as_secs(), 0);
    assert!(run.token > LEGS as u64);
    engine.submit(job).await.unwrap();
    assert_eq!(engine.list(&RunFilter::default()).await.unwrap().len(), 1);
}

fn job(run: &str) -> Job {
    Job::new(run.into(), SessionId::fresh()).unwrap()
}

fn child(run: &str, parent: &str) -> Job {
    job(run).with_parent(JobParent { run: parent.into(), call: "c".into() }).unwrap()
}

/// A run below a cancelled one is cancelled, though the run between is not yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_sees_the_cancellation_of_all_above_it() {
    let Some(server) = Server::start().await else { return };
    let engine = server.engine(1);
    engine.submit(job("r_top")).await.unwrap();
    engine.submit(child("r_middle", "r_top")).await.unwrap();
    server.terminate(1, "r_top");
    engine.submit(child("r_leaf", "r_middle")).await.unwrap();
    assert_phases(&engine, [("r_middle", RunPhase::Queued), ("r_leaf", RunPhase::Cancelled)]).await;
}

/// A cancellation also reaches a run whose parent is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_reaches_runs_below_finished_ones() {
    let Some(server) = Server::start().await else { return };
    let engine = server.engine(1);
    for job in [job("r_top"), child("r_middle", "r_top"), child("r_leaf", "r_middle"), job("r_other")] {
        engine.submit(job).await.unwrap();
    }
    server.terminate(1, "r_middle");
    engine.cancel(&"r_top".into()).await.unwrap();
    assert_phases(&engine, [("r_leaf", RunPhase::Cancelled), ("r_other", RunPhase::Queued)]).await;
}

async fn assert_phases(engine: &TemporalEngine, phases: [(&str, RunPhase); 2]) {
    for (run, phase) in phases {
        let found = engine.list(&RunFilter::run(run.into())).await.unwrap();
        assert_eq!(found[0].phase, phase, "{found:?}");
    }
}

/// Legs that wait for mail.
struct Parks;

#[async_trait]
impl Legs for Parks {
    async fn leg(&self, _job: &Job, _lease: Lease) -> LegEnd {
        LegEnd::Parked(Wait::Mail)
    }
}

async fn submit_to(engine: &TemporalEngine, run: &str, queue: &str) {
    let job = Job::new(run.into(), SessionId::fresh()).unwrap().with_queue(EngineName::new(queue).unwrap());
    engine.submit(job).await.unwrap();
}

async fn wait_until_parked(engine: &TemporalEngine, run: &str) {
    while engine.list(&RunFilter::run(run.into())).await.unwrap()[0].phase != RunPhase::Parked {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A worker with more queues than places takes a run within a few seconds, though polls of other queues have the places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_does_not_wait_for_long_polls_of_others() {
    let Some(server) = Server::start().await else { return };
    let engine = server.engine(1);
    let (take, stop) =
        (Take { max_legs: 4, ..Take::new(EngineName::new("w").unwrap()) }, CancellationToken::new());
    let (served, stopped) = (engine.clone(), stop.clone());
    let worker = tokio::spawn(async move { served.serve(take, Arc::new(Parks), stopped).await });
    let queues = ["default", "q1", "q2", "q3", "q4", "q5"];
    for queue in queues {
        submit_to(&engine, queue, queue).await;
    }
    for queue in queues {
        wait_until_parked(&engine, queue).await;
    }
    for run in ["first", "second", "third"] {
        submit_to(&engine, run, Take::DEFAULT_QUEUE).await;
        tokio::time::timeout(TAKE_LIMIT, wait_until_parked(&engine, run)).await.unwrap();
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}

/// A server that is not there, and a namespace that does not exist, are errors that say what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_location_is_a_clear_error() {
    let gone = TemporalEngine::new("temporal://127.0.0.1:9/zk".parse().unwrap());
    let error = gone.list(&RunFilter::default()).await.unwrap_err().to_string();
    assert!(error.contains("temporal://127.0.0.1:9/zk") && error.contains("running"), "{error}");
    let Some(server) = Server::start().await else { return };
    let missing = TemporalEngine::new(server.location(77).parse().unwrap());
    let job = Job::new("r_1".into(), SessionId::fresh()).unwrap();
    let legs = Arc::new(Handovers(AtomicUsize::new(0)));
    let errors: [EngineError; 4] = [
        missing.submit(job).await.unwrap_err(),
        missing.wake(&"r_1".into()).await.unwrap_err(),
        missing.list(&RunFilter::default()).await.unwrap_err(),
        missing.serve(once("w"), legs, CancellationToken::new()).await.unwrap_err(),
    ];
    for error in errors {
        let error = error.to_string();
        assert!(error.contains("namespace create -n n77"), "{error}");
    }
}
