//! Worker processes that are killed at random moments. Each is this test program, started again as a worker.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Engine, EngineName, Take};
use zk_engine::LocalEngine;
use zk_exec::LocalStateFiles;
use zk_testkit::{StepLegs, check_kills};

/// Environment variable that makes the test program a worker, with its name and directory.
const PART: &str = "ZK_ENGINE_TEST_WORKER";
/// Environment variable with the number of kills of a long test.
const KILLS: &str = "ZK_ENGINE_KILLS";

const WORKERS: usize = 3;
const LEASE: Duration = Duration::from_millis(400);

fn engine(dir: &Path) -> LocalEngine {
    LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default()))
}

#[expect(clippy::disallowed_methods, reason = "the worker is this test program")]
fn spawn_worker(dir: &Path, name: usize) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--exact", "kills::part_worker", "--nocapture"])
        .env(PART, format!("w{name}={}", dir.display()))
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
    let (name, dir) = part.split_once('=').unwrap();
    let take = Take { lease: LEASE, max_legs: 3, ..Take::new(EngineName::new(name).unwrap()) };
    let legs = StepLegs::new(Path::new(dir).join("runs"), || Duration::from_millis(fastrand::u64(1..25)));
    engine(Path::new(dir)).serve(take, Arc::new(legs), CancellationToken::new()).await.unwrap();
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
    let spawn = |number| spawn_worker(dir.path(), number);
    let killed = check_kills(&engine, &runs, (WORKERS, kill_count()), spawn, |below| random.u64(..below));
    let killed = killed.await.unwrap();
    println!("{killed:?}");
    assert!(killed.cut_legs > 0, "no leg was cut off");
}
