//! Worker processes that are killed and frozen, and a server that is killed. Each worker is this test program, started again.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, EngineName, EngineRun, HandoverCause, Job, Lease, LegEnd, Legs, RunFilter, RunPhase, RunStatus,
    Take, Wait,
};
use zk_fleet::TemporalEngine;

use super::server::Server;

/// Environment variable that makes the test program a worker: name, location and directory.
const PART: &str = "ZK_TEMPORAL_TEST_WORKER";
/// Environment variable with the number of kills of a long test.
const KILLS: &str = "ZK_ENGINE_KILLS";

const WORKERS: usize = 3;
const STEPS: usize = 6;
const ACTIVE_RUNS: usize = 8;
const LEASE: Duration = Duration::from_millis(1_500);
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Legs that append a line per step to a file of their run, and park after half of the steps. Those of the worker `frozen`
/// wait until their lease is lost.
struct Steps {
    dir: PathBuf,
    is_frozen: bool,
}

#[async_trait]
impl Legs for Steps {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let path = self.dir.join(job.run().as_str());
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        writeln!(file, "leg {}", lease.token()).unwrap();
        if self.is_frozen {
            lease.lost().cancelled().await;
            writeln!(file, "lost {}", lease.token()).unwrap();
            return LegEnd::Handover(HandoverCause::Fenced);
        }
        loop {
            let done = lines(&path, "step");
            if done == STEPS {
                return LegEnd::Done(RunStatus::Completed);
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..60))).await;
            if lease.lost().is_cancelled() {
                return LegEnd::Handover(HandoverCause::Fenced);
            }
            writeln!(file, "step").unwrap();
            if done + 1 == STEPS / 2 {
                return LegEnd::Parked(Wait::Mail);
            }
        }
    }
}

/// Returns the number of lines of a file that begin with a text.
fn lines(path: &Path, start: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.starts_with(start)).count()
}

#[expect(clippy::disallowed_methods, reason = "the worker is this test program")]
fn spawn_worker(location: &str, dir: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "temporal::kills::part_worker", "--nocapture"])
        .env(PART, format!("{name}={location}={}", dir.display()))
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
    let mut parts = part.splitn(3, '=');
    let (name, location, dir) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let legs = Arc::new(Steps { dir: dir.into(), is_frozen: name == "frozen" });
    let engine = TemporalEngine::new(location.parse().unwrap());
    loop {
        let take = Take { lease: LEASE, max_legs: 3, ..Take::new(EngineName::new(name).unwrap()) };
        // The server is killed in one of the tests, also while a worker starts.
        if engine.serve(take, legs.clone(), CancellationToken::new()).await.is_ok() {
            break;
        }
    }
}

/// Returns the number of kills, by default 40.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn kill_count() -> usize {
    std::env::var(KILLS).ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// No run is lost or finished without its steps, and each leg has a larger token than the leg before, though workers are
/// killed at random moments, and the server once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_a_killed_server_lose_no_run() {
    let Some(mut server) = Server::start().await else { return };
    let (dir, location) = (tempfile::tempdir().unwrap(), server.location(1));
    let (engine, mut random) = (server.engine(1).with_lease(LEASE), fastrand::Rng::with_seed(11));
    let spawn = |index: usize| spawn_worker(&location, dir.path(), &format!("w{index}"));
    let mut workers: Vec<Child> = (0..WORKERS).map(spawn).collect();
    let (mut submitted, mut killed, mut is_server_killed) = (0, 0, false);
    loop {
        let active = engine.list(&RunFilter::unfinished()).await.unwrap();
        for parked in active.iter().filter(|run| run.phase == RunPhase::Parked) {
            engine.wake(parked.job.run()).await.unwrap();
        }
        if killed < kill_count() {
            for _ in active.len()..ACTIVE_RUNS {
                let run = RunId::from(format!("r_{submitted}"));
                engine.submit(Job::new(run, SessionId::fresh()).unwrap()).await.unwrap();
                submitted += 1;
            }
            tokio::time::sleep(Duration::from_millis(random.u64(..600))).await;
            let index = random.usize(..WORKERS);
            workers[index].kill().unwrap();
            workers[index].wait().unwrap();
            workers[index] = spawn(index);
            killed += 1;
            if killed == kill_count() / 2 {
                server.kill_and_restart().await;
                is_server_killed = true;
            }
        } else if active.is_empty() && engine.list(&RunFilter::default()).await.unwrap().len() == submitted {
            break;
        } else {
            tokio::time::sleep(LOOK_PAUSE).await;
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
    assert!(is_server_killed);
    let mut cut = 0;
    for (run, state) in &listed {
        assert_eq!(state.phase, RunPhase::Done, "{state:?}");
        let path = dir.path().join(run.as_str());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines(&path, "step"), STEPS, "{run}: {text}");
        let tokens: Vec<u64> =
            text.lines().filter_map(|line| line.strip_prefix("leg ")?.parse().ok()).collect();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{run}: {tokens:?}");
        assert_eq!(tokens.last(), Some(&state.token), "{run}");
        cut += tokens.len().saturating_sub(2);
    }
    println!("{killed} kills, {submitted} runs, {cut} legs beyond the two that a run has");
    assert!(cut > 0, "no leg was cut off");
}

/// A worker that was frozen for longer than its lease is told that it lost its leg, and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_process_loses_its_leg_to_a_successor() {
    let Some(server) = Server::start().await else { return };
    let (dir, location, engine) =
        (tempfile::tempdir().unwrap(), server.location(1), server.engine(1).with_lease(LEASE));
    let (run, job) = (RunId::from("r_1"), Job::new("r_1".into(), SessionId::fresh()).unwrap());
    let path = dir.path().join("r_1");
    engine.submit(job).await.unwrap();
    let mut frozen = spawn_worker(&location, dir.path(), "frozen");
    while lines(&path, "leg") == 0 {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    let pid = Pid::from_raw(i32::try_from(frozen.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut successor = spawn_worker(&location, dir.path(), "successor");
    let found = loop {
        let found = engine.list(&RunFilter::run(run.clone())).await.unwrap().pop().unwrap();
        match found.phase {
            RunPhase::Done => break found,
            RunPhase::Parked => engine.wake(&run).await.unwrap(),
            RunPhase::Queued | RunPhase::Running | RunPhase::Failed | RunPhase::Cancelled => {}
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    };
    assert_eq!(lines(&path, "lost"), 0, "the frozen worker did something");
    kill_process(pid, Signal::CONT).unwrap();
    while lines(&path, "lost") == 0 {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    let after = engine.list(&RunFilter::run(run)).await.unwrap().pop().unwrap();
    assert_eq!((after.token, after.legs, after.phase), (found.token, found.legs, RunPhase::Done));
    assert_eq!(found.worker, Some(EngineName::new("successor").unwrap()));
    for worker in [&mut frozen, &mut successor] {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
}
