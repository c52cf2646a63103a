//! A conversation on a terminal.

mod abilities;
mod actions;
mod attachments;
mod bash;
mod builtins;
mod completions;
mod drafts;
mod editor;
mod help;
mod inline;
mod job_commands;
mod key_file;
mod keyboard;
mod line_editor;
mod models;
mod question;
mod screen_kind;
mod session_commands;
mod terminal_guard;
mod trust_question;
mod tty;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, AgentConversation, RunOptions};
use zk_core::model::{AgentError, Block, Message, Role};
use zk_core::service::{Command, CommandOutcome, Provider, Questions, match_command};
use zk_skills::{CommandFilesPlugin, Skills};
use zk_view::{Effect, Intent, ViewDriver, body_of};

use self::attachments::Attachments;
use self::keyboard::Keyboard;
use self::line_editor::{LineEditor, ReadLine};
use self::question::TerminalUi;
use self::screen_kind::{ScreenKind, WantedScreen};
use self::terminal_guard::{Restored, TerminalGuard};
use self::tty::Tty;
use super::painter::Painting;
use super::permission_modes::{PermissionModes, explain};
use super::shared_screen::SharedScreen;
use super::summary;
use crate::app::{AppContext, runtime};
use crate::args::{Prompt, Resume};
use crate::commands::window_commands;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::session_switch::SessionSwitch;
use crate::sessions::{self, Kept, Session};
use crate::signals::Signals;
use crate::suggest;
use crate::term::{Screen, Style};

/// A conversation: on the inline screen, or in lines where those are asked for or the terminal can do no more.
pub(crate) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    let tty = Tty::of_stdin(Screen::new(&app.env).is_capable()).map_err(cannot)?;
    let guard = TerminalGuard::of_stdin(tty.clone()).map_err(cannot)?;
    let _restored = Restored(guard.clone());
    let leaving = guard.clone();
    let signals = Signals::watch(move || leaving.leave()).map_err(cannot)?;
    signals.disarm();
    let editor = LineEditor::new(app.dirs.line_history()).map_err(Failure::failed)?;
    let mut seat = Seat { app: app.clone(), tty, guard, signals, runtime: runtime()?, editor };
    let mut kind = ScreenKind::chosen(app);
    let mut start = Start::Open(prompt);
    loop {
        let ended = match kind {
            ScreenKind::Plain => run_lines(&mut seat, start)?,
            ScreenKind::Inline | ScreenKind::Full => inline::run(&mut seat, start, kind)?,
        };
        match ended {
            Ended::Exit(exit) => return Ok(exit),
            Ended::Screen { next, chat, draft } => {
                kind = next;
                start = Start::GoOn { chat, draft };
            }
        }
    }
}

/// What stays while a conversation goes from one screen to another.
struct Seat {
    app: AppContext,
    tty: Tty,
    guard: TerminalGuard,
    signals: Signals,
    runtime: Runtime,
    editor: LineEditor,
}

/// How a screen begins.
enum Start {
    /// With a new conversation.
    Open(Prompt),
    /// With one that another screen drew, and what was being typed there.
    GoOn { chat: Box<Chat>, draft: String },
}

/// How a screen ends.
enum Ended {
    Exit(Exit),
    /// Another one goes on.
    Screen {
        next: ScreenKind,
        chat: Box<Chat>,
        draft: String,
    },
}

