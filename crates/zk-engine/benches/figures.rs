//! Figures of durable runs on one machine: `cargo bench -p zk-harness-engine`. Each is printed beside its bar.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that cannot go on stops")]
#![expect(clippy::print_stdout, reason = "figures are printed")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, EngineError, EngineName, HandoverCause, Job, Lease, LegEnd, LegFailure, Legs, Redactor,
    RunFilter, RunPhase, RunStatus, SessionStore, Take, Wait,
};
use zk_engine::{AgentLegs, LegAgent, LegOpener, LocalEngine, Placement, Runs};
use zk_exec::LocalStateFiles;
use zk_session::{MemoryStore, SqliteStore};
use zk_testkit::{Asked, IdleTool, Script, ScriptedProvider, Turn};

const SUBMISSIONS: usize = 100;
/// Turns of the run whose writes are measured.
const TURNS: usize = 200;
const CALLS_PER_TURN: usize = 3;
const ABORTS: usize = 40;
const PARKED_RUNS: usize = 1000;
const LEGS_PER_RUN: usize = 20;
const AGENTS: usize = 1000;
const TURNS_PER_AGENT: usize = 5;
const LEASE: Duration = Duration::from_secs(2);

fn engine_in(dir: &Path) -> LocalEngine {
    LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default()))
}

fn name(name: &str) -> EngineName {
    EngineName::new(name).unwrap()
}

fn new_job() -> Job {
    Job::new(RunId::fresh(), SessionId::fresh()).unwrap()
}

/// Legs that note when they began. One of the queue `long` lasts until its worker drains.
#[derive(Default)]
struct Timed(Mutex<Vec<Instant>>);

impl Timed {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    async fn began(&self, index: usize) -> Instant {
        loop {
            if let Some(began) = self.0.lock().unwrap().get(index) {
                return *began;
            }
            sleep(Duration::from_micros(200)).await;
        }
    }
}

#[async_trait]
impl Legs for Timed {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        self.0.lock().unwrap().push(Instant::now());
        if job.queue().is_none() {
            return LegEnd::Done(RunStatus::Completed);
        }
        lease.draining().cancelled().await;
        LegEnd::Handover(HandoverCause::Draining)
    }
}

/// A worker, its legs and what makes it drain.
struct Worker {
    task: JoinHandle<Result<(), EngineError>>,
    legs: Arc<Timed>,
    stop: CancellationToken,
}

impl Worker {
    fn start(dir: &Path, worker: &str) -> Self {
        let (engine, legs, stop) = (engine_in(dir), Arc::new(Timed::default()), CancellationToken::new());
        let take = Take { lease: LEASE, ..Take::new(name(worker)) };
        let (driven, stopped) = (legs.clone(), stop.clone());
        let task = tokio::spawn(async move { engine.serve(take, driven, stopped).await });
        Self { task, legs, stop }
    }
}

async fn starts_and_takeovers() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, first) = (engine_in(dir.path()), Worker::start(dir.path(), "first"));
    let mut times = Vec::new();
    for index in 0..SUBMISSIONS {
        let begun = Instant::now();
        engine.submit(new_job()).await.unwrap();
        times.push(first.legs.began(index).await - begun);
    }
    times.sort();
    let (half, most) = (times[SUBMISSIONS / 2], times[SUBMISSIONS * 95 / 100]);
    println!("submission to leg: p50 {half:.1?}, p95 {most:.1?}");

    engine.submit(new_job().with_queue(name("long"))).await.unwrap();
    first.legs.began(SUBMISSIONS).await;
    let next = Worker::start(dir.path(), "next");
    let begun = Instant::now();
    first.stop.cancel();
    let drained = next.legs.began(0).await - begun;
    println!("takeover from a worker that drains: {drained:.1?} (bar 1 s)");
    first.task.await.unwrap().unwrap();

    let last = Worker::start(dir.path(), "last");
    let begun = Instant::now();
    next.task.abort();
    let died = last.legs.began(0).await - begun;
    println!("takeover from a worker that died, lease {LEASE:?}: {died:.1?} (bar lease + 2 s)");
    last.stop.cancel();
    last.task.await.unwrap().unwrap();
    assert_eq!((first.legs.count(), next.legs.count()), (SUBMISSIONS + 1, 1));
}

struct Parking;

#[async_trait]
impl Legs for Parking {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        LegEnd::Parked(Wait::Mail)
    }
}

async fn sizes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine_in(dir.path());
    let serve = async || {
        let take = Take { once: true, max_legs: 64, ..Take::new(name("w")) };
        engine.serve(take, Arc::new(Parking), CancellationToken::new()).await.unwrap();
    };
    let bytes = || {
        let file = rusqlite::Connection::open(engine.path()).unwrap();
        let read = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        read("PRAGMA wal_checkpoint(TRUNCATE)");
        (read("PRAGMA page_size") * (read("PRAGMA page_count") - read("PRAGMA freelist_count"))) as f64
    };
    engine.submit(new_job()).await.unwrap();
    serve().await;
    let before = bytes();
    for _ in 0..PARKED_RUNS {
        engine.submit(new_job()).await.unwrap();
    }
    serve().await;
    let parked = bytes();
    println!("engine data of a parked run: {:.0} bytes (bar 4096)", (parked - before) / PARKED_RUNS as f64);
    for _ in 0..LEGS_PER_RUN {
        for run in engine.list(&RunFilter::phases([RunPhase::Parked])).await.unwrap() {
            engine.wake(run.job.run()).await.unwrap();
        }
        serve().await;
    }
    let legs = (PARKED_RUNS * LEGS_PER_RUN) as f64;
    println!("engine data of one more leg: {:.0} bytes (bar 4096)", (bytes() - parked) / legs);
}

