use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use zk_core::model::Message;
use zk_core::service::Conversation;
use zk_tools::Jobs;
use zk_tui::{Abilities, Action, App, Completer, Input, Looks, ModelFacts, Modes, Notices, Theme, Typed};
use zk_view::{Effect, NoteLevel, Reader, ViewDriver};

use super::attachments::Attachments;
use super::completions::Completions;
use super::drafts::Drafts;
use super::editor::Editing;
use super::keyboard::Keyboard;
use super::line_editor::LineEditor;
use super::screen_kind::ScreenKind;
use super::terminal_guard::TerminalGuard;
use super::{Chat, Desk, Ended, LineOutcome, Seat, Start};
use super::{job_commands, key_file};
use crate::app::AppContext;
use crate::args::Prompt;
use crate::env::Env;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::permission_modes::PermissionModes;
use crate::mode::shared_screen::SharedScreen;
use crate::session_switch::SessionSwitch;
use crate::signals::{Signals, stop_process};
use crate::term::{Screen, Style, redacted};

/// How long the screen waits for what is still to be drawn at the end.
const LAST: Duration = Duration::from_millis(30);

/// How long after the last key a draft is stored.
const DRAFT: Duration = Duration::from_millis(500);

/// A conversation on the inline screen: what is closed scrolls away, what is typed stays below it. Or on all of the
/// terminal, for as long as that is wanted.
pub(super) fn run(seat: &mut Seat, start: Start, kind: ScreenKind) -> Outcome<Ended> {
    let Seat { app, tty, guard, signals, runtime, editor } = seat;
    let suspending = guard.clone();
    signals.on_suspend(move || suspending.suspend());
    guard.hold_panics();
    let (sink, printed) = unbounded_channel();
    let drawn = Screen::drawn_by(sink, &app.env);
    let (start, desk, draft) = match start {
        Start::Open(prompt) => {
            let desk = Desk::of(app, tty.clone(), SharedScreen::new(drawn), false);
            let shared = (desk.keyboard.clone(), desk.view.clone());
            (
                Begin::Open(Box::new(Opening { app: app.clone(), prompt, desk, signals: signals.clone() })),
                shared,
                String::new(),
            )
        }
        Start::GoOn { chat, draft } => {
            chat.draw_elsewhere(drawn);
            let shared = (chat.keyboard.clone(), chat.view.clone());
            (Begin::GoOn(chat), shared, draft)
        }
    };
    let (todo, work) = unbounded_channel();
    let (notes, told) = unbounded_channel();
    let opened = Arc::new(OnceLock::new());
    let (keyboard, view) = desk;
    let reader = view.reader();
    let mut screen = InlineScreen {
        app: app.clone(),
        guard: guard.clone(),
        keyboard,
        view,
        is_full: kind == ScreenKind::Full,
        opened: opened.clone(),
        notes: notes.clone(),
        todo,
        partial: String::new(),
        began: Instant::now(),
    };
    let worker = Worker { work, notes, opened };
    runtime.block_on(async {
        let working = Box::pin(worker.run(start));
        screen.run(working, reader, printed, told, editor, &draft).await
    })
}

/// How the conversation begins.
enum Begin {
    Open(Box<Opening>),
    GoOn(Box<Chat>),
}

/// What a new conversation begins with.
struct Opening {
    app: AppContext,
    prompt: Prompt,
    desk: Desk,
    signals: Signals,
}

/// How it ends for this screen: for good, or with another one that was asked for.
enum WorkEnd {
    Exit(Exit),
    Screen(ScreenKind, Box<Chat>),
}

/// What the conversation has to do.
enum Work {
    Line(String),
    Effect(Effect),
    Quit,
}

/// What it tells the screen.
pub(super) enum Note {
    /// It runs a command, of which the view knows nothing.
    Busy(bool),
    GiveBack(String),
    /// Draw on all of the terminal, or below what it shows.
    Full(bool),
    /// Names were found that may be typed.
    Names,
    /// A text for the clipboard.
    Copy(String),
}

/// The part of a conversation that both sides use.
pub(super) struct Opened {
    pub(super) agent: zk_agent::Agent,
    conversation: zk_agent::AgentConversation,
    pub(super) sessions: Arc<SessionSwitch>,
    attachments: Attachments,
}

/// Runs prompts and commands, one after the other.
struct Worker {
    work: UnboundedReceiver<Work>,
    notes: UnboundedSender<Note>,
    opened: Arc<OnceLock<Opened>>,
}

