use std::ops::ControlFlow;
use std::time::Duration;

use zk_core::model::RunId;
use zk_core::service::{CronError, EngineRun, Job, RunPhase, Schedule, ScheduleTimes, visible_line};
use zk_engine::{Placement, Runs};

use super::{engine, name, preset, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::{HandoffArgs, PlacementArgs, ScheduleArgs, SubmitArgs};
use crate::args::{Prompt, Resume};
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode;
use crate::sessions::{require_id, store_failure};

/// Submits a run with a prompt.
pub(crate) fn submit(app: &AppContext, args: &SubmitArgs) -> Outcome<Exit> {
    let (runs, placement) = (runs(&app.work.machine)?, placement(app, &args.placement)?);
    let job = runtime()?.block_on(runs.submit(&app.work.cwd, &args.text, placement))?;
    print(&app.work.machine, &submitted_lines(&job))
}

/// Submits an existing session as a run.
pub(crate) fn handoff(app: &AppContext, args: &HandoffArgs) -> Outcome<Exit> {
    let (runs, placement) = (runs(&app.work.machine)?, placement(app, &args.placement)?);
    let job = runtime()?.block_on(async {
        let store = &**runs.store();
        let session = match &args.session {
            Some(id) => {
                zk_session::find_matching(store, require_id(id, "--session")?).await.map_err(store_failure)?
            }
            None => {
                let newest = zk_session::latest(store, &app.work.cwd).await.map_err(store_failure)?;
                let none =
                    || Failure::usage("there is no session of this directory: name one with --session");
                newest.ok_or_else(none)?.id
            }
        };
        Ok::<_, Failure>(runs.hand_off(&session, args.text.as_deref(), placement).await?)
    })?;
    print(&app.work.machine, &submitted_lines(&job))
}

fn placement(app: &AppContext, args: &PlacementArgs) -> Outcome<Placement> {
    Ok(Placement {
        run: args.run.as_deref().map(|id| name(id).map(|id| RunId::from(id.as_str()))).transpose()?,
        preset: preset(app)?,
        workspace: args.workspace.as_deref().map(name).transpose()?,
        queue: args.queue.as_deref().map(name).transpose()?,
        priority: args.priority,
    })
}

fn submitted_lines(job: &Job) -> Vec<String> {
    let run = job.run();
    vec![
        format!("{run} is submitted; its session is {}", job.session()),
        format!("  `zk fleet watch {run}` shows it, and `zk worker` serves it where none runs yet"),
    ]
}

/// Continues the session of a run that no worker has.
pub(crate) fn attach(app: &AppContext, run: &str) -> Outcome<Exit> {
    let runs = runs(&app.work.machine)?;
    let found = runtime()?.block_on(runs.find(run))?;
    check_directory(app, &runs, &found)?;
    let (id, session) = (found.job.run(), found.job.session().to_string());
    match found.phase {
        RunPhase::Queued | RunPhase::Running => {
            return Err(Failure::failed(format!(
                "{id} is {}: `zk fleet watch {id}` shows it, `zk fleet steer {id} TEXT` talks to it, and `zk fleet abort {id}` \
                 ends it first",
                found.phase
            )));
        }
        RunPhase::Parked | RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => {}
    }
    let resume = Some(Resume::Id(session));
    mode::run(app, Prompt { resume, ..Prompt::default() })
}

/// Checks that this is the directory that a run worked in: its relative paths, rules and trust mean another one elsewhere.
fn check_directory(app: &AppContext, runs: &Runs, run: &EngineRun) -> Outcome<()> {
    let id = run.job.run();
    if let Some(workspace) = run.job.workspace() {
        return Err(Failure::usage(format!(
            "{id} works in the workspace `{workspace}` of its worker: `zk fleet watch {id}` shows it, and `zk fleet steer {id} TEXT` \
             talks to it"
        )));
    }
    let nothing = Box::new(|_, _| ControlFlow::Break(()));
    let scanned = runtime()?.block_on(runs.store().scan(run.job.session(), nothing));
    let cwd = scanned.map_err(store_failure)?.info.cwd;
    if cwd == app.work.cwd {
        return Ok(());
    }
    let place = visible_line(&cwd.display().to_string());
    Err(Failure::usage(format!("{id} worked in {place}: go there, then `zk attach {id}`")))
}

/// Adds, removes or lists schedules.
pub(crate) fn schedule(app: &AppContext, args: &ScheduleArgs) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let Some(schedule) = &args.name else {
        let plans = runtime()?.block_on(engine(machine)?.schedules())?;
        let mut lines: Vec<String> = plans.iter().map(schedule_row).collect();
        if lines.is_empty() {
            lines.push("there are no schedules".to_owned());
        }
        return print(machine, &lines);
    };
    let schedule = name(schedule)?;
    if args.remove {
        let is_removed = runtime()?.block_on(engine(machine)?.unschedule(&schedule))?;
        let none =
            || Failure::usage(format!("there is no schedule `{schedule}`; `zk fleet schedule` lists them"));
        return is_removed
            .then_some(())
            .ok_or_else(none)
            .and_then(|()| print(machine, &[format!("{schedule} is removed")]));
    }
    let text = args.text.as_deref().unwrap_or_default();
    let times = schedule_times(args)?;
    let placement = Placement {
        preset: preset(app)?,
        workspace: args.workspace.as_deref().map(name).transpose()?,
        queue: args.queue.as_deref().map(name).transpose()?,
        ..Placement::default()
    };
    let place = (app.work.cwd.clone(), text);
    let plan = runtime()?.block_on(runs(machine)?.schedule(schedule, times, place, placement))?;
    print(machine, &[schedule_row(&plan)])
}

fn schedule_row(plan: &Schedule) -> String {
    let times = match &plan.times {
        ScheduleTimes::Every(pause) => format!("every {} s", pause.as_secs()),
        ScheduleTimes::DailyAt(minute) => format!("daily at {:02}:{:02} UTC", minute / 60, minute % 60),
        ScheduleTimes::Cron(line) => format!("at `{line}`"),
    };
    format!("{}  {times}  prompt in session {}", plan.name, plan.job.template)
}

fn schedule_times(args: &ScheduleArgs) -> Outcome<ScheduleTimes> {
    let wrong = |text: &str, wanted: &str| Failure::usage(format!("`{text}` is no time: use {wanted}"));
    if let Some(text) = &args.daily {
        let minute = text.split_once(':').and_then(|(hour, minute)| {
            let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        });
        return minute.map(ScheduleTimes::DailyAt).ok_or_else(|| wrong(text, "HH:MM, such as 03:30"));
    }
    if let Some(line) = &args.cron {
        return line
            .parse()
            .map(ScheduleTimes::Cron)
            .map_err(|error: CronError| Failure::usage(error.to_string()));
    }
    let text = args.every.as_deref().unwrap_or_default();
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let count = text.strip_suffix(unit)?.parse::<u64>().ok().filter(|count| *count > 0)?;
        count.checked_mul(*seconds)
    });
    let wanted = "a number and s, m, h or d, such as 15m";
    seconds
        .map(|seconds| ScheduleTimes::Every(Duration::from_secs(seconds)))
        .ok_or_else(|| wrong(text, wanted))
}
