use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use zk_chat::age;
use zk_core::service::{EngineHealth, EngineRun, RunFilter, RunPhase, UnreadableEntry, visible_line};
use zk_tui::Style;
use zk_tui::plain::Screen;

use super::engine;
use crate::app::{AppContext, runtime};
use crate::commands::counted;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use tokio_util::sync::CancellationToken;

/// Interval between two pictures.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Most runs in a picture.
const MAX_SHOWN_RUNS: usize = 40;

/// Shows the runs that are not over and the workers, until a signal; once without a terminal.
pub(crate) fn top(app: &AppContext, once: bool) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let engine = engine(machine)?;
    let mut screen = Screen::stdout(&machine.terminal());
    let is_live = !once && std::io::stdout().is_terminal();
    let stop = CancellationToken::new();
    let signals = signals::watch(|| ()).map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    signals.arm_process(stop.clone(), || ());
    runtime()?.block_on(async {
        loop {
            let filter = RunFilter { limit: Some(MAX_SHOWN_RUNS), ..RunFilter::unfinished() };
            let (runs, unreadable) = (engine.list(&filter).await?, engine.unreadable().await?);
            let lines = picture(&engine.health().await?, &runs, &unreadable);
            if is_live {
                screen.clear();
            }
            lines.iter().for_each(|line| screen.line(Style::PLAIN, line));
            if !is_live || screen.is_broken() {
                return Ok::<_, Failure>(());
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
            }
        }
    })?;
    screen.finish()?;
    Ok(Exit::Done)
}

fn picture(health: &EngineHealth, runs: &[EngineRun], unreadable: &[UnreadableEntry]) -> Vec<String> {
    let count = |phase| runs.iter().filter(|run| run.phase == phase).count();
    let mut lines = vec![format!(
        "{} running, {} queued, {} parked, {} workers",
        count(RunPhase::Running),
        count(RunPhase::Queued),
        count(RunPhase::Parked),
        health.workers.iter().filter(|worker| worker.is_alive).count()
    )];
    for worker in &health.workers {
        let state = match (worker.is_alive, worker.is_draining) {
            (false, _) => "gone",
            (true, true) => "draining",
            (true, false) => "serving",
        };
        lines.push(format!(
            "worker {:<20}  {state:<8}  {}",
            worker.name,
            counted(worker.legs, "leg", "legs")
        ));
    }
    lines.push(format!("{:<28}  {:<9}  {:>5}  {:>8}  state", "run", "phase", "legs", "since"));
    for run in runs {
        let state = match (&run.wait, &run.worker, run.phase) {
            (Some(wait), ..) => format!("waits for {wait}"),
            (None, Some(worker), RunPhase::Running) => format!("on {worker}"),
            (None, ..) => run.job.queue().map(|queue| format!("queue {queue}")).unwrap_or_default(),
        };
        let since = age(run.changed.min(SystemTime::now()));
        let (id, phase) = (run.job.run(), run.phase.as_str());
        lines.push(format!("{id:<28}  {phase:<9}  {:>5}  {since:>8}  {state}", run.legs));
    }
    lines.extend(
        unreadable.iter().map(|entry| format!("{}  unreadable {}", visible_line(&entry.id), entry.kind)),
    );
    lines
}
