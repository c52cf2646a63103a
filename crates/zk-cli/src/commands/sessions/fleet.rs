//! Conversations of all processes on this machine.

use std::path::Path;
use std::time::{Duration, Instant};

use zk_core::service::{SessionFilter, SessionStore as _};
use zk_goals::{FleetDir, FleetError, FleetRequest, FleetView, fleet_lines};

use crate::app::{AppContext, runtime};
use crate::args::fleet::FleetAction;
use crate::args::{Prompt, Resume};
use crate::commands::{print, print_text};
use crate::commands::{runs, serve_fleet};
use crate::compose::sessions::goals;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::host::worker_program;
use crate::mode;
use crate::sessions::{store, store_failure};

/// Longest wait for a conversation to carry out a request, which it polls once a second.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
const REQUEST_PAUSE: Duration = Duration::from_millis(100);

impl Explain for FleetError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unknown(_) | Self::Ambiguous(_) | Self::NoQuestion(_) | Self::Answer(_) => Exit::Usage,
            Self::Alive { .. } | Self::Gone { .. } | Self::File(_) | Self::Dir { .. } => Exit::Failed,
        }
    }
}

/// Lists the conversations, or acts on one.
pub(crate) fn fleet(app: &AppContext, action: Option<FleetAction>, json: bool) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let no_place = || Failure::usage("there is no place for zk's state: set HOME or ZK_HOME");
    let dir = goals::fleet(machine).ok_or_else(no_place)?;
    let Some(action) = action else {
        forget_deleted(app, &dir)?;
        let views = dir.list()?;
        if json {
            let text = serde_json::to_string_pretty(&views).map_err(Failure::failed)?;
            return print_text(machine, &text);
        }
        let home = machine.env.get("HOME").map(Path::new);
        let mut lines = fleet_lines(&views, home);
        lines.extend(runs::overview(app)?);
        return print(machine, &lines);
    };
    if json {
        return Err(Failure::usage("--json is for the list: zk fleet --json"));
    }
    match action {
        FleetAction::Submit(args) => runs::submit(app, &args),
        FleetAction::Ls { active, json } => runs::list(app, active, json),
        FleetAction::Watch { run } => runs::watch(app, &run),
        FleetAction::Steer { run, text } => runs::steer(app, &run, &text),
        FleetAction::Abort { run } => runs::abort(app, &run),
        FleetAction::Approve(args) => runs::approve(app, &args),
        FleetAction::Retry { run } => runs::retry(app, &run),
        FleetAction::Raise { run, budget } => runs::raise(app, &run, budget.budget()),
        FleetAction::Files { run, dir } => runs::bring_files(app, &run, &dir),
        FleetAction::Top { once } => runs::top(app, once),
        FleetAction::Serve(args) => serve_fleet(app, &args),
        FleetAction::Drain { worker } => runs::drain(app, worker.as_deref()),
        FleetAction::Schedule(args) => runs::schedule(app, &args),
        FleetAction::Setup => runs::set_up(machine),
        FleetAction::Stop { id } => {
            let view = dir.find(&id)?;
            if !view.state.is_alive() {
                dir.forget(&view)?;
                return print(machine, &[format!("{} left the list; its session stays", view.entry.id)]);
            }
            dir.send(&view, &FleetRequest::Stop { listed_ms: view.entry.updated_ms })?;
            if !view.entry.is_working() {
                // Sub-agents in the background are not listed.
                let told =
                    format!("{} runs nothing; sub-agents in the background stop, if any work", view.entry.id);
                return print(machine, &[told]);
            }
            let is_stopped = |now: &FleetView| !now.state.is_alive() || !now.entry.is_running;
            wait_until_done(&dir, &view, is_stopped, "does not stop")?;
            print(machine, &[format!("{} stopped", view.entry.id)])
        }
        FleetAction::Answer { id, answer } => {
            let view = match dir.find(&id) {
                Err(FleetError::Unknown(id)) => {
                    // The engine may be one of `zk-worker`, which conversations do without.
                    worker_program::take_over(app)?;
                    return runs::answer(app, &id, &answer);
                }
                found => found?,
            };
            let entry = &view.entry;
            let none = || FleetError::NoQuestion(entry.id.clone());
            let question = entry.questions.first().ok_or_else(none)?;
            let answer = question.read_answer(&answer)?;
            let (id, digest) = (question.id, question.digest);
            dir.send(&view, &FleetRequest::Answer { id, digest, answer })?;
            let is_answered = |now: &FleetView| now.entry.questions.iter().all(|open| open.id != id);
            wait_until_done(&dir, &view, is_answered, "does not take the answer")?;
            print(machine, &[format!("{} has the answer", entry.id)])
        }
        FleetAction::Attach { id } => attach(app, &dir.find(&id)?),
    }
}

/// Removes conversations whose process is gone and whose session was deleted, since nothing can go on with them.
fn forget_deleted(app: &AppContext, dir: &FleetDir) -> Outcome<()> {
    let mut gone = dir.list()?;
    gone.retain(|view| !view.state.is_alive() && view.entry.session.is_some());
    if gone.is_empty() {
        return Ok(());
    }
    let filter = SessionFilter { unanswered: true, ..SessionFilter::default() };
    let listed =
        runtime()?.block_on(async { store(&app.work.machine)?.list(&filter).await.map_err(store_failure) });
    // Without the list of sessions, every conversation stays.
    let Ok(sessions) = listed else { return Ok(()) };
    for view in gone {
        if !sessions.iter().any(|kept| Some(&kept.id) == view.entry.session.as_ref()) {
            // Another process may have opened the conversation meanwhile.
            let _ = dir.forget(&view);
        }
    }
    Ok(())
}

/// Continues the session of a conversation whose process is gone.
fn attach(app: &AppContext, view: &FleetView) -> Outcome<Exit> {
    let entry = &view.entry;
    if view.state.is_alive() {
        let place = entry.cwd.display();
        return Err(Failure::failed(format!(
            "{} lives in process {}, in {place}: go there, or stop it with `zk fleet stop {}`",
            entry.id, entry.pid, entry.id
        )));
    }
    let none =
        || Failure::failed(format!("{} kept no session: `zk fleet stop {}` removes it", entry.id, entry.id));
    let session = entry.session.as_ref().ok_or_else(none)?;
    if entry.cwd != app.work.cwd {
        let place = entry.cwd.display();
        return Err(Failure::usage(format!(
            "that conversation worked in {place}: go there, then `zk fleet attach {}`",
            entry.id
        )));
    }
    let resume = Some(Resume::Id(session.to_string()));
    mode::run(app, Prompt { resume, ..Prompt::default() })
}

/// Waits until a conversation has carried out a request, as `is_done` checks; `what` completes the error message.
fn wait_until_done(
    dir: &FleetDir,
    view: &FleetView,
    is_done: impl Fn(&FleetView) -> bool,
    what: &str,
) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match dir.find(&view.entry.id) {
            Ok(now) if is_done(&now) => return Ok(()),
            Ok(_) => {}
            // The process ended meanwhile.
            Err(FleetError::Unknown(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if begun.elapsed() >= REQUEST_WAIT {
            return Err(Failure::failed(format!(
                "{} {what}: its process {} may be stopped or busy",
                view.entry.id, view.entry.pid
            )));
        }
        std::thread::sleep(REQUEST_PAUSE);
    }
}
