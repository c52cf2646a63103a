use std::ops::ControlFlow;
use std::path::Path;

use zk_core::model::RunId;
use zk_core::service::{EngineRun, Job, RunPhase, visible_line};
use zk_engine::{KEPT_WORKSPACE, Placement, Runs, WorkspaceName};

use super::files::store_files;
use super::{host_name, name, preset, runs};
use crate::app::{AppContext, runtime};
use crate::args::fleet::{HandoffArgs, PlacementArgs, SubmitArgs};
use crate::args::{Prompt, Resume};
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode;
use crate::sessions::{require_id, store_failure};

/// Submits a run with a prompt.
pub(crate) fn submit(app: &AppContext, args: &SubmitArgs) -> Outcome<Exit> {
    let (runs, mut placement) = (runs(&app.work.machine)?, placement(app, &args.placement)?);
    let job = runtime()?.block_on(async {
        if args.placement.keep {
            placement = keep(app, &app.work.cwd, placement).await?;
        }
        Ok::<_, Failure>(runs.submit(&app.work.cwd, &args.text, placement).await?)
    })?;
    print(&app.work.machine, &submitted_lines(&job))
}

/// Submits an existing session as a run.
pub(crate) fn handoff(app: &AppContext, args: &HandoffArgs) -> Outcome<Exit> {
    let (runs, mut placement) = (runs(&app.work.machine)?, placement(app, &args.placement)?);
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
        if args.placement.keep {
            let scanned = store.scan(&session, Box::new(|_, _| ControlFlow::Break(()))).await;
            placement = keep(app, &scanned.map_err(store_failure)?.info.cwd, placement).await?;
        }
        Ok::<_, Failure>(runs.hand_off(&session, args.text.as_deref(), placement).await?)
    })?;
    print(&app.work.machine, &submitted_lines(&job))
}

/// Stores the files of a directory for the run of a placement.
async fn keep(app: &AppContext, dir: &Path, placement: Placement) -> Outcome<Placement> {
    let run = placement.run.clone().unwrap_or_else(RunId::fresh);
    let files = Some(store_files(app, dir, &run).await?);
    Ok(Placement { run: Some(run), workspace: Some(name(KEPT_WORKSPACE)?), files, ..placement })
}

fn placement(app: &AppContext, args: &PlacementArgs) -> Outcome<Placement> {
    let host = args.pin.then(|| host_name(app)).transpose()?.map(|host| host.as_name().clone());
    let (workspace, queue) = (args.workspace.as_deref(), args.queue.as_deref());
    Ok(Placement {
        run: args.run.as_deref().map(|id| name(id).map(|id| RunId::from(id.as_str()))).transpose()?,
        preset: preset(app)?,
        workspace: workspace.map(name).transpose()?.or_else(|| host.clone()),
        files: None,
        queue: queue.map(name).transpose()?.or(host),
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
    let workspace = match WorkspaceName::of(&run.job) {
        WorkspaceName::Kept => {
            return Err(Failure::usage(format!(
                "{id} works in a private directory of its worker: `zk fleet files {id} DIR` brings its files, and `zk fleet steer {id} \
                 TEXT` talks to it"
            )));
        }
        WorkspaceName::OnHost(host) if host_name(app)?.as_name() != host => Some(host),
        WorkspaceName::OnHost(_) | WorkspaceName::OfSession => None,
        WorkspaceName::Named(workspace) => Some(workspace),
    };
    if let Some(workspace) = workspace {
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