impl Worker {
    async fn run(mut self, begin: Begin) -> Outcome<WorkEnd> {
        let (chat, mut given) = match begin {
            Begin::Open(opening) => {
                let Opening { app, prompt, desk, signals } = *opening;
                let (chat, app) = Chat::open(&app, &prompt, desk, signals).await?;
                chat.greet(&app);
                (Box::new(chat), prompt.text.map(Work::Line))
            }
            Begin::GoOn(chat) => (chat, None),
        };
        let opened = Opened {
            agent: chat.agent.clone(),
            conversation: chat.conversation.clone(),
            sessions: chat.sessions.clone(),
            attachments: chat.attachments.clone(),
        };
        let _ = self.opened.set(opened);
        let exit = loop {
            let work = match given.take() {
                Some(work) => Some(work),
                None => self.work.recv().await,
            };
            let outcome = match work {
                None | Some(Work::Quit) => break Exit::Done,
                Some(Work::Line(line)) => self.line(&chat, line.trim()).await,
                Some(Work::Effect(Effect::Run { text })) => chat.run_prompt(&text).await,
                Some(Work::Effect(effect)) => {
                    if let Some(Effect::GiveBack { text }) =
                        chat.view.carry_out(&chat.conversation, effect).await
                    {
                        self.tell(Note::GiveBack(text));
                    }
                    LineOutcome::Done
                }
            };
            while let Some(text) = chat.keyboard.next_queued() {
                self.tell(Note::GiveBack(text));
            }
            let draft = chat.keyboard.take_draft();
            if !draft.is_empty() {
                self.tell(Note::GiveBack(draft));
            }
            match outcome {
                LineOutcome::Done | LineOutcome::Failed => {}
                LineOutcome::Quit(exit) => break exit,
            }
            if let Some(text) = chat.wanted.take_copy() {
                self.tell(Note::Copy(text));
            }
            match chat.wanted.take() {
                Some(ScreenKind::Plain) => return Ok(WorkEnd::Screen(ScreenKind::Plain, chat)),
                Some(kind) => self.tell(Note::Full(kind == ScreenKind::Full)),
                None => {}
            }
        };
        chat.close().await;
        Ok(WorkEnd::Exit(exit))
    }

    async fn line(&self, chat: &Chat, line: &str) -> LineOutcome {
        let is_command = line.starts_with(['/', '!']);
        if is_command {
            chat.screen.line(Style::Bold, &format!("› {line}"));
            self.tell(Note::Busy(true));
        }
        let outcome = chat.handle_line(line).await;
        if is_command {
            self.tell(Note::Busy(false));
        }
        outcome
    }

    fn tell(&self, note: Note) {
        // The screen may have ended.
        let _ = self.notes.send(note);
    }
}

struct InlineScreen {
    app: AppContext,
    guard: TerminalGuard,
    keyboard: Keyboard,
    view: ViewDriver,
    /// Whether the conversation begins on all of the terminal.
    is_full: bool,
    opened: Arc<OnceLock<Opened>>,
    todo: UnboundedSender<Work>,
    notes: UnboundedSender<Note>,
    /// What was printed of a line that is not complete.
    partial: String,
    began: Instant,
}

