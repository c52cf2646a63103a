use std::ops::ControlFlow;

use zk_core::model::RunId;
use zk_core::service::{EngineRun, Job, RunPhase, visible_line};
use zk_engine::{Placement, Runs};

use super::{name, preset, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::{HandoffArgs, PlacementArgs, SubmitArgs};
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
        budget: args.budget.budget(),
        tenant: None,
    })
}

pub(super) fn submitted_lines(job: &Job) -> Vec<String> {
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
