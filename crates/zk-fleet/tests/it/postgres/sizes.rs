//! Size of what a run leaves in the database, and figures of legs, which are printed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Engine, EngineName, Job, Lease, LegEnd, Legs, RunFilter, RunPhase, RunStatus, Take, Wait,
};

use super::Server;

/// Maximum number of bytes that a parked run takes, and that a leg adds.
const MAX_BYTES: i64 = 4096;

const RUNS: usize = 200;

/// Bytes of the rows of all tables of both schemas, with their pages and indexes, after a rewrite.
fn stored_bytes(server: &Server, database: &str) -> i64 {
    server.sql(database, "VACUUM FULL").unwrap();
    let all = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname IN ('absurd', 'zk_fleet') AND c.relkind = 'r'";
    server.sql(database, all).unwrap().trim().parse().unwrap()
}

struct Ending(LegEnd);

#[async_trait]
impl Legs for Ending {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        self.0.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_run_and_a_leg_take_at_most_four_kilobytes() {
    let Some(server) = Server::start() else { return };
    server.prepare("sizes").await;
    let engine = server.engine("sizes");
    let serve = async |end: LegEnd| {
        let take = Take { once: true, max_legs: RUNS, ..Take::new(EngineName::new("w").unwrap()) };
        engine.serve(take, Arc::new(Ending(end)), CancellationToken::new()).await.unwrap();
    };
    // The first run makes the tables of its queue.
    engine.submit(super::job("r_first")).await.unwrap();
    serve(LegEnd::Done(RunStatus::Completed)).await;
    let before = stored_bytes(&server, "sizes");
    for index in 0..RUNS {
        engine.submit(super::job(&format!("r_{index}"))).await.unwrap();
    }
    serve(LegEnd::Parked(Wait::Mail)).await;
    let parked = stored_bytes(&server, "sizes");
    let runs = engine.list(&RunFilter::phases([RunPhase::Parked])).await.unwrap();
    assert_eq!(runs.len(), RUNS);
    let each = |bytes: i64| bytes / i64::try_from(RUNS).unwrap();
    for run in &runs {
        engine.wake(run.job.run()).await.unwrap();
    }
    serve(LegEnd::Parked(Wait::Mail)).await;
    let again = stored_bytes(&server, "sizes");
    println!("parked run: {} bytes, one more leg: {} bytes", each(parked - before), each(again - parked));
    assert!(each(parked - before) <= MAX_BYTES && each(again - parked) <= MAX_BYTES);
}

/// Legs that tell when they began, and end when they are drained.
struct Timed(Mutex<Vec<Instant>>);

#[async_trait]
impl Legs for Timed {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        self.0.lock().unwrap().push(Instant::now());
        if job.queue().is_none() {
            return LegEnd::Done(RunStatus::Completed);
        }
        lease.draining().cancelled().await;
        LegEnd::Handover(zk_core::service::HandoverCause::Draining)
    }
}

/// Prints the time from a submission to the beginning of its leg, and the times of a takeover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_legs() {
    let Some(server) = Server::start() else { return };
    server.prepare("figures").await;
    let engine = server.engine("figures");
    let start = |name: &str| {
        let (stop, legs) = (CancellationToken::new(), Arc::new(Timed(Mutex::default())));
        let take = Take { lease: Duration::from_secs(2), ..Take::new(EngineName::new(name).unwrap()) };
        let (engine, driven, stopped) = (server.engine("figures"), legs.clone(), stop.clone());
        let task = tokio::spawn(async move { engine.serve(take, driven, stopped).await });
        (task, legs, stop)
    };
    let (task, legs, stop) = start("first");
    let mut times = Vec::new();
    for index in 0..100 {
        let begun = Instant::now();
        engine.submit(super::job(&format!("r_{index}"))).await.unwrap();
        super::wait_for(async || legs.0.lock().unwrap().len() > index).await;
        times.push(legs.0.lock().unwrap()[index] - begun);
    }
    times.sort();
    println!("submission to leg: p50 {:?}, p95 {:?}, most {:?}", times[50], times[95], times[99]);

    let long = |run: &str| super::job(run).with_queue(EngineName::new("long").unwrap());
    engine.submit(long("r_long")).await.unwrap();
    super::wait_for(async || legs.0.lock().unwrap().len() == 101).await;
    let (next, next_legs, next_stop) = start("next");
    let begun = Instant::now();
    stop.cancel();
    super::wait_for(async || next_legs.0.lock().unwrap().len() == 1).await;
    println!("takeover from a worker that drains: {:?}", next_legs.0.lock().unwrap()[0] - begun);
    task.await.unwrap().unwrap();

    let (last, last_legs, last_stop) = start("last");
    let begun = Instant::now();
    next.abort();
    super::wait_for(async || last_legs.0.lock().unwrap().len() == 1).await;
    let time = last_legs.0.lock().unwrap()[0] - begun;
    println!("takeover from a worker that died, with a lease of 2 s: {time:?}");
    drop(next_stop);
    last_stop.cancel();
    last.await.unwrap().unwrap();
}