fn run_lines(seat: &mut Seat, start: Start) -> Outcome<Ended> {
    let Seat { app, runtime, editor, .. } = seat;
    let (chat, mut given) = match start {
        Start::Open(prompt) => {
            let desk = Desk::of_lines(app, seat.tty.clone());
            let opening = Chat::open(app, &prompt, desk, seat.signals.clone());
            let (chat, app) = runtime.block_on(opening)?;
            chat.greet(&app);
            let choice = (prompt.resume == Some(Resume::Choose)).then(|| "/resume".to_owned());
            (Box::new(chat), prompt.text.or(choice))
        }
        Start::GoOn { chat, draft } => {
            runtime.block_on(async { chat.draw_lines(plain_screen(app)) });
            chat.screen.line(Style::Dim, "plain lines from now on; /screen inline goes back");
            chat.keyboard.set_draft(draft);
            (chat, None)
        }
    };
    let mut interrupted = false;
    let exit = loop {
        let text = match given.take().or_else(|| chat.next_queued(editor)) {
            Some(text) => {
                let label = if chat.screen.lock().is_labelled() { "you:" } else { "›" };
                chat.screen.line(Style::Plain, &format!("{label} {text}"));
                text
            }
            None => match editor.read(&chat.keyboard.take_draft()) {
                ReadLine::Line(text) => text,
                ReadLine::BackTab(typed) => {
                    chat.cycle_mode();
                    chat.keyboard.set_draft(typed);
                    continue;
                }
                ReadLine::Interrupt if interrupted => break Exit::Done,
                ReadLine::Interrupt => {
                    interrupted = true;
                    chat.screen.line(Style::Dim, "Ctrl-C again, or Ctrl-D, ends the conversation");
                    continue;
                }
                ReadLine::End => break Exit::Done,
                ReadLine::Failed(why) => {
                    chat.screen.line(Style::Red, &format!("cannot read the terminal: {why}"));
                    break Exit::Failed;
                }
            },
        };
        interrupted = false;
        match runtime.block_on(chat.handle_line(text.trim())) {
            LineOutcome::Done => {}
            LineOutcome::Failed => chat.keyboard.queue_to_draft(),
            LineOutcome::Quit(exit) => break exit,
        }
        if chat.wanted.take_copy().is_some() {
            chat.screen.line(Style::Yellow, "plain lines cannot use the clipboard; /screen inline can");
        }
        if let Some(next) = chat.wanted.take().filter(|kind| *kind != ScreenKind::Plain) {
            chat.keyboard.queue_to_draft();
            let draft = chat.keyboard.take_draft();
            return Ok(Ended::Screen { next, chat, draft });
        }
    };
    runtime.block_on(chat.close());
    Ok(Ended::Exit(exit))
}

/// Goes on with the next permission mode, and shows which.
fn show_next_mode(modes: &PermissionModes, screen: &SharedScreen) {
    let mode = modes.cycle();
    screen.line(Style::Yellow, &format!("mode {mode}: {}", explain(mode)));
}

/// What came of one line.
enum LineOutcome {
    Done,
    /// It was stopped, or failed.
    Failed,
    /// The conversation is over.
    Quit(Exit),
}

/// The screen of a conversation in plain lines.
fn plain_screen(app: &AppContext) -> Screen {
    Screen::new(&app.env).with_theme(abilities::wanted_theme(app))
}

/// Where the person sits: what is shown, and what is typed.
struct Desk {
    screen: SharedScreen,
    keyboard: Keyboard,
    asking: Arc<Questions>,
    view: ViewDriver,
    /// Whether blocks and questions are drawn in lines here; somebody else draws them otherwise.
    draws_lines: bool,
}

impl Desk {
    fn of_lines(app: &AppContext, tty: Tty) -> Self {
        Self::of(app, tty, SharedScreen::with_keys(plain_screen(app)), true)
    }

    fn of(app: &AppContext, tty: Tty, screen: SharedScreen, draws_lines: bool) -> Self {
        let keyboard = Keyboard::new(tty, screen.clone(), app.limits.clone());
        let asking = Arc::new(Questions::new());
        let view = ViewDriver::answering(&asking);
        Self { screen, keyboard, asking, view, draws_lines }
    }
}

struct Chat {
    agent: Agent,
    conversation: AgentConversation,
    sessions: Arc<SessionSwitch>,
    screen: SharedScreen,
    keyboard: Keyboard,
    signals: Signals,
    view: ViewDriver,
    ui: Arc<TerminalUi>,
    /// Draws the conversation in lines; nothing where somebody else draws it.
    lines: Mutex<Option<Lines>>,
    _following: Attending,
    /// Images that were attached to what is typed.
    attachments: Attachments,
    /// The screen to go on with.
    wanted: WantedScreen,
    cwd: std::path::PathBuf,
}

/// A task that goes on for as long as this is kept.
struct Attending(JoinHandle<()>);

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What draws a conversation in lines.
struct Lines {
    painting: Painting,
    /// Draws the questions, and answers them.
    _attending: Attending,
}

impl Lines {
    fn draw(view: &ViewDriver, screen: &SharedScreen, ui: &Arc<TerminalUi>, attending: Attending) -> Self {
        let painting = Painting::begin(view, screen);
        ui.wait_for(painting.drained());
        Self { painting, _attending: attending }
    }
}

/// Draws the questions of a view in lines.
fn attend(view: &ViewDriver, ui: &Arc<TerminalUi>) -> Attending {
    Attending(tokio::spawn(question::attend(view.clone(), ui.clone())))
}

