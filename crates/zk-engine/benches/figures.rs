//! Figures of durable runs on the local engine, each beside its bar.
//!
//! `cargo bench -p zk-engine --bench figures` prints all of them; a name after `--` prints one: `turn`, `takeover`,
//! `drain`, `parked` or `agents`. Bars are those of release builds on an idle machine with two cores.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, ToolSet};
use zk_core::kernel::Bus;
use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    CallPlace, Engine, EngineName, HandoverCause, Job, Lease, LegEnd, Legs, Redactor, RunFilter, RunPhase,
    SessionStore, Take, Tool, ToolCx, Wait,
};
use zk_engine::{AgentLegs, LegAgent, LegOpener, LocalEngine, Placement, Runs};
use zk_exec::LocalStateFiles;
use zk_session::{MemoryStore, SqliteStore};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

/// Runs of which a turn is measured.
const TURNS: usize = 60;

/// Runs that park.
const PARKED_RUNS: u32 = 500;

/// Agents that one worker serves.
const AGENTS: usize = 1_000;

/// Lease of the takeover that is measured.
const LEASE: Duration = Duration::from_secs(3);

/// Tool with effects that changes nothing.
struct Mark(Arc<ToolSpec>);

#[async_trait]
impl Tool for Mark {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::default()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("marked"))
    }
}

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
        let opened = self.store.open_leased(job.session(), lease).await;
        let opened = opened.map_err(|_| LegEnd::Handover(HandoverCause::Fenced))?;
        let stored = zk_session::resume_leg(opened, job.run()).await.unwrap();
        let bus = Bus::new();
        let spec = ToolSpec::new("mark", "Marks.", json!({"type": "object", "properties": {}}));
        bus.scope("tools").provide::<dyn Tool>("mark", Arc::new(Mark(spec))).unwrap();
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(self.script.clone())))
            .bus(bus)
            .model_id("scripted")
            .tools(ToolSet::All)
            .unguarded()
            .resume(stored)
            .build()
            .unwrap();
        Ok(Box::new(Opened(agent)))
    }
}

/// One turn with three calls, then an answer.
fn three_calls(asked: &Asked) -> Turn {
    if asked.messages.iter().any(|message| message.results().next().is_some()) {
        return Turn::new().text("done");
    }
    (0..3).fold(Turn::new(), |turn, _| turn.call("mark", json!({})))
}

fn engine(dir: &Path) -> Arc<LocalEngine> {
    Arc::new(LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default())))
}

fn take(name: &str) -> Take {
    Take { lease: LEASE, ..Take::new(EngineName::new(name).unwrap()) }
}

fn agents(store: Arc<dyn SessionStore>, script: Script) -> Arc<AgentLegs> {
    Arc::new(AgentLegs::new(Arc::new(Opener { store, script })))
}

