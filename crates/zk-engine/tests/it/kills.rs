//! Worker processes that are killed at random moments. Each is this test program, started again as a worker.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, EngineName, EngineRun, Job, Lease, LegEnd, Legs, RunFilter, RunPhase, RunStatus, Take, Wait,
};
use zk_engine::LocalEngine;
use zk_exec::LocalStateFiles;

/// Environment variable that makes the test program a worker, with its name and directory.
const PART: &str = "ZK_ENGINE_TEST_WORKER";
/// Environment variable with the number of kills of a long test.
const KILLS: &str = "ZK_ENGINE_KILLS";

const WORKERS: usize = 3;
const STEPS: u32 = 6;
const LEASE: Duration = Duration::from_millis(400);

fn engine(dir: &Path) -> LocalEngine {
    LocalEngine::new(dir.join("engine"), Arc::new(LocalStateFiles::default()))
}

/// Legs that append a line per step to a file of their run, and park after half of the steps.
struct Steps(PathBuf);

#[async_trait]
impl Legs for Steps {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let path = self.0.join(job.run().as_str());
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        writeln!(file, "leg {}", lease.token()).unwrap();
        loop {
            let done = std::fs::read_to_string(&path).unwrap().lines().filter(|line| *line == "step").count();
            if done == STEPS as usize {
                return LegEnd::Done(RunStatus::Completed);
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..25))).await;
            if lease.lost().is_cancelled() {
                return LegEnd::Handover(zk_core::service::HandoverCause::Fenced);
            }
            writeln!(file, "step").unwrap();
            if done + 1 == STEPS as usize / 2 {
                return LegEnd::Parked(Wait::Mail);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the worker is this test program")]
fn spawn_worker(dir: &Path, name: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::part_worker", "--nocapture"])
        .env(PART, format!("w{name}={}", dir.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Body of the worker process. Does nothing without the environment variable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part_worker() {
    #[expect(clippy::disallowed_methods, reason = "how the starting test says what to do")]
    let Ok(part) = std::env::var(PART) else { return };
    let (name, dir) = part.split_once('=').unwrap();
    let take = Take { lease: LEASE, max_legs: 3, ..Take::new(EngineName::new(name).unwrap()) };
    let legs = Arc::new(Steps(Path::new(dir).join("runs")));
    engine(Path::new(dir)).serve(take, legs, CancellationToken::new()).await.unwrap();
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
    let mut workers: Vec<Child> = (0..WORKERS).map(|name| spawn_worker(dir.path(), name)).collect();
    let (mut submitted, mut killed) = (0, 0);
    let is_active = RunFilter::phases([RunPhase::Queued, RunPhase::Running, RunPhase::Parked]);
    loop {
        let active = engine.list(&is_active).await.unwrap();
        for parked in active.iter().filter(|run| run.phase == RunPhase::Parked) {
            engine.wake(parked.job.run()).await.unwrap();
        }
        if killed < kill_count() {
            for _ in active.len()..8 {
                let run = RunId::from(format!("r_{submitted}"));
                engine.submit(Job::new(run, SessionId::fresh()).unwrap()).await.unwrap();
                submitted += 1;
            }
            std::thread::sleep(Duration::from_millis(random.u64(..60)));
            let index = random.usize(..WORKERS);
            workers[index].kill().unwrap();
            workers[index].wait().unwrap();
            workers[index] = spawn_worker(dir.path(), index);
            killed += 1;
        } else if active.is_empty() {
            break;
        } else {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for worker in &mut workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    let listed: BTreeMap<RunId, EngineRun> = engine
        .list(&RunFilter::default())
        .await
        .unwrap()
        .into_iter()
        .map(|run| (run.job.run().clone(), run))
        .collect();
    assert_eq!(listed.len(), submitted, "a run is lost");
    let mut cut = 0;
    for (run, state) in &listed {
        assert_eq!(state.phase, RunPhase::Done, "{state:?}");
        let text = std::fs::read_to_string(runs.join(run.as_str())).unwrap();
        assert_eq!(text.lines().filter(|line| *line == "step").count(), STEPS as usize, "{run}: {text}");
        let tokens: Vec<u64> =
            text.lines().filter_map(|line| line.strip_prefix("leg ")?.parse().ok()).collect();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{run}: {tokens:?}");
        assert_eq!(tokens.last(), Some(&state.token), "{run}");
        cut += tokens.len().saturating_sub(2);
    }
    println!("{killed} kills, {submitted} runs, {cut} legs beyond the two that a run has");
    assert!(cut > 0, "no leg was cut off");
}
