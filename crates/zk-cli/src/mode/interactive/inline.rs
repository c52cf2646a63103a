use std::borrow::Cow;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use zk_core::service::Command;
use zk_tui::{Abilities, Action, App, Completer, Input, Looks, Modes, Typed, write_frame};
use zk_view::{Effect, Reader, ViewDriver};

use super::keyboard::Keyboard;
use super::line_editor::LineEditor;
use super::tty::Tty;
use super::{Chat, Desk, LineOutcome};
use crate::app::{AppContext, runtime};
use crate::args::Prompt;
use crate::env::Env;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::shared_screen::SharedScreen;
use crate::signals::Signals;
use crate::term::{Screen, Style, redacted};

/// How long the screen waits for what is still to be drawn at the end.
const LAST: Duration = Duration::from_millis(30);

/// Files that are looked at to complete a name.
const FILES: usize = 2000;

/// A conversation on the inline screen: what is closed scrolls away, what is typed stays below it.
pub(super) fn run(app: &AppContext, prompt: Prompt) -> Outcome<Exit> {
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    let tty = Tty::of_stdin(false).map_err(cannot)?;
    let modes = Restored(Modes::of_stdin().map_err(cannot)?);
    let leaving = modes.0.clone();
    let signals = Signals::watch(move || leaving.leave_for_good()).map_err(cannot)?;
    signals.disarm();
    let runtime = runtime()?;
    let mut editor = LineEditor::new(app.dirs.line_history()).map_err(Failure::failed)?;
    let (sink, printed) = unbounded_channel();
    let screen = SharedScreen::new(Screen::drawn_by(sink, &app.env));
    let desk = Desk::of(app, tty, screen, false);
    let (todo, work) = unbounded_channel();
    let (notes, told) = unbounded_channel();
    let opened = Arc::new(OnceLock::new());
    let mut screen = InlineScreen {
        app: app.clone(),
        modes: modes.0.clone(),
        keyboard: desk.keyboard.clone(),
        view: desk.view.clone(),
        opened: opened.clone(),
        todo,
        partial: String::new(),
        began: Instant::now(),
    };
    let reader = desk.view.reader();
    let worker = Worker { work, notes, opened };
    runtime.block_on(async {
        let working = Box::pin(worker.run(app.clone(), prompt, desk, signals));
        screen.run(working, reader, printed, told, &mut editor).await
    })
}

/// Gives the terminal back however this ends.
struct Restored(Modes);

impl Drop for Restored {
    fn drop(&mut self) {
        self.0.leave_for_good();
    }
}

/// What the conversation has to do.
enum Work {
    Line(String),
    Effect(Effect),
    Quit,
}

/// What it tells the screen.
enum Note {
    /// It runs a command, of which the view knows nothing.
    Busy(bool),
    GiveBack(String),
}

/// The part of a conversation that both sides use.
struct Opened {
    agent: zk_agent::Agent,
    conversation: zk_agent::AgentConversation,
}

/// Runs prompts and commands, one after the other.
struct Worker {
    work: UnboundedReceiver<Work>,
    notes: UnboundedSender<Note>,
    opened: Arc<OnceLock<Opened>>,
}

impl Worker {
    async fn run(mut self, app: AppContext, prompt: Prompt, desk: Desk, signals: Signals) -> Outcome<Exit> {
        let (chat, app) = Chat::open(&app, &prompt, desk, signals).await?;
        chat.greet(&app);
        let opened = Opened { agent: chat.agent.clone(), conversation: chat.conversation.clone() };
        let _ = self.opened.set(opened);
        let mut given = prompt.text.map(Work::Line);
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
            match outcome {
                LineOutcome::Done | LineOutcome::Failed => {}
                LineOutcome::Quit(exit) => break exit,
            }
        };
        chat.close().await;
        Ok(exit)
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
    modes: Modes,
    keyboard: Keyboard,
    view: ViewDriver,
    opened: Arc<OnceLock<Opened>>,
    todo: UnboundedSender<Work>,
    /// What was printed of a line that is not complete.
    partial: String,
    began: Instant,
}

