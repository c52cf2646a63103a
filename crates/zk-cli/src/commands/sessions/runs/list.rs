use std::collections::BTreeMap;

use zk_chat::age;
use zk_core::service::{Engine, EngineRun, RunFilter, RunPhase, UnreadableEntry, Wait, visible_line};
use zk_engine::EngineLocation;
use zk_tui::term::print_stderr;

use super::question::{question_of, question_title};
use super::{engine, local_engine};
use crate::app::{AppContext, runtime};
use crate::commands::{counted, print, print_text};
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions;

/// Most questions whose words the list shows: each is read from its session.
const MAX_SHOWN_QUESTIONS: usize = 50;

/// Most runs that the overview lists beside the conversations.
const MAX_OVERVIEW_RUNS: usize = 20;

/// Lists the runs.
pub(crate) fn list(app: &AppContext, active: bool, json: bool) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let filter = if active { RunFilter::unfinished() } else { RunFilter::default() };
    let engine = engine(machine)?;
    let (runs, unreadable) = runtime()?
        .block_on(async { Ok::<_, Failure>((engine.list(&filter).await?, engine.unreadable().await?)) })?;
    if json {
        unreadable.iter().for_each(|entry| print_stderr(&unreadable_line(entry)));
        let text = serde_json::to_string_pretty(&runs).map_err(Failure::failed)?;
        return print_text(machine, &text);
    }
    let mut lines = described_runs(app, &runs)?;
    lines.extend(unreadable.iter().map(unreadable_line));
    if lines.is_empty() {
        lines.push("there are no runs; `zk fleet submit \"what to do\"` submits one".to_owned());
    }
    print(machine, &lines)
}

/// Describes the unfinished runs for the list of conversations; empty if no run was ever submitted.
pub(crate) fn overview(app: &AppContext) -> Outcome<Vec<String>> {
    let machine = &app.work.machine;
    if let location @ EngineLocation::Remote(_) = machine.engine.location() {
        return Ok(vec![format!("runs are in {location}: `zk fleet ls` lists them")]);
    }
    let engine = local_engine(machine)?;
    if !engine.path().exists() {
        return Ok(Vec::new());
    }
    let filter = RunFilter { limit: Some(MAX_OVERVIEW_RUNS + 1), ..RunFilter::unfinished() };
    let (runs, unreadable) = runtime()?
        .block_on(async { Ok::<_, Failure>((engine.list(&filter).await?, engine.unreadable().await?)) })?;
    let first = runs.len().saturating_sub(MAX_OVERVIEW_RUNS);
    let mut lines = described_runs(app, runs.get(first..).unwrap_or_default())?;
    if first > 0 {
        lines.push("more: `zk fleet ls --active`".to_owned());
    }
    lines.extend(unreadable.iter().map(unreadable_line));
    Ok(lines)
}

fn unreadable_line(entry: &UnreadableEntry) -> String {
    let (id, why) = (visible_line(&entry.id), visible_line(&entry.why));
    format!("{id}  unreadable {}: {why}", entry.kind)
}

/// Describes runs, with the words of the questions at which they are parked.
fn described_runs(app: &AppContext, runs: &[EngineRun]) -> Outcome<Vec<String>> {
    let is_asking = |run: &&EngineRun| matches!(run.wait, Some(Wait::Answer(_)));
    let mut titles = BTreeMap::new();
    if runs.iter().any(|run| is_asking(&run)) {
        let store = sessions::store(&app.work.machine)?;
        runtime()?.block_on(async {
            for run in runs.iter().filter(is_asking).take(MAX_SHOWN_QUESTIONS) {
                // A session that cannot be read now is listed without the words.
                if let Ok(Some((_, question))) = question_of(&*store, run).await {
                    titles.insert(run.job.run(), question_title(&question, run.job.run()));
                }
            }
        });
    }
    Ok(runs.iter().flat_map(|run| lines_of(run, titles.get(run.job.run()))).collect())
}

/// Describes a run; `asked` is the question at which it is parked, with the command that answers it.
fn lines_of(run: &EngineRun, asked: Option<&(String, String)>) -> Vec<String> {
    let id = run.job.run();
    let worker = match (&run.worker, run.phase) {
        (Some(worker), RunPhase::Running) => format!("  on {worker}"),
        (Some(_) | None, _) => String::new(),
    };
    let queue = run.job.queue().map(|queue| format!("  queue {queue}")).unwrap_or_default();
    let mut lines = vec![format!(
        "{id}  {:<9}  {}  {}  session {}{queue}{worker}",
        run.phase.as_str(),
        counted(run.legs, "leg", "legs"),
        age(run.changed),
        run.job.session(),
    )];
    if let Some(wait) = &run.wait {
        let command = match wait {
            Wait::Answer(_) => match asked {
                Some((_, command)) => format!(": {command}"),
                None => format!(": zk fleet approve {id} --show"),
            },
            Wait::Budget => format!(": zk fleet raise {id} --budget-usd AMOUNT"),
            Wait::Mail | Wait::Until(_) | Wait::Children(_) => String::new(),
        };
        lines.push(format!("  waits for {wait}{command}"));
        lines.extend(asked.map(|(words, _)| format!("    {words}")));
    }
    if let Some(failure) = &run.failure {
        lines.push(format!("  failed: {failure}"));
        lines.push(format!("  `zk fleet retry {id}` goes on with it as a new run"));
    }
    if run.is_cancelling {
        lines.push("  is being cancelled".to_owned());
    }
    lines
}