fn report(figure: &str, found: String, bar: &str) {
    println!("{figure:<44} {found:>14}   bar {bar}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Median time of a run with one turn of three calls, and its answer.
async fn time_of_turns(store: Arc<dyn SessionStore>, dir: &Path) -> Duration {
    let runs = Runs::new(engine(dir), store.clone(), Arc::new(Redactor::new()));
    let legs = agents(store, Script::answering(three_calls));
    let mut times = Vec::new();
    for number in 0..TURNS {
        let job = runs.submit(dir, "Mark it.", Placement::default()).await.unwrap();
        let begun = Instant::now();
        let end = legs.leg(&job, Lease::new(number as u64 + 1)).await;
        times.push(begun.elapsed());
        assert!(matches!(end, LegEnd::Done(_)), "{end:?}");
    }
    median(times)
}

async fn turn() {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = SqliteStore::new(dir.path().join("sessions"));
    let durable = time_of_turns(Arc::new(on_disk), &dir.path().join("a")).await;
    let in_memory = time_of_turns(Arc::new(MemoryStore::new()), &dir.path().join("b")).await;
    let cost = durable.saturating_sub(in_memory);
    report(
        "durable cost of a leg: a turn with 3 calls",
        format!("{:.2} ms", cost.as_secs_f64() * 1e3),
        "5 ms p50, opening and closing of the session included here",
    );
}

/// Legs that run until they are told to end.
struct Endless(AtomicUsize);

#[async_trait]
impl Legs for Endless {
    async fn leg(&self, _: &Job, lease: Lease) -> LegEnd {
        self.0.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = lease.lost().cancelled() => LegEnd::Handover(HandoverCause::Fenced),
            () = lease.draining().cancelled() => LegEnd::Handover(HandoverCause::Draining),
            () = lease.cancelled().cancelled() => LegEnd::Done(zk_core::service::RunStatus::Aborted),
        }
    }
}

async fn until(holds: impl AsyncFn() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn takeover() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (engine(dir.path()), engine(dir.path()));
    first.submit(Job::new("r_1".into(), "s_1".into()).unwrap()).await.unwrap();
    let legs = Arc::new(Endless(AtomicUsize::new(0)));
    let (held, taken) = (legs.clone(), legs.clone());
    let serving = tokio::spawn(async move { first.serve(take("a"), held, CancellationToken::new()).await });
    until(async || legs.0.load(Ordering::SeqCst) == 1).await;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let successor = tokio::spawn(async move { second.serve(take("b"), taken, stopped).await });
    // Dropped without a word, as by kill -9.
    serving.abort();
    let begun = Instant::now();
    until(async || legs.0.load(Ordering::SeqCst) == 2).await;
    let beyond = begun.elapsed().saturating_sub(LEASE);
    report("takeover beyond the lease", format!("{:.2} s", beyond.as_secs_f64()), "2 s");
    stop.cancel();
    successor.await.unwrap().unwrap();
}

async fn drain() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
    let runs = Runs::new(engine(dir.path()), store.clone(), Arc::new(Redactor::new()));
    let job = runs.submit("/project", "Wait.", Placement::default()).await.unwrap();
    let asks = Arc::new(AtomicUsize::new(0));
    let counted = asks.clone();
    let script = Script::answering(move |_: &Asked| {
        counted.fetch_add(1, Ordering::SeqCst);
        Turn::new().hang()
    });
    let (engine, legs, stop) = (runs.engine().clone(), agents(store, script), CancellationToken::new());
    let stopped = stop.clone();
    let serving = tokio::spawn(async move { engine.serve(take("a"), legs, stopped).await });
    until(async || asks.load(Ordering::SeqCst) == 1).await;
    let begun = Instant::now();
    stop.cancel();
    serving.await.unwrap().unwrap();
    let took = begun.elapsed();
    assert_eq!(runs.find(job.run().as_str()).await.unwrap().phase, RunPhase::Queued);
    report("handover after SIGTERM, in a request", format!("{:.2} s", took.as_secs_f64()), "1 s");
}

struct Parking;

#[async_trait]
impl Legs for Parking {
    async fn leg(&self, job: &Job, _: Lease) -> LegEnd {
        LegEnd::Parked(Wait::Answer(format!("e_{}", job.run()).into()))
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let sizes = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

async fn parked() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    for number in 0..PARKED_RUNS {
        let job = Job::new(format!("r_{number}").into(), format!("s_{number}").into()).unwrap();
        engine.submit(job).await.unwrap();
    }
    let once = Take { once: true, max_legs: 64, ..take("a") };
    engine.serve(once, Arc::new(Parking), CancellationToken::new()).await.unwrap();
    drop(engine);
    // Without the write-ahead log, which the last process that closes the file empties.
    let bytes = bytes_below(&dir.path().join("engine")) / u64::from(PARKED_RUNS);
    report("engine data of a parked run", format!("{bytes} bytes"), "4096 bytes");
}

/// Peak resident memory of this process, in megabytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() / 1024
}

async fn thousand_agents() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(SqliteStore::new(dir.path().join("sessions")));
    let runs = Runs::new(engine(dir.path()), store.clone(), Arc::new(Redactor::new()));
    for _ in 0..AGENTS {
        runs.submit(dir.path(), "Mark it.", Placement::default()).await.unwrap();
    }
    let (before, begun) = (peak_memory(), Instant::now());
    let once = Take { once: true, max_legs: AGENTS, ..take("a") };
    let legs = agents(store, Script::answering(three_calls));
    runs.engine().serve(once, legs, CancellationToken::new()).await.unwrap();
    let done = runs.engine().list(&RunFilter::phases([RunPhase::Done])).await.unwrap().len();
    report("agents of one worker that are done", format!("{done} of {AGENTS}"), "all");
    report("  their time", format!("{:.1} s", begun.elapsed().as_secs_f64()), "none");
    report(
        "  peak memory of the process",
        format!("{} MB", peak_memory()),
        &format!("512 MB ({before} MB before)"),
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        if is_wanted("turn") {
            turn().await;
        }
        if is_wanted("takeover") {
            takeover().await;
        }
        if is_wanted("drain") {
            drain().await;
        }
        if is_wanted("parked") {
            parked().await;
        }
        if is_wanted("agents") {
            thousand_agents().await;
        }
    });
}