impl Chat {
    /// Opens the conversation, with the settings it goes by: those of the project count if the person says so.
    async fn open(
        app: &AppContext,
        prompt: &Prompt,
        desk: Desk,
        signals: Signals,
    ) -> Outcome<(Self, AppContext)> {
        let Desk { screen, keyboard, asking, view, draws_lines } = desk;
        screen.take_notices(&app.notices);
        let ui = Arc::new(TerminalUi::new(screen.clone(), keyboard.clone()));
        // A question may come before there is a conversation.
        let following = view.clone();
        let following = tokio::spawn(async move { following.follow_questions().await });
        let following = Attending(following);
        let attending = draws_lines.then(|| attend(&view, &ui));
        let app = trust_question::ask(app, &asking, &keyboard, &signals).await?;
        let endpoint = app.endpoint().await?;
        let provider = compose::provider(&app, &endpoint).await?;
        let session = sessions::begin(&app, prompt.resume.as_ref()).await?;
        let allow_all = app.settings.flag("permissions.allow_all");
        if let Some(open) = session.open.as_ref().filter(|_| session.resumed) {
            view.begin(&open.entries().await.map_err(Failure::failed)?);
        }
        let lines = attending.map(|attending| Lines::draw(&view, &screen, &ui, attending));
        let options =
            HostOptions { ui: Some(ui.clone()), questions: Some(asking), allow_all, view: view.clone() };
        // What belongs to the session alone goes with it when another one takes its place.
        let bus = compose::bus(&app, &Session::default(), options)?;
        let model = compose::model(&app, &*provider, &session).await?;
        let agent = compose::agent(&app, &bus, provider.clone(), model, &session)?;
        let sessions = SessionSwitch::new(&app, provider.clone(), session);
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
        commands.push(job_commands::command(app.cwd.clone()));
        let scope = bus.scope("commands");
        for command in commands {
            // A file cannot take the name of one of zk's own.
            scope.provide_replacing::<dyn Command>(command.name(), command.clone());
        }
        if let Some(modes) = bus.service::<PermissionModes>() {
            let screen = screen.clone();
            keyboard.on_back_tab(move || show_next_mode(&modes, &screen));
        }
        let cwd = app.cwd.clone();
        let chat = Self {
            agent,
            conversation,
            sessions,
            screen,
            keyboard,
            signals,
            view,
            ui,
            lines: Mutex::new(lines),
            _following: following,
            attachments: Attachments::default(),
            wanted,
            cwd,
        };
        Ok((chat, app))
    }

    fn greet(&self, app: &AppContext) {
        let model = self.agent.model().reference();
        let session = self.sessions.current();
        let kept = match &session.open {
            Some(open) if session.resumed => format!("session {} continues", open.id()),
            Some(_) => "session saved".to_owned(),
            None => "session not saved".to_owned(),
        };
        self.screen.line(Style::Dim, &format!("zk {} · {model} · {kept}", env!("CARGO_PKG_VERSION")));
        if app.settings.flag("permissions.allow_all") {
            self.screen.line(Style::Yellow, "every tool runs without asking (--allow-all)");
        }
        if let Some(modes) = self.agent.bus().service::<PermissionModes>() {
            let mode = modes.chosen();
            let text = format!("mode {mode}: {} · Shift-Tab changes it", explain(mode));
            self.screen.line(Style::Dim, &text);
        }
        self.screen.line(Style::Dim, "/help lists the commands, !command runs one of your own, Ctrl-D ends");
        // The drawn screen shows it as it was drawn when it took place.
        if session.resumed && self.lines().is_some() {
            for line in session_commands::last_exchange(&self.view.view().blocks) {
                self.screen.line(Style::Dim, &line);
            }
        }
    }

    fn cycle_mode(&self) {
        if let Some(modes) = self.agent.bus().service::<PermissionModes>() {
            show_next_mode(&modes, &self.screen);
        }
    }

    /// The next of the texts that were typed during a run.
    fn next_queued(&self, editor: &mut LineEditor) -> Option<String> {
        let text = self.keyboard.next_queued()?;
        editor.remember(&text);
        Some(text)
    }

    /// Does what a line asks for.
    async fn handle_line(&self, line: &str) -> LineOutcome {
        if line.is_empty() {
            return LineOutcome::Done;
        }
        if let Some(command) = line.strip_prefix('!') {
            let (command, private) = command.strip_prefix('!').map_or((command, false), |rest| (rest, true));
            let work = |stop| bash::run(self, command.trim(), private, stop);
            return self.interruptible(work).await.unwrap_or_else(|outcome| outcome);
        }
        match self.command(line).await {
            Err(outcome) => outcome,
            Ok(outcome) => self.apply(line, outcome).await,
        }
    }