impl InlineScreen {
    /// Draws until the conversation ends. It sleeps while nothing changes.
    async fn run(
        &mut self,
        working: impl Future<Output = Outcome<WorkEnd>>,
        mut reader: Reader,
        mut printed: UnboundedReceiver<(Style, String)>,
        mut told: UnboundedReceiver<Note>,
        editor: &mut LineEditor,
        draft: &str,
    ) -> Outcome<Ended> {
        let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
        let mut resized = signal(SignalKind::window_change()).map_err(cannot)?;
        let mut hung_up = signal(SignalKind::hangup()).map_err(cannot)?;
        let abilities = abilities(&self.app.env, self.app.settings.text("theme"));
        self.guard.begin_drawing(abilities.follows_ground).map_err(cannot)?;
        let mut input = Some(Input::read().map_err(cannot)?);
        let mut editing: Option<Edited> = None;
        let mut drafts = Drafts::new(&self.app, DRAFT);
        let completer = self.completer();
        let app = App::new(self.view.view(), Modes::size(), abilities, editor.history(), completer);
        let (keymap, said) = key_file::read(&self.app);
        let mut app = app.masked_by(mask).with_keys(keymap);
        said.iter().for_each(|line| app.print(zk_tui::Style::YELLOW, line));
        app.give_back(draft);
        if let Some(lost) = drafts.take_lost() {
            app.give_back(&lost);
        }
        app.set_full(self.is_full);
        let mut working = pin!(working);
        let mut is_closed = false;
        let exit = loop {
            let tick = app.next_tick().map(|at| self.began + at).into_iter().chain(drafts.due()).min();
            let tick_at = tick.unwrap_or(self.began);
            tokio::select! {
                exit = &mut working => break exit,
                typed = typed(input.as_mut()) => match typed {
                    Typed::Keys(keys) => {
                        for action in app.keys(&keys, self.began.elapsed()) {
                            match action {
                                Action::Edit(text) => {
                                    input = None;
                                    match self.begin_editing(&text, &mut app).await {
                                        Ok(begun) => editing = Some(begun),
                                        Err(why) => {
                                            self.end_editing(Err(why), &mut app).map_err(cannot)?;
                                            input = Some(Input::read().map_err(cannot)?);
                                        }
                                    }
                                }
                                action => self.act(action, &mut app, editor).await?,
                            }
                        }
                    }
                    Typed::Bytes(_) => {}
                    Typed::Gone => break Ok(WorkEnd::Exit(Exit::Terminated)),
                },
                patches = reader.next(), if !is_closed => match patches {
                    Some(patches) => app.patches(&patches, self.began.elapsed()),
                    None => is_closed = true,
                },
                Some((style, text)) = printed.recv() => self.print(&mut app, style, &text),
                Some(note) = told.recv() => match note {
                    Note::Busy(is_busy) => app.set_busy(is_busy),
                    Note::GiveBack(text) => app.give_back(&text),
                    Note::Full(is_full) => app.set_full(is_full),
                    Note::Names => app.names_changed(),
                    Note::Copy(text) => {
                        let said = if app.copy(&text) {
                            "the last answer is in the clipboard of the terminal, if it allows that"
                        } else {
                            "the last answer is too long for the clipboard of a terminal"
                        };
                        app.print(zk_tui::Style::DIM, said);
                    }
                },
                edited = edited(editing.as_mut()) => {
                    editing = None;
                    self.end_editing(edited, &mut app).map_err(cannot)?;
                    input = Some(Input::read().map_err(cannot)?);
                }
                _ = resized.recv(), if editing.is_none() => {
                    let bytes = app.resize(Modes::size(), self.began.elapsed());
                    self.write(&bytes, &app).map_err(cannot)?;
                }
                _ = hung_up.recv() => break Ok(WorkEnd::Exit(Exit::Terminated)),
                () = self.guard.leaves() => break Ok(WorkEnd::Exit(Exit::Terminated)),
                () = self.guard.suspends(), if editing.is_none() => self.suspend(&mut app, false).map_err(cannot)?,
                () = sleep_until(tick_at), if tick.is_some() => {
                    for action in app.tick(self.began.elapsed()) {
                        self.act(action, &mut app, editor).await?;
                    }
                }
            }
            drafts.note(|| app.draft());
            app.set_model(self.model());
            let frame = app.frame(self.began.elapsed());
            self.write(&frame, &app).map_err(cannot)?;
        };
        while let Ok(Some(patches)) = timeout(LAST, reader.next()).await {
            app.patches(&patches, self.began.elapsed());
        }
        while let Ok((style, text)) = printed.try_recv() {
            self.print(&mut app, style, &text);
        }
        // A terminal that is gone shows nothing more.
        let bytes = app.leave();
        let _ = self.write(&bytes, &app);
        drop((input, editing));
        drafts.forget();
        self.guard.end_drawing();
        Ok(match exit? {
            WorkEnd::Exit(exit) => Ended::Exit(exit),
            WorkEnd::Screen(next, chat) => Ended::Screen { next, chat, draft: app.draft() },
        })
    }

    async fn act(&self, action: Action, app: &mut App, editor: &mut LineEditor) -> Outcome<()> {
        match action {
            Action::Line(line) => self.work(Work::Line(line)),
            Action::Intent(intent) => {
                self.view.intent(&intent);
                self.follow_view().await;
            }
            Action::Stop => self.keyboard.stop(),
            Action::Hurry => _ = self.app.limits.skip_waits(),
            Action::Job { id, kill } => self.job(&id, kill),
            Action::Attach(path) => self.attach(&path, app),
            Action::NextMode => self.keyboard.back_tab(),
            Action::Remember(text) => editor.remember(&text),
            Action::Suspend => self.suspend(app, true).map_err(|error| {
                Failure::failed(format!("cannot use the terminal after zk was stopped: {error}"))
            })?,
            Action::Quit => self.work(Work::Quit),
            // The loop does it, since what is typed goes elsewhere then.
            Action::Edit(_) => {}
        }
        Ok(())
    }

