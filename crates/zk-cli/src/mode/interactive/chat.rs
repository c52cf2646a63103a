use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, AgentConversation};
use zk_core::service::{Provider, Questions};
use zk_tui::Style;
use zk_tui::plain::{Keyboard, LineEditor, Screen, SharedScreen, TerminalUi, Waiting};
use zk_view::ViewDriver;

use super::attachments::Attachments;
use super::carried::Carried;
use super::front_end::{AbortOnDrop, ConsoleFrontEnd, Lines, attend};
use super::wanted_screen::WantedScreen;
use super::{builtins, directory, job_commands, session_commands, trust_question};
use crate::app::AppContext;
use crate::args::Prompt;
use crate::commands::window_commands;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::own_commands::{is_harmless, provide_own};
use crate::mode::permission_modes::{PermissionModes, explain};
use crate::session_switch::SessionSwitch;
use crate::sessions::{self, Kept, Session};
use crate::signals::Signals;

/// Told when a command begins and ends.
type OnBusy = Arc<dyn Fn(bool) + Send + Sync>;

/// Beginning of a conversation.
#[derive(Clone, Copy)]
pub(super) enum ConversationSource<'a> {
    /// Prompt of the command line.
    Prompt(&'a Prompt),
    /// The conversation before it, with settings that were read anew and may need the person's trust, unless `stop` ends
    /// that. Without `stop` it is opened with the settings it had: nothing is asked, and nothing stops it.
    Carried { carried: &'a Carried, stop: Option<&'a CancellationToken> },
}

impl<'a> ConversationSource<'a> {
    fn stop(self) -> Option<&'a CancellationToken> {
        match self {
            Self::Prompt(_) => None,
            Self::Carried { stop, .. } => stop,
        }
    }

    /// Awaits `work`, unless the opening is stopped.
    async fn unless_stopped<T>(self, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        let Some(stop) = self.stop() else { return work.await };
        let stopped = || Err(Failure::new(Exit::Interrupted, STOPPED));
        stop.run_until_cancelled(work).await.unwrap_or_else(stopped)
    }
}

/// Reason why a conversation is not open: the person did not want to wait.
const STOPPED: &str = "stopped before the conversation was open";

/// A conversation with a person: the agent, where it is shown, and what is typed.
pub(super) struct Chat {
    /// Context that the conversation was opened with.
    pub(super) app: AppContext,
    pub(super) agent: Agent,
    pub(super) conversation: AgentConversation,
    pub(super) sessions: Arc<SessionSwitch>,
    pub(super) screen: SharedScreen,
    pub(super) keyboard: Keyboard,
    pub(super) signals: Signals,
    pub(super) view: ViewDriver,
    pub(super) asking: Arc<Questions>,
    pub(super) ui: Arc<TerminalUi>,
    /// Draws the conversation in lines; nothing where somebody else draws it.
    pub(super) lines: Mutex<Option<Lines>>,
    /// Told when a command begins and ends of which the view knows nothing.
    on_busy: Mutex<Option<OnBusy>>,
    _following: AbortOnDrop,
    /// Images that were attached to what is typed.
    pub(super) attachments: Attachments,
    /// The screen to go on with.
    pub(super) wanted: WantedScreen,
    /// Commands that were typed during a run and are done beside it.
    pub(super) beside: tokio::sync::Mutex<UnboundedReceiver<String>>,
}

/// Outcome of one line.
pub(super) enum LineOutcome {
    Done,
    /// The line was stopped, or failed.
    Failed,
    /// The conversation was to be opened anew, which cannot be done: text typed behind that was typed for
    /// another state of things.
    ReloadRejected,
    /// The conversation is over.
    Quit(Exit),
    /// The conversation goes on with what was read anew.
    Reload(Box<AppContext>),
}

/// Goes on with the next permission mode, and shows which.
fn show_next_mode(modes: &PermissionModes, screen: &SharedScreen) {
    let mode = modes.cycle();
    screen.line(Style::YELLOW, &format!("mode {mode}: {}", explain(mode)));
}