    /// Does what the view asks of its host.
    async fn follow_view(&self) -> LineOutcome {
        let mut outcome = LineOutcome::Done;
        while let Some(effect) = self.view.take_effect() {
            match effect {
                // The outcome of a run is printed here.
                Effect::Run { text } => outcome = self.run_prompt(&text).await,
                Effect::LoadBody { id } => {
                    let entries = match &self.sessions.current().open {
                        Some(open) => open.entries().await.unwrap_or_default(),
                        None => Vec::new(),
                    };
                    match body_of(&entries, &id) {
                        Some(lines) => self.view.body(&id, &lines),
                        None => self.screen.line(Style::Yellow, "this output is not kept any more"),
                    }
                }
                Effect::GiveBack { text } => self.keyboard.give_back(&text),
                Effect::Steer { .. }
                | Effect::Abort
                | Effect::Reply { .. }
                | Effect::Switch { .. }
                | Effect::Compact { .. } => _ = self.view.carry_out(&self.conversation, effect).await,
                // The keyboard ends waits, and commands come as lines.
                Effect::Hurry | Effect::Command { .. } => {}
            }
        }
        self.flush().await;
        outcome
    }

    /// Waits until everything that happened is drawn, where it is drawn in lines.
    async fn flush(&self) {
        let drained = self.lines().as_ref().map(|lines| lines.painting.drained());
        if let Some(drained) = drained {
            drained.wait().await;
        }
    }

    fn lines(&self) -> MutexGuard<'_, Option<Lines>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the conversation in lines on `screen` from now on.
    fn draw_lines(&self, screen: Screen) {
        self.wanted.set_drawn(false);
        self.screen.replace(screen);
        let attending = attend(&self.view, &self.ui);
        *self.lines() = Some(Lines::draw(&self.view, &self.screen, &self.ui, attending));
    }

    /// Somebody else draws the conversation from now on, and what is written to `screen`.
    fn draw_elsewhere(&self, screen: Screen) {
        self.wanted.set_drawn(true);
        *self.lines() = None;
        self.screen.replace(screen);
    }

    /// Has the view stop the run.
    async fn stop(&self) {
        self.view.intent(&Intent::Stop);
        while let Some(effect) = self.view.take_effect() {
            let _ = self.view.carry_out(&self.conversation, effect).await;
        }
    }

    /// Sends a prompt, and waits for the end of its run.
    async fn submit(&self, text: String) -> LineOutcome {
        self.view.intent(&Intent::Submit { text });
        // A run does what effects ask for as well.
        Box::pin(self.follow_view()).await
    }

    /// Does what came of a line.
    async fn apply(&self, line: &str, outcome: Option<CommandOutcome>) -> LineOutcome {
        Box::pin(self.follow_view()).await;
        match outcome {
            Some(CommandOutcome::Done) => LineOutcome::Done,
            Some(CommandOutcome::Show(text)) => {
                text.lines().for_each(|line| self.screen.line(Style::Plain, line));
                LineOutcome::Done
            }
            Some(CommandOutcome::Prompt(text)) => self.submit(text).await,
            Some(CommandOutcome::Quit) => LineOutcome::Quit(Exit::Done),
            None => self.submit(line.to_owned()).await,
        }
    }

