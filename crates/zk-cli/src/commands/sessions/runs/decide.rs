use std::io::IsTerminal;

use zk_core::service::{EngineRun, RunPhase, StoredQuestion, UiAnswer};
use zk_tui::term::print_stderr;

use super::question::{describe_question, question_lines, question_of};
use super::{engine, name, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::ApproveArgs;
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};

/// Sends a run a message, which it reads before its next turn.
pub(crate) fn steer(app: &AppContext, run: &str, text: &str) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let found = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        runs.steer(&found, text).await?;
        Ok::<EngineRun, Failure>(found)
    })?;
    print(&app.work.machine, &[format!("{} has the message", found.job.run())])
}

/// Cancels a run.
pub(crate) fn abort(app: &AppContext, run: &str) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let (found, before) = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        let id = found.job.run().clone();
        runs.cancel(&found).await?;
        Ok::<_, Failure>((runs.find(id.as_str()).await?, found.phase))
    })?;
    let id = found.job.run();
    print(
        &app.work.machine,
        &[match found.phase {
            phase if before.is_finished() => format!("{id} is over already ({phase})"),
            RunPhase::Running => format!("{id} is being cancelled"),
            phase => format!("{id} is {phase}"),
        }],
    )
}

/// Shows the question at which a run is parked.
fn show_question(app: &AppContext, found: &EngineRun) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let mut lines = runtime()?.block_on(question_lines(&**runs.store(), found))?;
    if lines.is_empty() {
        lines.push(format!("{} has no open question ({})", found.job.run(), found.phase));
    }
    print(&app.work.machine, &lines)
}

/// Answers the question at which a run is parked.
pub(crate) fn approve(app: &AppContext, args: &ApproveArgs) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let runtime = runtime()?;
    let found = runtime.block_on(runs.find(&args.run))?;
    let id = found.job.run();
    if args.show {
        return show_question(app, &found);
    }
    let asked = runtime.block_on(question_of(&**runs.store(), &found))?;
    let Some((_, question)) = asked else {
        return Err(Failure::failed(match found.phase {
            RunPhase::Parked => format!("{id} waits for no answer, or has it already"),
            phase => format!("{id} waits for no answer: it is {phase}"),
        }));
    };
    let answer = if args.no {
        UiAnswer::No { message: args.because.clone() }
    } else if ask_to_approve(&question, args.digest.as_deref(), id.as_str())? {
        UiAnswer::Once
    } else {
        return print(&app.work.machine, &[format!("{id} still waits")]);
    };
    runtime.block_on(runs.answer(&found, answer))?;
    print(&app.work.machine, &[format!("{id} has the answer; a worker goes on with it")])
}

/// Shows the whole call and asks the person to approve it, unless they gave its digest.
fn ask_to_approve(question: &StoredQuestion, digest: Option<&str>, run: &str) -> Outcome<bool> {
    let own = &question.digest;
    match digest {
        Some(given) if given.eq_ignore_ascii_case(own) => return Ok(true),
        Some(_) => {
            return Err(Failure::failed(format!(
                "the digest of the call is {own}, so another call waits than the one you read: `zk fleet approve {run} --show` shows it"
            )));
        }
        None => {}
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "nobody can be asked here: read what waits with `zk fleet approve {run} --show`, then add --digest {own}"
        )));
    }
    describe_question(question).iter().for_each(|line| print_stderr(line));
    print_stderr("let it run? [y/N]");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Asks workers to finish their legs and end.
pub(crate) fn drain(app: &AppContext, worker: Option<&str>) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let worker = worker.map(name).transpose()?;
    let asked = runtime()?.block_on(engine(machine)?.drain(worker.as_ref()))?;
    let lines: Vec<String> = match (asked.as_slice(), &worker) {
        ([], Some(worker)) => return Err(Failure::failed(format!("no worker `{worker}` serves"))),
        ([], None) => vec!["no worker serves".to_owned()],
        (asked, _) => {
            asked.iter().map(|name| format!("{name} ends; its runs go on with other workers")).collect()
        }
    };
    print(machine, &lines)
}
