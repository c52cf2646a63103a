//! Worker processes that are killed at random moments. Each is this test program, started again as a worker.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_agent::SpawnOptions;
use zk_core::service::{Engine, EngineName, Legs, Redactor, RunFilter, RunPhase, Take};
use zk_engine::{AgentLegs, LocalEngine, Placement, Runs};
use zk_exec::LocalStateFiles;
use zk_session::SqliteStore;
use zk_testkit::{StepLegs, Traced, TracedWork, check_kills, kill_workers};

use super::desk::Opener;

/// Environment variable that makes the test program a worker, with its work, its name and its directory.
const PART: &str = "ZK_ENGINE_TEST_WORKER";
/// Environment variable with the number of kills of a long test.
const KILLS: &str = "ZK_ENGINE_KILLS";

const WORKERS: usize = 3;
const LEASE: Duration = Duration::from_millis(400);
/// Longest pause between two kills of workers with agents, which take longer to start.
const AGENT_KILL_PAUSE: Duration = Duration::from_millis(350);

fn engine(dir: &Path) -> LocalEngine {
    LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default()))
}

#[expect(clippy::disallowed_methods, reason = "the worker is this test program")]
fn spawn_worker(dir: &Path, work: &str, name: usize) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--exact", "kills::part_worker", "--nocapture"])
        .env(PART, format!("{work}=w{name}={}", dir.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Body of the worker process. Does nothing without the environment variable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part_worker() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(part) = std::env::var(PART) else { return };
    let (work, rest) = part.split_once('=').unwrap();
    let (name, dir) = rest.split_once('=').unwrap();
    let dir = Path::new(dir);
    let take = Take { lease: LEASE, max_legs: 3, ..Take::new(EngineName::new(name).unwrap()) };
    let legs: Arc<dyn Legs> = match work {
        "agents" => agent_legs(dir),
        _ => Arc::new(StepLegs::new(dir.join("runs"), || Duration::from_millis(fastrand::u64(1..25)))),
    };
    engine(dir).serve(take, legs, CancellationToken::new()).await.unwrap();
}

/// Returns the number of kills, by default 100.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn kill_count() -> usize {
    std::env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// No run is lost or finished without its steps, and each leg has a larger token than the leg before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_lose_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    let (engine, mut random) = (engine(dir.path()), fastrand::Rng::with_seed(11));
    let spawn = |number| spawn_worker(dir.path(), "steps", number);
    let killed = check_kills(&engine, &runs, (WORKERS, kill_count()), spawn, |below| random.u64(..below));
    let killed = killed.await.unwrap();
    println!("{killed:?}");
    assert!(killed.cut_legs > 0, "no leg was cut off");
}

fn traced_work(dir: &Path) -> TracedWork {
    TracedWork::new(dir.join("work"), || Duration::from_millis(fastrand::u64(4..30)))
}

fn runs(dir: &Path) -> Runs {
    let store = Arc::new(SqliteStore::new(dir.join("sessions")));
    Runs::new(Arc::new(engine(dir)), store, Arc::new(Redactor::new()))
}

fn agent_legs(dir: &Path) -> Arc<dyn Legs> {
    let (runs, work) = (runs(dir), traced_work(dir));
    let opener = Opener {
        store: runs.store().clone(),
        script: work.script(),
        spawn: SpawnOptions::default(),
        tools: vec![work.tool()],
    };
    Arc::new(AgentLegs::new(Arc::new(opener)).with_runs(runs))
}

/// Promise: however often the workers of agents are killed, no effect of a call that had ended is repeated, no stored answer is
/// asked for again, every call that was cut off is told as unknown, and each history is acceptable on the wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_repeat_nothing_of_their_agents() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let (runs, mut random) = (runs(dir.path()), fastrand::Rng::with_seed(13));
    let name = |number: usize| format!("r_{number}");
    let submit = async |number: usize| {
        let placement = Placement { run: Some(name(number).as_str().into()), ..Placement::default() };
        runs.submit("/project", &name(number), placement).await.map(drop).map_err(|error| error.to_string())
    };
    let spawn = |number| spawn_worker(dir.path(), "agents", number);
    let numbers = (WORKERS, kill_count());
    let random = |below| random.u64(..below);
    let killed = kill_workers(&**runs.engine(), numbers, AGENT_KILL_PAUSE, submit, spawn, random).await;
    let killed = killed.unwrap();
    let mut traced = Traced::default();
    for run in runs.engine().list(&RunFilter::default()).await.unwrap() {
        assert_eq!(run.phase, RunPhase::Done, "{run:?}");
        let entries = runs.store().read(run.job.session()).await.unwrap().entries;
        traced += traced_work(dir.path()).check(run.job.run().as_str(), &entries).unwrap();
    }
    println!("{killed:?} {traced:?}");
    assert!(traced.lost_answers > 0 && traced.unknown_calls > 0, "no leg was cut off: {traced:?}");
}
