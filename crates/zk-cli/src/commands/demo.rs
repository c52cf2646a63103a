//! `zk demo`: a scripted model repairs a small project with zk's real tools.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit as CommandExit, OutputStream, Provider};
use zk_testkit::ScriptedProvider;
use zk_testkit::demo::{self, PROMPT, Project, TEST};
use zk_tui::Style;
use zk_tui::plain::{Painting, Screen, SharedScreen};
use zk_view::ViewDriver;

use crate::app::{AppContext, Workplace, runtime};
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::summary::run_error;
use crate::sessions::Session;
use crate::signals::{self, exit_of};
use zk_chat::Interrupts;

/// Pause between two pieces of the scripted model's text, so that a person can follow.
const PACE: Duration = Duration::from_millis(20);

/// Unpacks the project, lets the scripted model repair it, and runs its tests. The exit code is 0 only if
/// they pass.
pub(crate) fn run(app: &AppContext, keep: bool) -> Outcome<Exit> {
    let project = Project::unpack(keep)
        .map_err(|error| Failure::failed(format!("cannot write the demo's project: {error}")))?;
    let app = app.for_demo(project.dir());
    let screen = SharedScreen::new(Screen::stdout(&app.work.machine.terminal()));
    screen.take_notices(&app.work.machine.notices);
    screen.line(Style::BOLD, "zk demo · scripted model: no LLM is asked");
    screen.lock().prose(
        Style::DIM,
        "What the model says is scripted. The agent, the tools, the files and the test runs are real.",
    );
    screen.lock().prose(Style::DIM, &format!("project: {}", project.dir().display()));
    screen.lock().prose(Style::PLAIN, &format!("› {PROMPT}"));

    let stop = CancellationToken::new();
    let signals = signals::watch(|| ())
        .map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    signals.arm_process(stop.clone(), || ());
    let exit = runtime()?.block_on(repair(&app, &screen, &stop))?;
    if keep {
        screen.line(Style::PLAIN, &format!("the project is kept in {}", project.dir().display()));
    }
    Ok(signals.seen().map_or(exit, exit_of))
}

async fn repair(app: &AppContext, screen: &SharedScreen, stop: &CancellationToken) -> Outcome<Exit> {
    let pace = std::io::stdout().is_terminal().then_some(PACE);
    let provider: Arc<dyn Provider> = Arc::new(ScriptedProvider::new(demo::repair(pace)));
    let session = Session::default();
    let view = ViewDriver::new();
    // The project is a copy of zk's own in a directory of its own.
    let bus = compose::bus(
        app,
        &session,
        HostOptions {
            ui: None,
            questions: None,
            allow_all: true,
            is_listed: false,
            view: view.clone(),
            lease: None,
        },
    )
    .await?;
    let painting = Painting::begin(&view, screen);
    let model = provider.model("scripted");
    let agent = compose::agent(app, &bus, provider, model, &session, run_error)?;
    let run = agent.run(PROMPT).map_err(Failure::failed)?;
    let handle = run.handle();
    let mut wait = std::pin::pin!(run.wait());
    let outcome = tokio::select! {
        outcome = &mut wait => outcome,
        () = stop.cancelled() => {
            handle.abort();
            wait.await
        }
    };
    painting.flush().await;
    screen.end_line();
    if let Err(error) = &outcome.result {
        screen.line(Style::RED, &error.to_string());
    }
    screen.lock().prose(Style::DIM, &zk_chat::totals(&outcome.stats));
    let passes = tests_pass(&app.work, &bus, stop).await;
    agent.close().await;
    bus.close().await;
    Ok(match (outcome.result, passes) {
        (Ok(()), true) => {
            screen.line(Style::GREEN, "checked again without the agent: the project's tests pass");
            Exit::Done
        }
        (Ok(()) | Err(_), _) => {
            screen.line(Style::RED, "the project's tests do not pass: the demo failed");
            Exit::Failed
        }
    })
}

/// Runs the project's tests, independently of the model; returns whether they pass.
async fn tests_pass(work: &Workplace, bus: &zk_core::kernel::Bus, stop: &CancellationToken) -> bool {
    let Some(exec) = bus.service::<dyn Exec>() else { return false };
    let mut ignored = |_: OutputStream, _: &[u8]| ();
    let request = ExecRequest::shell(TEST, work.cwd.clone());
    exec.run(request, &mut ignored, stop).await.is_ok_and(|outcome| outcome.exit == CommandExit::Code(0))
}
