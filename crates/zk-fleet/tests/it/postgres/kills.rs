//! Worker processes that are killed at random moments, with a clock that is wrong, and a server that dies meanwhile. Each worker
//! is this test program, started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Engine, EngineError, EngineName, Legs, RunFilter, RunPhase, Take};
use zk_engine::Placement;
use zk_fleet::PostgresEngine;
use zk_testkit::{StepLegs, Traced, check_kills, kill_workers};

use super::Server;
use super::agents::{agents, traced_work};

/// Environment variable that makes the test program a worker: its work, its name, the directory of runs, the address.
const PART: &str = "ZK_FLEET_TEST_WORKER";
/// Environment variable with the number of kills of a long test.
const KILLS: &str = "ZK_FLEET_KILLS";

const WORKERS: usize = 3;
const LEASE: Duration = Duration::from_secs(1);
/// Longest pause between two kills of workers with agents, which take longer to start.
const AGENT_KILL_PAUSE: Duration = Duration::from_millis(350);

/// Library that gives a program another clock, below a directory of `/usr/lib`. The program `faketime` would be another
/// process, which a kill ends in the worker's place.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

fn faketime() -> Option<PathBuf> {
    let dirs = std::fs::read_dir("/usr/lib").ok()?.flatten();
    dirs.map(|dir| dir.path().join(FAKETIME)).find(|library| library.exists())
}

/// Starts a worker; those with odd numbers are an hour ahead of the server, where `faketime` is installed.
#[expect(clippy::disallowed_methods, reason = "the worker is this test program")]
fn spawn_worker(
    server: &Server,
    (work, database): (&str, &str),
    runs: &Path,
    number: usize,
) -> std::io::Result<Child> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(own);
    if let Some(library) = faketime().filter(|_| number % 2 == 1) {
        command.env("LD_PRELOAD", library).env("FAKETIME", "+1h");
    }
    command
        .args(["--exact", "postgres::kills::part_worker", "--nocapture"])
        .env(PART, format!("{work}=w{number}={}={}", runs.display(), server.address(database)))
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
    let [work, name, runs, address] = part.splitn(4, '=').collect::<Vec<_>>().try_into().unwrap();
    let take = Take { lease: LEASE, max_legs: 3, ..Take::new(EngineName::new(name).unwrap()) };
    let engine = PostgresEngine::new(address).unwrap();
    let legs: Arc<dyn Legs> = match work {
        "agents" => agents(Arc::new(engine.clone()), address, Path::new(runs)).1,
        _ => Arc::new(StepLegs::new(runs, || Duration::from_millis(fastrand::u64(1..25)))),
    };
    loop {
        // The server may not have noticed that the worker before is gone, or may be starting.
        match engine.serve(take.clone(), legs.clone(), CancellationToken::new()).await {
            Err(EngineError::NameTaken(_) | EngineError::Failed { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            ended => return ended.unwrap(),
        }
    }
}

/// Returns the number of kills, by default 100.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn kill_count() -> usize {
    std::env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// No run is lost or finished without its steps, and each leg has a larger token than the leg before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_lose_no_run() {
    let Some(server) = Server::start() else { return };
    server.prepare("kills").await;
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut random) = (server.engine("kills"), fastrand::Rng::with_seed(11));
    let spawn = |number| spawn_worker(&server, ("steps", "kills"), dir.path(), number);
    let killed =
        check_kills(&engine, dir.path(), (WORKERS, kill_count()), spawn, |below| random.u64(..below));
    let killed = killed.await.unwrap();
    println!("{killed:?}");
    assert!(killed.cut_legs > 0, "no leg was cut off");
    // Absurd agrees with the list: no task is left that a worker could take.
    let left = server.sql("kills", "SELECT count(*) FROM absurd.t_zk_1 WHERE state <> 'completed'").unwrap();
    assert_eq!(left.trim(), "0");
}

/// Promise: however often the workers of agents are killed, no effect of a call that had ended is repeated, no stored answer is
/// asked for again, every call that was cut off is told as unknown, and each history is acceptable on the wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_repeat_nothing_of_their_agents() {
    let Some(server) = Server::start() else { return };
    server.prepare("agents").await;
    let dir = tempfile::tempdir().unwrap();
    let address = server.address("agents");
    let (runs, _) = agents(Arc::new(server.engine("agents")), &address, dir.path());
    let mut random = fastrand::Rng::with_seed(13);
    let submit = async |number: usize| {
        let name = format!("r_{number}");
        let placement = Placement { run: Some(name.as_str().into()), ..Placement::default() };
        runs.submit("/project", &name, placement).await.map(drop).map_err(|error| error.to_string())
    };
    let spawn = |number| spawn_worker(&server, ("agents", "agents"), dir.path(), number);
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

/// A server that dies in the middle of legs costs no run and no step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_no_run() {
    let Some(server) = Server::start() else { return };
    server.prepare("server").await;
    let dir = tempfile::tempdir().unwrap();
    let engine = server.engine("server");
    let worker = Arc::new(StepLegs::new(dir.path(), || Duration::from_millis(40)));
    let stop = CancellationToken::new();
    let take = Take { lease: LEASE, ..Take::new(EngineName::new("w").unwrap()) };
    let (serving, stopped) = (server.engine("server"), stop.clone());
    let serving = tokio::spawn(async move { serving.serve(take, worker, stopped).await });
    for round in 0..3 {
        let id = |index: usize| format!("r_{round}_{index}");
        for index in 0..4 {
            engine.submit(super::job(&id(index))).await.unwrap();
        }
        super::wait_for(async || {
            engine.list(&RunFilter::default()).await.is_ok_and(|runs| runs.iter().any(|run| run.legs > 0))
        })
        .await;
        server.control("restart").unwrap();
        super::wait_for(async || {
            for run in engine.list(&RunFilter::phases([RunPhase::Parked])).await.unwrap_or_default() {
                let _ = engine.wake(run.job.run()).await;
            }
            engine.list(&RunFilter::unfinished()).await.is_ok_and(|runs| runs.is_empty())
        })
        .await;
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
    let listed = engine.list(&RunFilter::default()).await.unwrap();
    assert_eq!(listed.len(), 12);
    for run in listed {
        let text = std::fs::read_to_string(dir.path().join(run.job.run().as_str())).unwrap();
        assert_eq!(text.lines().filter(|line| *line == "step").count(), 6, "{run:?}\n{text}");
    }
}
