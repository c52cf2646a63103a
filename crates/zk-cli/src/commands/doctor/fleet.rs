use std::time::{Duration, SystemTime};

use zk_core::service::{
    EngineError, EngineHealth, EngineRun, RunFilter, RunPhase, UnreadableEntry, WorkerHealth, visible_line,
};

use super::findings::{Finding, failure, fine, warning};
use crate::app::{Machine, runtime};
use crate::commands::counted;
use crate::commands::runs::engine;
use crate::exit::Outcome;

/// Time after which a queued or running run without a change is said to make no progress.
const STUCK_TIME: Duration = Duration::from_secs(30 * 60);

/// Difference of two clocks that schedules and lists tolerate.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// Checks the engine of this user, its workers and its runs.
pub(super) fn check_fleet(machine: &Machine) -> Outcome<Vec<Finding>> {
    let engine = engine(machine)?;
    let found = runtime()?.block_on(async {
        let health = engine.health().await?;
        let runs = engine.list(&RunFilter::unfinished()).await?;
        Ok::<_, EngineError>((health, runs, engine.unreadable().await?, engine.schedules().await?.len()))
    });
    let now = SystemTime::now();
    Ok(match found {
        Ok((health, runs, unreadable, schedules)) => {
            let mut found = check_engine(&health, now);
            found.extend(check_workers(&health, &runs, schedules));
            found.extend(check_runs(&runs, now));
            found.extend(unreadable.iter().map(describe_unreadable));
            found
        }
        Err(error) => vec![failure(format!("engine: {error}"))],
    })
}

fn check_engine(health: &EngineHealth, now: SystemTime) -> Vec<Finding> {
    let mut found = vec![fine(format!("engine: {}, {}", health.version, visible_line(&health.place)))];
    if let Some(clock) = health.clock {
        let difference = clock.duration_since(now).unwrap_or_else(|earlier| earlier.duration());
        let text = format!("clock: the engine's differs by {:.1} s", difference.as_secs_f64());
        found.push(match difference > MAX_CLOCK_DIFFERENCE {
            true => warning(format!("{text}: set both by NTP, or schedules run at other times")),
            false => fine(text),
        });
    }
    found.push(match health.expired_leases {
        0 => fine("leases: none has expired"),
        count => warning(format!(
            "leases: {count} have expired, and no worker took the runs yet: start `zk worker`"
        )),
    });
    found
}

fn check_workers(health: &EngineHealth, runs: &[EngineRun], schedules: usize) -> Vec<Finding> {
    let (alive, gone): (Vec<_>, Vec<_>) = health.workers.iter().partition(|worker| worker.is_alive);
    let waiting = runs.iter().filter(|run| run.phase == RunPhase::Queued).count();
    let describe =
        |worker: &&WorkerHealth| format!("{} ({})", worker.name, counted(worker.legs, "leg", "legs"));
    let first = match (alive.as_slice(), waiting + schedules) {
        ([], 0) => fine("workers: none, and nothing waits for one"),
        ([], _) => warning(format!(
            "workers: none, and {waiting} runs and {schedules} schedules wait for one: start `zk worker`"
        )),
        (alive, _) => {
            let names: Vec<String> = alive.iter().map(describe).collect();
            fine(format!("workers: {} alive: {}", names.len(), names.join(", ")))
        }
    };
    let describe_gone = |worker: &WorkerHealth| {
        let (name, legs) = (&worker.name, worker.legs);
        warning(format!(
            "worker {name}: its process is gone; its {legs} runs go on elsewhere once their leases have ended"
        ))
    };
    std::iter::once(first).chain(gone.into_iter().map(describe_gone)).collect()
}

fn check_runs(runs: &[EngineRun], now: SystemTime) -> Vec<Finding> {
    let is_stuck = |run: &&EngineRun| {
        let age = now.duration_since(run.changed).unwrap_or_default();
        matches!(run.phase, RunPhase::Queued | RunPhase::Running) && age > STUCK_TIME
    };
    let stuck: Vec<&EngineRun> = runs.iter().filter(is_stuck).collect();
    if stuck.is_empty() {
        return vec![fine(format!("runs: {} are not over, none is stuck", runs.len()))];
    }
    let describe = |run: &EngineRun| {
        let (id, minutes) = (run.job.run(), STUCK_TIME.as_secs() / 60);
        let next = match (run.phase, run.job.queue()) {
            (RunPhase::Queued, Some(queue)) => {
                format!("no worker takes the queue `{queue}`, or all are busy")
            }
            (RunPhase::Queued, None) => "no worker takes the queue `default`, or all are busy".to_owned(),
            (_, _) => format!("`zk fleet watch {id}` shows it, `zk fleet abort {id}` ends it"),
        };
        warning(format!("run {id}: {} without a change for over {minutes} minutes: {next}", run.phase))
    };
    stuck.into_iter().map(describe).collect()
}

fn describe_unreadable(entry: &UnreadableEntry) -> Finding {
    let (id, why) = (visible_line(&entry.id), visible_line(&entry.why));
    warning(format!("{} {id}: cannot be read: {why}", entry.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::findings::Health;

    #[test]
    fn a_clock_that_differs_and_a_dead_worker_are_told() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let worker = |name: &str, is_alive| WorkerHealth {
            name: zk_core::service::EngineName::new(name).unwrap(),
            is_alive,
            is_draining: false,
            legs: 1,
        };
        let health = EngineHealth {
            clock: Some(now + Duration::from_secs(3600)),
            workers: vec![worker("here", true), worker("lost", false)],
            expired_leases: 1,
            ..EngineHealth::default()
        };
        let warned = |found: Vec<Finding>| -> Vec<String> {
            let is_warning = |finding: &Finding| finding.health == Health::Warning;
            found.into_iter().filter(is_warning).map(|finding| finding.text).collect()
        };
        let of_engine = warned(check_engine(&health, now));
        assert!(
            of_engine[0].contains("3600.0 s") && of_engine[1].contains("1 have expired"),
            "{of_engine:?}"
        );
        let of_workers = warned(check_workers(&health, &[], 0));
        assert!(of_workers.len() == 1 && of_workers[0].contains("lost"), "{of_workers:?}");
        assert!(warned(check_workers(&EngineHealth::default(), &[], 1))[0].contains("1 schedules wait"));
    }
}