    /// Runs `/name arguments`; nothing when the line is a prompt.
    async fn command(&self, line: &str) -> Result<Option<CommandOutcome>, LineOutcome> {
        let Some(rest) = line.strip_prefix('/') else { return Ok(None) };
        let cx = self.agent.bus().cx();
        // One that was trusted a moment ago may not have been looked for yet.
        if rest.starts_with("skill:")
            && let Some(skills) = cx.service::<Skills>()
        {
            let _ = skills.refresh(&cx).await;
        }
        // A file may have come or gone since the last command.
        if let Some(files) = cx.service::<CommandFilesPlugin>() {
            files.refresh(&cx).await;
        }
        let Some((command, args)) = match_command(rest, |name| cx.item::<dyn Command>(name)) else {
            let name = rest.split_whitespace().next().filter(|_| !rest.starts_with(char::is_whitespace));
            let name = name.unwrap_or_default();
            if rest.trim().is_empty() {
                let text = "a command begins with / and its name; /help lists them";
                return Ok(Some(CommandOutcome::Show(text.to_owned())));
            }
            // Something like `/etc/hosts` is the beginning of a prompt.
            if name.is_empty() || name.contains('/') {
                return Ok(None);
            }
            let all = cx.items::<dyn Command>();
            let hint = suggest::did_you_mean(name, all.iter().map(|command| &*command.name));
            let text = format!("there is no command /{name}{hint}; /help lists them");
            return Ok(Some(CommandOutcome::Show(text)));
        };
        let run = async |stop: CancellationToken| {
            let ran = stop.run_until_cancelled(command.run(args, &cx)).await;
            if ran.is_none() {
                self.screen.line(Style::Yellow, "stopped");
            }
            ran
        };
        Ok(match self.interruptible(run).await? {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(error)) => Some(CommandOutcome::Show(error.to_string())),
            None => return Err(LineOutcome::Failed),
        })
    }

    /// One run.
    async fn run_prompt(&self, prompt: &str) -> LineOutcome {
        // A prompt that was given back and sent as it was is in the conversation already.
        let images = self.attachments.of(prompt);
        let options = if self.is_unanswered(prompt) {
            RunOptions::resume()
        } else if images.is_empty() {
            RunOptions::from(prompt)
        } else {
            RunOptions::prompt(std::iter::once(Block::text(prompt)).chain(images).collect())
        };
        let run = match self.conversation.run(options).await {
            Ok(run) => run,
            Err(error) => {
                self.screen.line(Style::Red, &error.to_string());
                return LineOutcome::Failed;
            }
        };
        self.interruptible(async |stop: CancellationToken| {
            let mut wait = std::pin::pin!(run.wait());
            let outcome = tokio::select! {
                outcome = &mut wait => outcome,
                () = stop.cancelled() => {
                    self.stop().await;
                    wait.await
                }
            };
            self.flush().await;
            self.screen.end_line();
            // Elsewhere the view says how the run ended, and what it took.
            let is_told = self.lines().is_none();
            match &outcome.result {
                _ if is_told => {}
                Ok(()) => {
                    if let Some(note) = summary::incomplete(&outcome, &outcome.text) {
                        self.screen.line(Style::Yellow, &note);
                    }
                }
                Err(AgentError::Aborted) => self.screen.line(Style::Yellow, "stopped"),
                Err(error) => self.screen.line(Style::Red, &summary::run_error(error)),
            }
            self.sessions.current().print_notices();
            let failed = matches!(&outcome.result, Err(error) if !matches!(error, AgentError::Aborted));
            if failed && self.is_unanswered(prompt) {
                self.keyboard.give_back(prompt);
            }
            // A handler of `input` may have dealt with the prompt.
            if !is_told && (outcome.stats.turns > 0 || outcome.result.is_err()) {
                self.screen.line(Style::Dim, &summary::totals(&outcome.stats));
            }
            if outcome.result.is_ok() { LineOutcome::Done } else { LineOutcome::Failed }
        })
        .await
        .unwrap_or_else(|outcome| outcome)
    }

    /// Does `work` while Escape and Ctrl-C stop it; fails when they did, or the conversation has to end.
    async fn interruptible<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, LineOutcome> {
        let stop = CancellationToken::new();
        self.signals.arm_run(stop.clone());
        let watching = self.keyboard.watch(stop.clone());
        if let Err(error) = &watching {
            self.screen.line(Style::Yellow, &format!("only Ctrl-C stops this: cannot read keys: {error}"));
        }
        let worked = work(stop.clone()).await;
        drop(watching);
        let seen = self.signals.seen();
        self.signals.disarm();
        match seen {
            Some(exit) if exit == Exit::Terminated => Err(LineOutcome::Quit(exit)),
            Some(_) | None if stop.is_cancelled() => Err(LineOutcome::Failed),
            Some(_) | None => Ok(worked),
        }
    }

    async fn close(&self) {
        self.conversation.close().await;
        self.agent.bus().close().await;
        for left in self.sessions.take_left() {
            match left {
                Err(error) => self.screen.line(Style::Red, &format!("session not saved: {error}")),
                Ok(Kept::All(id)) => self.screen.line(Style::Dim, &format!("to go on: zk --resume {id}")),
                Ok(Kept::Part { id, missing }) => self.screen.line(
                    Style::Yellow,
                    &format!("session saved but for its last {missing} entries; to go on: zk --resume {id}"),
                ),
                Ok(Kept::Nothing) => {}
            }
        }
    }

    /// Whether the conversation ends with this prompt: it was sent, and nothing came of it.
    fn is_unanswered(&self, prompt: &str) -> bool {
        let is_it = |message: &Arc<Message>| {
            message.role == Role::User && message.injected_by.is_none() && message.text() == prompt
        };
        self.agent.history().last().is_some_and(is_it)
    }
}