/// Opener of agents with a scripted model and a tool that does nothing, which counts as one that may write.
struct Opener {
    store: Arc<dyn SessionStore>,
    script: Script,
}

struct Opened(Agent);

#[async_trait]
impl LegAgent for Opened {
    fn agent(&self) -> &Agent {
        &self.0
    }

    async fn close(self: Box<Self>) {
        self.0.close().await;
    }
}

#[async_trait]
impl LegOpener for Opener {
    async fn open(&self, job: &Job, lease: &Lease) -> Result<Box<dyn LegAgent>, LegEnd> {
        let failed = LegEnd::Failed(LegFailure::NoSession);
        let opened = self.store.open_leased(job.session(), lease).await.map_err(|_| failed.clone())?;
        let stored = zk_session::resume_leg(opened, job.run()).await.map_err(|_| failed)?;
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(self.script.clone())))
            .model_id("scripted")
            .tool(Arc::new(IdleTool::new("nothing")))
            .unguarded()
            .resume(stored)
            .build()
            .unwrap();
        Ok(Box::new(Opened(agent)))
    }
}

/// Answers of a model that makes calls in `turns` turns and ends.
fn calls_for(turns: usize, told: impl Fn() + Send + Sync + 'static) -> Script {
    Script::answering(move |asked: &Asked| {
        told();
        if asked.number > turns {
            return Turn::new().text("done");
        }
        // Arguments differ, since repeated calls would stop the run.
        let args = |call| json!({ "call": asked.number * CALLS_PER_TURN + call });
        (0..CALLS_PER_TURN).fold(Turn::new(), |turn, call| turn.call("nothing", args(call)))
    })
}

/// Runs agents in the legs of one worker.
async fn run_agents(dir: &Path, store: Arc<dyn SessionStore>, script: Script, agents: usize) {
    let engine = Arc::new(engine_in(dir));
    let runs = Runs::new(engine.clone(), store.clone(), Arc::new(Redactor::new()));
    for _ in 0..agents {
        runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    }
    let legs = AgentLegs::new(Arc::new(Opener { store, script })).with_runs(runs.clone());
    let take = Take { once: true, max_legs: agents, ..Take::new(name("w")) };
    engine.serve(take, Arc::new(legs), CancellationToken::new()).await.unwrap();
    let done = engine.list(&RunFilter::phases([RunPhase::Done])).await.unwrap();
    assert_eq!(done.len(), agents);
}

/// Median time of a turn with calls, whose session is in `store`.
async fn turn_time(dir: &Path, store: Arc<dyn SessionStore>) -> Duration {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = asked.clone();
    let script = calls_for(TURNS, move || told.lock().unwrap().push(Instant::now()));
    run_agents(dir, store, script, 1).await;
    let asked = asked.lock().unwrap();
    let mut times: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    times.sort();
    times[times.len() / 2]
}

async fn durable_turns() {
    let (disk, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stored = turn_time(disk.path(), Arc::new(SqliteStore::new(disk.path().join("sessions")))).await;
    let bare = turn_time(memory.path(), Arc::new(MemoryStore::new())).await;
    println!(
        "a turn with {CALLS_PER_TURN} calls, full sync: p50 {:.1?} more than in memory (bar 5 ms)",
        stored.saturating_sub(bare)
    );
}

/// Legs of agents whose ends are noted.
struct Noted {
    legs: AgentLegs,
    ended: UnboundedSender<Instant>,
}

#[async_trait]
impl Legs for Noted {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let end = self.legs.leg(job, lease).await;
        self.ended.send(Instant::now()).unwrap();
        end
    }
}

/// Aborts runs while the model answers, from another opening of their store and engine, as another process would.
async fn aborts() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let store: Arc<dyn SessionStore> = Arc::new(SqliteStore::new(dir.path().join("sessions")));
        (Runs::new(Arc::new(engine_in(dir.path())), store.clone(), Arc::new(Redactor::new())), store)
    };
    let (begun, mut asked) = unbounded_channel();
    let script = Script::answering(move |_: &Asked| {
        begun.send(()).unwrap();
        Turn::new().text("working").hang()
    });
    let ((runs, store), (person, _)) = (open(), open());
    let (ended, mut ends) = unbounded_channel();
    let legs = AgentLegs::new(Arc::new(Opener { store, script })).with_runs(runs.clone());
    let (served, stop) = (runs.engine().clone(), CancellationToken::new());
    let stopped = stop.clone();
    let worker = tokio::spawn(async move {
        served.serve(Take::new(name("w")), Arc::new(Noted { legs, ended }), stopped).await
    });
    let mut times = Vec::new();
    for _ in 0..ABORTS {
        let job = person.submit("/project", "Do it.", Placement::default()).await.unwrap();
        asked.recv().await.unwrap();
        let run = person.find(job.run().as_str()).await.unwrap();
        let begun = Instant::now();
        person.cancel(&run).await.unwrap();
        times.push(ends.recv().await.unwrap() - begun);
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
    times.sort();
    let (half, most) = (times[ABORTS / 2], times[ABORTS * 95 / 100]);
    println!("abort to the end of the leg: p50 {half:.1?}, p95 {most:.1?} (bar 100 ms)");
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1e3
}

async fn many_agents() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let store = Arc::new(SqliteStore::new(dir.path().join("sessions")));
    run_agents(dir.path(), store, calls_for(TURNS_PER_AGENT, || ()), AGENTS).await;
    println!(
        "{AGENTS} agents with {TURNS_PER_AGENT} turns in one worker: all done in {:.1?}, peak {:.0} MB (bar 512)",
        begun.elapsed(),
        peak_mb()
    );
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    starts_and_takeovers().await;
    sizes().await;
    durable_turns().await;
    aborts().await;
    many_agents().await;
}
