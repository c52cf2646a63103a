use std::io::IsTerminal;

use zk_core::service::{EngineRun, RunPhase, StoredQuestion, UiAnswer, visible_line};
use zk_engine::Runs;
use zk_tui::term::print_stderr;

use super::question::{describe_question, question_lines, question_of, read_answer};
use super::{engine, name, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::{ApproveArgs, GrantArgs};
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
    let question = runtime.block_on(waiting_question(&runs, &found))?;
    let yes = yes_of(&args.grant);
    if !args.no && !question.question.allows(&yes) {
        return Err(Failure::usage(format!(
            "the question of {id} offers {}: `zk fleet approve {id} --show` shows it",
            question.question.describe_answers()
        )));
    }
    let granted = question.question.granted_by(&yes).map(visible_line).filter(|_| !args.no);
    let answer = if args.no {
        UiAnswer::No { message: args.because.clone() }
    } else if ask_to_approve(&question, granted.as_deref(), args.digest.as_deref(), id.as_str())? {
        yes
    } else {
        return print(&app.work.machine, &[format!("{id} still waits")]);
    };
    runtime.block_on(runs.answer(&found, answer))?;
    let mut lines = vec![format!("{id} has the answer; a worker goes on with it")];
    lines.extend(
        granted.map(|granted| format!("  allowed from now on, on every worker of the run: {granted}")),
    );
    print(&app.work.machine, &lines)
}

/// Answers a question of a run that is no permission.
pub(crate) fn answer(app: &AppContext, run: &str, typed: &str) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let id = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        let question = waiting_question(&runs, &found).await?;
        let answer = read_answer(&question.question, typed, found.job.run())?;
        runs.answer(&found, answer).await?;
        Ok::<_, Failure>(found.job.run().clone())
    })?;
    print(&app.work.machine, &[format!("{id} has the answer; a worker goes on with it")])
}

/// Returns the question at which a run is parked.
async fn waiting_question(runs: &Runs, run: &EngineRun) -> Outcome<StoredQuestion> {
    let asked = question_of(&**runs.store(), run).await?;
    let id = run.job.run();
    let none = || {
        Failure::failed(match run.phase {
            RunPhase::Parked => format!("{id} waits for no answer, or has it already"),
            phase => format!("{id} waits for no answer: it is {phase}"),
        })
    };
    asked.map(|(_, question)| question).ok_or_else(none)
}

/// Returns the yes that the options of the command line stand for.
fn yes_of(grant: &GrantArgs) -> UiAnswer {
    match (grant.for_session, grant.always) {
        (_, true) => UiAnswer::Always,
        (true, false) => UiAnswer::Session,
        (false, false) => UiAnswer::Once,
    }
}

/// Shows the whole call and asks the person to approve it, unless they gave its digest. `granted` describes what else the
/// approval allows.
fn ask_to_approve(
    question: &StoredQuestion,
    granted: Option<&str>,
    digest: Option<&str>,
    run: &str,
) -> Outcome<bool> {
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
    match granted {
        Some(granted) => print_stderr(&format!("let it run, and from now on {granted}? [y/N]")),
        None => print_stderr("let it run? [y/N]"),
    }
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