    /// Attaches an image whose path was pasted, where the model sees images; its path stays text otherwise.
    fn attach(&self, path: &str, app: &mut App) {
        let Some(opened) = self.opened.get() else { return app.insert(path) };
        let model = opened.agent.model();
        let added = if model.capabilities.vision {
            opened.attachments.add(&self.app, path)
        } else {
            Err(format!("{} does not see images: the path stays text", model.reference()))
        };
        match added {
            Ok(mark) => app.attach(&mark),
            Err(why) => {
                app.insert(path);
                app.print(zk_tui::Style::YELLOW, &why);
            }
        }
    }

    /// Steers the run with a text; with the images of its marks.
    async fn steer(&self, opened: &Opened, effect: Effect) {
        if let Effect::Steer { text } = &effect {
            let images = opened.attachments.of(text);
            if !images.is_empty() {
                let mut message = Message::injected(text.as_str(), "steer");
                message.content.extend(images);
                // What comes too late waits in the queue of the view, which knows that the run is over.
                let _ = opened.conversation.steer(message);
                return;
            }
        }
        let _ = self.view.carry_out(&opened.conversation, effect).await;
    }

    /// Shows the output of a command in the background, or has it end, also while a run goes on.
    fn job(&self, id: &str, kill: bool) {
        let Some(jobs) = self.opened.get().and_then(|opened| opened.agent.bus().service::<Jobs>()) else {
            return;
        };
        let done = if kill { job_commands::kill(&jobs, id) } else { job_commands::tail(&jobs, id) };
        let (level, text) = match done {
            Ok(text) => (NoteLevel::Info, text),
            Err(why) => (NoteLevel::Warning, why),
        };
        let text = if kill { text } else { format!("{id}:\n{text}") };
        self.view.note(level, &text);
    }

    /// Does what the view asks of a conversation that runs; the rest waits for its turn.
    async fn follow_view(&self) {
        while let Some(effect) = self.view.take_effect() {
            match (&effect, self.opened.get()) {
                (Effect::Steer { .. } | Effect::Abort | Effect::Reply { .. }, Some(opened)) => {
                    self.steer(opened, effect).await;
                }
                (_, _) => self.work(Work::Effect(effect)),
            }
        }
    }

    fn work(&self, work: Work) {
        // The conversation may have ended.
        let _ = self.todo.send(work);
    }

    /// Stops the process as Ctrl-Z does, with the terminal as a shell expects it.
    fn suspend(&self, app: &mut App, with_group: bool) -> std::io::Result<()> {
        let bytes = app.leave();
        self.write(&bytes, app)?;
        self.guard.modes().leave();
        // The signal stops all threads; this one goes on here when it does.
        if !stop_process(with_group) {
            app.print(zk_tui::Style::DIM, "zk was not stopped: no shell waits to continue it");
        }
        // From the background this stops the process until it is in front again.
        self.guard.modes().enter(false)?;
        let bytes = app.resize(Modes::size(), self.began.elapsed());
        self.write(&bytes, app)?;
        app.enter(self.began.elapsed());
        Ok(())
    }

    fn write(&self, bytes: &str, app: &App) -> std::io::Result<()> {
        self.guard.modes().write_frame(bytes, app.is_drawn_alternate())
    }

    fn print(&mut self, app: &mut App, style: Style, text: &str) {
        let look = match style {
            Style::Plain => zk_tui::Style::PLAIN,
            Style::Dim => zk_tui::Style::DIM,
            Style::Bold => zk_tui::Style::BOLD,
            Style::Red => zk_tui::Style::RED,
            Style::Green => zk_tui::Style::GREEN,
            Style::Yellow => zk_tui::Style::YELLOW,
            Style::Cyan => zk_tui::Style::CYAN,
        };
        self.partial.push_str(text);
        if let Some((lines, rest)) = self.partial.rsplit_once('\n') {
            app.print(look, lines);
            self.partial = rest.to_owned();
        }
    }

    fn completer(&self) -> Completer {
        let (opened, app, notes) = (self.opened.clone(), self.app.clone(), self.notes.clone());
        let completions = Completions { opened, app, notes, known: Arc::default() };
        Box::new(move |asked| completions.offer(asked))
    }