impl Chat {
    /// Opens the conversation. The settings of the project count if the person says so.
    pub(super) async fn open(
        app: &AppContext,
        opens: ConversationSource<'_>,
        front_end: ConsoleFrontEnd,
        signals: Signals,
    ) -> Outcome<Self> {
        let ConsoleFrontEnd { screen, keyboard, asking, view, draws_lines } = front_end;
        screen.take_notices(&app.notices);
        let ui = Arc::new(TerminalUi::new(screen.clone(), keyboard.clone()));
        // A question may come before there is a conversation.
        let following = view.clone();
        let following = tokio::spawn(async move { following.follow_questions().await });
        let following = AbortOnDrop(following);
        let attending = draws_lines.then(|| attend(&view, &ui));
        let app = match opens {
            ConversationSource::Carried { stop: None, .. } => app.clone(),
            ConversationSource::Carried { .. } | ConversationSource::Prompt(_) => {
                trust_question::ask(app, &asking, &keyboard, &signals, opens.stop()).await?
            }
        };
        let provider = opens.unless_stopped(async {
            let endpoint = match opens {
                ConversationSource::Prompt(_) => app.endpoint().await?,
                ConversationSource::Carried { carried, .. } => carried.endpoint(&app).await?,
            };
            compose::provider(&app, &endpoint).await
        });
        let provider = provider.await?;
        let session = match opens {
            ConversationSource::Prompt(prompt) => sessions::begin(&app, prompt.resume.as_ref()).await?,
            ConversationSource::Carried { carried, .. } => carried.session(&app).await?,
        };
        let allow_all = app.settings.permissions.allow_all;
        // A conversation that is carried over is shown already.
        if let (ConversationSource::Prompt(_), Some(entries)) = (opens, session.restored()) {
            view.begin(&entries);
            if let Some(line) = sessions::not_shown(&session) {
                screen.line(Style::DIM, &line);
            }
        }
        let lines = attending.map(|attending| Lines::draw(&view, &screen, &ui, attending));
        let options = HostOptions {
            ui: Some(ui.clone()),
            questions: Some(asking.clone()),
            allow_all,
            view: view.clone(),
        };
        // Plugins of the session alone go with it when another one takes its place.
        let bus = match compose::bus(&app, &Session::default(), options).await {
            Ok(bus) => bus,
            Err(failure) => {
                if matches!(opens, ConversationSource::Carried { .. }) {
                    session.keep_outputs();
                }
                // Another conversation may be opened on it instead.
                let _ = session.close().await;
                return Err(failure);
            }
        };
        let sessions = SessionSwitch::new(&app, &bus, provider.clone(), session);
        let first = sessions.current();
        let opened = async {
            let model = match opens {
                ConversationSource::Prompt(_) => compose::model(&app, &*provider, &first).await?,
                ConversationSource::Carried { carried, .. } => {
                    compose::describe_model(&*provider, &carried.model.id).await
                }
            };
            let agent = compose::agent(&app, &bus, provider.clone(), model, &first)?;
            let conversation = AgentConversation::stored(agent.clone(), sessions.clone(), &sessions.parts()?)
                .await
                .map_err(Failure::failed)?;
            bus.scope("provider")
                .provide::<dyn Provider>(provider.name(), provider.clone())
                .map_err(Failure::failed)?;
            let wanted = WantedScreen::default();
            wanted.set_drawn(!draws_lines);
            let mut commands = builtins::all(&agent, &app, &view, &wanted);
            commands.extend(session_commands::all(&conversation, &sessions, &app, &view, &keyboard, &wanted));
            commands.extend(window_commands(&conversation));
            commands.push(job_commands::command());
            commands.push(directory::command());
            provide_own(&bus, &commands).iter().for_each(|warning| app.notices.show(warning));
            if let Some(modes) = bus.service::<PermissionModes>() {
                let screen = screen.clone();
                keyboard.on_back_tab(move || show_next_mode(&modes, &screen));
            }
            let attachments = match opens {
                ConversationSource::Prompt(_) => Attachments::default(),
                ConversationSource::Carried { carried, .. } => {
                    carried.restore(&conversation, &app.notices).await?;
                    carried.attachments.clone()
                }
            };
            // Only now is there somebody who takes what is sent.
            let (sender, beside) = unbounded_channel();
            keyboard.on_line(move |line| {
                let line = line.trim();
                is_harmless(line) && sender.send(line.to_owned()).is_ok()
            });
            Ok::<_, Failure>(Self {
                app: app.clone(),
                agent,
                conversation,
                sessions: sessions.clone(),
                screen,
                keyboard,
                signals,
                view,
                asking,
                ui,
                lines: Mutex::new(lines),
                _following: following,
                attachments,
                wanted,
                on_busy: Mutex::default(),
                beside: tokio::sync::Mutex::new(beside),
            })
        };
        let opened = opens.unless_stopped(opened).await;
        if opened.is_err() {
            if matches!(opens, ConversationSource::Carried { .. }) {
                first.keep_outputs();
            }
            // Another conversation may be opened instead, beside which nothing of this one is to run.
            bus.close().await;
            if sessions.take_left().is_empty() {
                // Nothing was installed yet that closes it; why it cannot go on is said already.
                let _ = first.close().await;
            }
        }
        opened
    }

