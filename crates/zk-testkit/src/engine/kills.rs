use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use async_trait::async_trait;
use zk_core::model::{RunId, SessionId};
use zk_core::service::{
    Engine, HandoverCause, Job, Lease, LegEnd, LegFailure, Legs, RunFilter, RunPhase, RunStatus, Wait,
};

/// Number of steps of a run.
const STEPS: usize = 6;

/// Longest pause between two kills of workers that serve [`StepLegs`].
const STEP_KILL_PAUSE: Duration = Duration::from_millis(60);

/// Number of unfinished runs that a campaign keeps.
const RUNS: usize = 8;

/// Legs for campaigns of kills: each appends lines to the file of its run in a directory, one for the leg and one for each step,
/// and parks after half of the steps.
#[derive(Clone, Debug)]
pub struct StepLegs {
    dir: PathBuf,
    pause: fn() -> Duration,
}

impl StepLegs {
    /// Creates legs with files in `dir`, and this pause before each step.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, pause: fn() -> Duration) -> Self {
        Self { dir: dir.into(), pause }
    }

    async fn drive(&self, job: &Job, lease: &Lease) -> std::io::Result<LegEnd> {
        let path = self.dir.join(job.run().as_str());
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        writeln!(file, "leg {}", lease.token())?;
        loop {
            let done = count_steps(&std::fs::read_to_string(&path)?);
            if done >= STEPS {
                return Ok(LegEnd::Done(RunStatus::Completed));
            }
            tokio::time::sleep((self.pause)()).await;
            if lease.lost().is_cancelled() {
                return Ok(LegEnd::Handover(HandoverCause::Fenced));
            }
            if lease.draining().is_cancelled() {
                return Ok(LegEnd::Handover(HandoverCause::Draining));
            }
            writeln!(file, "step")?;
            if done + 1 == STEPS / 2 {
                return Ok(LegEnd::Parked(Wait::Mail));
            }
        }
    }
}

#[async_trait]
impl Legs for StepLegs {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        self.drive(job, &lease).await.unwrap_or(LegEnd::Failed(LegFailure::Agent))
    }
}

fn count_steps(text: &str) -> usize {
    text.lines().filter(|line| *line == "step").count()
}

/// Figures of a campaign of kills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Number of killed workers.
    pub kills: usize,
    /// Number of runs.
    pub runs: usize,
    /// Number of legs beyond the two that a run has.
    pub cut_legs: usize,
}

/// Kills workers that serve [`StepLegs`] of the directory `dir`, as [`kill_workers`] does.
///
/// # Errors
/// The broken rule: a run is lost, done without all of its steps or with too many, or a leg has no larger token than the leg
/// before.
pub async fn check_kills(
    engine: &dyn Engine,
    dir: &Path,
    numbers: (usize, usize),
    spawn: impl FnMut(usize) -> std::io::Result<Child>,
    random: impl FnMut(u64) -> u64,
) -> Result<Killed, String> {
    let submit = async |number: usize| {
        let job = Job::new(RunId::from(format!("r_{number}")), SessionId::fresh());
        let job = job.map_err(|error| error.to_string())?;
        engine.submit(job).await.map_err(|error| error.to_string())
    };
    let killed = kill_workers(engine, numbers, STEP_KILL_PAUSE, submit, spawn, random).await?;
    check_runs(engine, dir, killed).await
}

/// Kills one of `workers` worker processes at random moments, `kills` times, each within `pause` after the one before, and
/// waits until all runs are over. `spawn` starts the worker with a number; `submit` submits the run with a number; `random`
/// returns a number below its argument. Runs that park are woken.
///
/// # Errors
/// The text of an error of the engine, of `submit` or of `spawn`.
pub async fn kill_workers(
    engine: &dyn Engine,
    (workers, kills): (usize, usize),
    pause: Duration,
    submit: impl AsyncFn(usize) -> Result<(), String>,
    mut spawn: impl FnMut(usize) -> std::io::Result<Child>,
    mut random: impl FnMut(u64) -> u64,
) -> Result<Killed, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut processes = Vec::new();
    for number in 0..workers {
        processes.push(Worker(spawn(number).map_err(|error| failed(&error))?));
    }
    let mut killed = Killed::default();
    loop {
        let active = engine.list(&RunFilter::unfinished()).await.map_err(|error| failed(&error))?;
        for parked in active.iter().filter(|run| run.phase == RunPhase::Parked) {
            engine.wake(parked.job.run()).await.map_err(|error| failed(&error))?;
        }
        if killed.kills < kills {
            for _ in active.len()..RUNS {
                submit(killed.runs).await?;
                killed.runs += 1;
            }
            tokio::time::sleep(Duration::from_millis(random(pause))).await;
            let number = usize::try_from(random(workers as u64)).unwrap_or_default();
            let next = spawn_after_kill(&mut processes, number, &mut spawn);
            next.map_err(|error| failed(&error))?;
            killed.kills += 1;
        } else if active.is_empty() {
            return Ok(killed);
        } else {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn spawn_after_kill(
    processes: &mut [Worker],
    number: usize,
    spawn: &mut impl FnMut(usize) -> std::io::Result<Child>,
) -> std::io::Result<()> {
    if let Some(Worker(process)) = processes.get_mut(number) {
        process.kill()?;
        process.wait()?;
        *process = spawn(number)?;
    }
    Ok(())
}

/// Process that is killed when this is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // A process that ended by itself cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compares the list of the engine with the files of the runs.
async fn check_runs(engine: &dyn Engine, dir: &Path, mut killed: Killed) -> Result<Killed, String> {
    let listed = engine.list(&RunFilter::default()).await.map_err(|error| error.to_string())?;
    if listed.len() != killed.runs {
        return Err(format!("{} of {} runs are listed", listed.len(), killed.runs));
    }
    for state in &listed {
        let run = state.job.run();
        let text = std::fs::read_to_string(dir.join(run.as_str())).map_err(|error| error.to_string())?;
        let tokens: Vec<u64> =
            text.lines().filter_map(|line| line.strip_prefix("leg ")?.parse().ok()).collect();
        let is_sound = state.phase == RunPhase::Done
            && count_steps(&text) == STEPS
            && tokens.is_sorted_by(|one, next| one < next)
            && tokens.last() == Some(&state.token);
        if !is_sound {
            return Err(format!("{state:?} with the steps\n{text}"));
        }
        killed.cut_legs += tokens.len().saturating_sub(2);
    }
    Ok(killed)
}