    /// What the row of the status says of the conversation itself.
    fn model(&self) -> ModelFacts {
        let Some(Opened { agent, .. }) = self.opened.get() else { return ModelFacts::default() };
        let model = agent.model();
        let mode = agent.bus().service::<PermissionModes>().map(|modes| modes.chosen().to_string());
        ModelFacts { name: model.reference().to_string(), mode: mode.unwrap_or_default() }
    }

    /// Gives the terminal to an editor.
    async fn begin_editing(&self, text: &str, app: &mut App) -> Result<Edited, String> {
        let Some(opened) = self.opened.get() else {
            return Err("the conversation has not begun yet".to_owned());
        };
        let cannot = |error: std::io::Error| format!("cannot use the terminal: {error}");
        let bytes = app.leave();
        self.write(&bytes, app).map_err(cannot)?;
        self.guard.modes().leave();
        self.guard.modes().enter_raw().map_err(cannot)?;
        Ok(Box::pin(Editing::begin(&self.app, opened, text).await?.finish()))
    }

    /// Takes the terminal back, and the text that was edited.
    fn end_editing(&self, edited: Result<String, String>, app: &mut App) -> std::io::Result<()> {
        self.guard.modes().leave();
        self.guard.modes().enter(false)?;
        let bytes = app.resize(Modes::size(), self.began.elapsed());
        self.write(&bytes, app)?;
        app.enter(self.began.elapsed());
        match edited {
            Ok(text) => app.set_draft(&text),
            Err(why) => app.print(zk_tui::Style::YELLOW, &why),
        }
        Ok(())
    }
}

/// A text that is being edited elsewhere.
type Edited = std::pin::Pin<Box<dyn Future<Output = Result<String, String>>>>;

/// The text that an editor gives; waits for good where there is none.
async fn edited(editing: Option<&mut Edited>) -> Result<String, String> {
    match editing {
        Some(editing) => editing.await,
        None => std::future::pending().await,
    }
}

/// What is typed; waits for good while somebody else reads it.
async fn typed(input: Option<&mut Input>) -> Typed {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

/// The colours that are wanted, or those that fit the ground of the terminal as far as it tells.
fn theme(env: &Env, wanted: Option<&str>) -> Theme {
    // As `15;0`: the colours of text and ground, of sixteen.
    let ground = env.text("COLORFGBG").and_then(|colours| colours.rsplit(';').next()?.parse::<u8>().ok());
    match (wanted, ground) {
        _ if env.get("NO_COLOR").is_some() => Theme::Mono,
        (Some("mono"), _) => Theme::Mono,
        (Some("colour-blind"), _) => Theme::ColourBlind,
        (Some("light"), _) => Theme::Light,
        (Some("dark"), _) => Theme::Dark,
        (_, Some(7 | 9..=15)) => Theme::Light,
        (_, _) => Theme::Dark,
    }
}

/// How the terminal shows a notice.
fn notices(env: &Env) -> Notices {
    let program = env.text("TERM_PROGRAM").unwrap_or_default();
    let term = env.text("TERM").unwrap_or_default();
    if env.get("KITTY_WINDOW_ID").is_some() {
        Notices::Osc99
    } else if matches!(program, "iTerm.app" | "WezTerm" | "ghostty") || env.get("WT_SESSION").is_some() {
        Notices::Osc9
    } else if env.get("VTE_VERSION").is_some() || term.starts_with("foot") || term.starts_with("rxvt") {
        Notices::Osc777
    } else {
        Notices::Bell
    }
}

/// What the terminal can do, as far as the environment says.
fn abilities(env: &Env, wanted: Option<&str>) -> Abilities {
    let term = env.text("TERM").unwrap_or_default();
    // Those that break lines anew when they get narrower; within `screen` nothing does.
    let reflowing =
        ["TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "ITERM_SESSION_ID"];
    let is_screen = term.starts_with("screen") && env.get("TMUX").is_none();
    Abilities {
        looks: Looks { theme: theme(env, wanted), links: term != "linux" },
        synchronized: false,
        tmux: env.get("TMUX").is_some(),
        notices: notices(env),
        // A colour that was asked for stays; the console of Linux would print the question.
        follows_ground: matches!(wanted, None | Some("auto"))
            && env.get("NO_COLOR").is_none()
            && term != "linux",
        reflows: !is_screen && reflowing.iter().any(|name| env.get(name).is_some()),
    }
}

fn mask(line: &str) -> Option<String> {
    match redacted(line) {
        Cow::Owned(masked) if masked != line => Some(masked),
        Cow::Owned(_) | Cow::Borrowed(_) => None,
    }
}