    pub(super) fn greet(&self) {
        let model = self.agent.model().reference();
        let session = self.sessions.current();
        let kept = match &session.open {
            Some(open) if session.resumed => format!("session {} continues", open.id()),
            Some(_) => "session saved".to_owned(),
            None => "session not saved".to_owned(),
        };
        self.screen.line(Style::DIM, &format!("zk {} · {model} · {kept}", env!("CARGO_PKG_VERSION")));
        if self.app.settings.permissions.allow_all {
            self.screen.line(Style::YELLOW, "every tool runs without asking (--allow-all)");
        }
        if let Some(modes) = self.agent.bus().service::<PermissionModes>() {
            let mode = modes.chosen();
            let text = format!("mode {mode}: {} · Shift-Tab changes it", explain(mode));
            self.screen.line(Style::DIM, &text);
        }
        self.screen.line(Style::DIM, "/help lists the commands, !command runs one of your own, Ctrl-D ends");
        // The drawn screen shows it as it was drawn when it took place.
        if session.resumed && self.lines().is_some() {
            for line in session_commands::last_exchange(&self.view.view().blocks) {
                self.screen.line(Style::DIM, &line);
            }
        }
    }

    /// Has `tell` told when a command begins and ends of which the view knows nothing.
    pub(super) fn on_busy(&self, tell: impl Fn(bool) + Send + Sync + 'static) {
        *self.on_busy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tell));
    }

    pub(super) fn tell_busy(&self, is_busy: bool) {
        let tell = self.on_busy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tell.iter().for_each(|tell| tell(is_busy));
    }

    pub(super) fn cycle_mode(&self) {
        if let Some(modes) = self.agent.bus().service::<PermissionModes>() {
            show_next_mode(&modes, &self.screen);
        }
    }

    /// Shows a text of the person that is being dealt with.
    pub(super) fn echo(&self, text: &str) {
        let label = if self.screen.lock().is_labelled() { "you:" } else { "›" };
        self.screen.line(Style::PLAIN, &format!("{label} {text}"));
    }

    /// The next of the texts that were typed during a run.
    pub(super) fn next_queued(&self, editor: &mut LineEditor) -> Option<Waiting> {
        let waiting = self.keyboard.next_queued()?;
        editor.remember(&waiting.text);
        Some(waiting)
    }

    /// Waits until everything that happened is drawn, where it is drawn in lines.
    pub(super) async fn flush(&self) {
        let drained = self.lines().as_ref().map(|lines| lines.painting.drained());
        if let Some(drained) = drained {
            drained.wait().await;
        }
    }

    pub(super) fn lines(&self) -> MutexGuard<'_, Option<Lines>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the conversation in lines on `screen` from now on.
    pub(super) fn draw_lines(&self, screen: Screen) {
        self.wanted.set_drawn(false);
        self.screen.replace(screen);
        let attending = attend(&self.view, &self.ui);
        *self.lines() = Some(Lines::draw(&self.view, &self.screen, &self.ui, attending));
    }

    /// Somebody else draws the conversation from now on, and what is written to `screen`.
    pub(super) fn draw_elsewhere(&self, screen: Screen) {
        self.wanted.set_drawn(true);
        *self.lines() = None;
        self.screen.replace(screen);
    }

    pub(super) async fn close(&self) {
        self.conversation.close().await;
        self.agent.bus().close().await;
        for left in self.sessions.take_left() {
            match left {
                Err(error) => self.screen.line(Style::RED, &format!("session not saved: {error}")),
                Ok(Kept::All(id)) => self.screen.line(Style::DIM, &format!("to go on: zk --resume {id}")),
                Ok(Kept::Part { id, missing }) => self.screen.line(
                    Style::YELLOW,
                    &format!("session saved but for its last {missing} entries; to go on: zk --resume {id}"),
                ),
                Ok(Kept::Nothing) => {}
            }
        }
    }
}
