use std::sync::Arc;

use serde_json::json;
use zk_core::service::{Clock, Entry, NewSession, Provider, SessionStore};
use zk_replay::{Difference, Playback, Recording, ReplayProvider, compare};
use zk_serve::print::write_value;
use zk_session::{MemoryStore, Recorder};
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::term::print_stderr;
use zk_view::ViewDriver;

use super::output::{finish, output};
use crate::app::AppContext;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::summary;
use crate::sessions::{Session, store_failure};

/// Tool that only attended conversations have.
const TOOL_OF_PERSON: &str = "ask_user";

/// Runs the agent with recorded answers, and prints the differences from the recording.
pub(super) async fn print_differences(
    app: &AppContext,
    entries: &[Entry],
    answers: Option<Recording>,
    json: bool,
) -> Outcome<Exit> {
    let recording = Recording::of(entries);
    let is_attended = recording.had_person() && recording.offers_tool(TOOL_OF_PERSON).unwrap_or(true);
    let playback = Playback::new(recording.clone()).attend(is_attended);
    let playback = match answers {
        Some(answers) => playback.answered_by(answers),
        None => playback,
    };
    let run = drive(app, &playback, is_attended).await?;
    let found = compare(&recording, &run);
    if json {
        let output = output()?;
        let has_requests = recording.has_requests();
        let line = json!({
            "same": found.is_empty(),
            "turns": recording.turns(),
            "requests_compared": has_requests,
            "differences": found.iter().map(difference_json).collect::<Vec<_>>(),
        });
        output.add(|out| write_value(&line, &app.work.machine.redactor, out));
        finish(&output)?;
    } else {
        print(app, &recording, &found)?;
    }
    Ok(if found.is_empty() { Exit::Done } else { Exit::Failed })
}

fn difference_json(difference: &Difference) -> serde_json::Value {
    let mut value = serde_json::to_value(difference).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("text".to_owned(), difference.to_string().into());
    }
    value
}

fn print(app: &AppContext, recording: &Recording, found: &[Difference]) -> Outcome<()> {
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    for difference in found {
        let text = app.work.machine.redactor.redact(&difference.to_string()).into_owned();
        screen.line(Style::PLAIN, &text);
    }
    let turns = recording.turns();
    if found.is_empty() {
        screen.line(Style::PLAIN, &format!("no difference in {turns} turns"));
    }
    screen.finish()?;
    if !recording.has_requests() {
        print_stderr(
            "zk: an older zk wrote this session: its requests and permission verdicts are not in it, and not compared",
        );
    }
    Ok(())
}

/// Drives the agent that the settings describe.
async fn drive(app: &AppContext, playback: &Playback, is_attended: bool) -> Outcome<Recording> {
    let app = AppContext { settings: app.settings.for_replay(), ..app.clone() };
    let clock: Arc<dyn Clock> = playback.clock();
    let store = MemoryStore::new().with_clock(clock);
    let new = NewSession { id: None, cwd: app.work.cwd.clone(), parent: None };
    let open = store.create(new).await.map_err(store_failure)?;
    let mut session = Session::default();
    session.recorder = Some(Recorder::new(open.clone()));
    session.open = Some(open.clone());
    let questions = is_attended.then(|| Arc::new(playback.questions().clone()));
    let allow_all = app.settings.permissions.allow_all;
    let host = HostOptions {
        ui: None,
        questions,
        allow_all,
        is_listed: false,
        view: ViewDriver::new(),
        lease: None,
    };
    let bus = compose::bus(&app, &session, host).await?;
    let driven = async {
        bus.install(playback).map_err(Failure::failed)?;
        let mut names = playback.answers().providers().into_iter();
        let first = names.next().ok_or_else(|| Failure::usage("no model answered in this session"))?;
        let scope = bus.scope("replay-providers");
        for name in names {
            let provider = Arc::new(ReplayProvider::new(&*name, playback.clone()));
            scope.provide::<dyn Provider>(&name, provider).map_err(Failure::failed)?;
        }
        let provider = Arc::new(ReplayProvider::new(&*first, playback.clone()));
        let model = provider.model(&provider.default_model().unwrap_or_default());
        let agent = compose::agent(&app, &bus, provider, model, &session, summary::run_error)?;
        let driven = playback.drive(&agent).await.map_err(Failure::failed);
        agent.close().await;
        driven
    };
    let driven = driven.await;
    bus.close().await;
    driven?;
    Ok(Recording::of(&open.entries().await.map_err(store_failure)?))
}