impl InlineScreen {
    /// Draws until the conversation ends. It sleeps while nothing changes.
    async fn run(
        &mut self,
        working: impl Future<Output = Outcome<Exit>>,
        mut reader: Reader,
        mut printed: UnboundedReceiver<(Style, String)>,
        mut told: UnboundedReceiver<Note>,
        editor: &mut LineEditor,
    ) -> Outcome<Exit> {
        let cannot = |error: std::io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
        let mut resized = signal(SignalKind::window_change()).map_err(cannot)?;
        let mut hung_up = signal(SignalKind::hangup()).map_err(cannot)?;
        self.modes.enter().map_err(cannot)?;
        let mut input = Input::read().map_err(cannot)?;
        let abilities = abilities(&self.app.env);
        let completer = self.completer();
        let app = App::new(self.view.view(), Modes::size(), abilities, editor.history(), completer);
        let mut app = app.masked_by(mask);
        let mut working = pin!(working);
        let mut is_closed = false;
        let exit = loop {
            let tick = app.next_tick().map(|at| self.began + at);
            let tick_at = tick.unwrap_or(self.began);
            tokio::select! {
                exit = &mut working => break exit,
                typed = input.next() => match typed {
                    Typed::Keys(keys) => {
                        for action in app.keys(&keys, self.began.elapsed()) {
                            self.act(action, &mut app, editor).await?;
                        }
                    }
                    Typed::Gone => break Ok(Exit::Terminated),
                },
                patches = reader.next(), if !is_closed => match patches {
                    Some(patches) => app.patches(&patches, self.began.elapsed()),
                    None => is_closed = true,
                },
                Some((style, text)) = printed.recv() => self.print(&mut app, style, &text),
                Some(note) = told.recv() => match note {
                    Note::Busy(is_busy) => app.set_busy(is_busy),
                    Note::GiveBack(text) => app.give_back(&text),
                },
                _ = resized.recv() => {
                    write_frame(&app.resize(Modes::size(), self.began.elapsed())).map_err(cannot)?;
                }
                _ = hung_up.recv() => break Ok(Exit::Terminated),
                () = sleep_until(tick_at), if tick.is_some() => {
                    for action in app.tick(self.began.elapsed()) {
                        self.act(action, &mut app, editor).await?;
                    }
                }
            }
            write_frame(&app.frame(self.began.elapsed())).map_err(cannot)?;
        };
        while let Ok(Some(patches)) = timeout(LAST, reader.next()).await {
            app.patches(&patches, self.began.elapsed());
        }
        while let Ok((style, text)) = printed.try_recv() {
            self.print(&mut app, style, &text);
        }
        // A terminal that is gone shows nothing more.
        let _ = write_frame(&app.leave());
        self.modes.leave_for_good();
        exit
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
            Action::NextMode => self.keyboard.back_tab(),
            Action::Remember(text) => editor.remember(&text),
            Action::Suspend => self.suspend(app).map_err(|error| {
                Failure::failed(format!("cannot use the terminal after zk was stopped: {error}"))
            })?,
            Action::Quit => self.work(Work::Quit),
        }
        Ok(())
    }

    /// Does what the view asks of a conversation that runs; the rest waits for its turn.
    async fn follow_view(&self) {
        while let Some(effect) = self.view.take_effect() {
            match (&effect, self.opened.get()) {
                (Effect::Steer { .. } | Effect::Abort | Effect::Reply { .. }, Some(opened)) => {
                    let _ = self.view.carry_out(&opened.conversation, effect).await;
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
    fn suspend(&self, app: &mut App) -> std::io::Result<()> {
        write_frame(&app.leave())?;
        self.modes.leave();
        let _ = kill_current_process_group(Signal::TSTP);
        // The signal stops all threads; this one goes on here when it does.
        self.modes.enter()?;
        write_frame(&app.resize(Modes::size(), self.began.elapsed()))?;
        app.enter(self.began.elapsed());
        Ok(())
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
        let (opened, cwd) = (self.opened.clone(), self.app.cwd.clone());
        Box::new(move |word| match word.strip_prefix('@') {
            Some(path) => files(&cwd, path),
            None => {
                let Some(opened) = opened.get() else { return Vec::new() };
                let commands = opened.agent.bus().cx().items::<dyn Command>();
                let names = commands.iter().map(|command| format!("/{}", command.name));
                names.filter(|name| name.starts_with(word)).collect()
            }
        })
    }
}

/// The files and directories that `path` is the beginning of.
fn files(cwd: &Path, path: &str) -> Vec<String> {
    let (dir, start) = path.rsplit_once('/').map_or(("", path), |(dir, start)| (dir, start));
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let Ok(entries) = std::fs::read_dir(cwd.join(dir)) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(FILES)
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_wanted = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            is_wanted.then(|| format!("@{prefix}{name}{slash}"))
        })
        .collect();
    names.sort();
    names
}

/// What the terminal can do, as far as the environment says.
fn abilities(env: &Env) -> Abilities {
    let term = env.text("TERM").unwrap_or_default();
    // Those that break lines anew when they get narrower; within `screen` nothing does.
    let reflowing =
        ["TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "ITERM_SESSION_ID"];
    let is_screen = term.starts_with("screen") && env.get("TMUX").is_none();
    Abilities {
        looks: Looks { colour: env.get("NO_COLOR").is_none(), links: term != "linux" },
        synchronized: false,
        reflows: !is_screen && reflowing.iter().any(|name| env.get(name).is_some()),
    }
}

fn mask(line: &str) -> Option<String> {
    match redacted(line) {
        Cow::Owned(masked) if masked != line => Some(masked),
        Cow::Owned(_) | Cow::Borrowed(_) => None,
    }
}
