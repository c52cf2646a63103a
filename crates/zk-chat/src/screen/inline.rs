//! Drawn screen of a conversation: reads input and events, writes frames.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zk_tui::plain::{Backlog, Keyboard, LineEditor, Printed, Screen, SharedScreen, Sink};
use zk_tui::term::{TerminalGuard, queries};
use zk_tui::{
    Action, App, Completer, DRAFT_PAUSE, Drafts, Input, Key, Keymap, Modes, ScreenKind, Style, Typed,
};
use zk_view::{Reader, ViewDriver};

use super::actions::{copy, mask};
use super::command_uses::CommandUses;
use super::completions::{Completions, NameCache};
use super::draft::draft_files::draft_files;
use super::draft::edited::{Edited, EditedThing, next_input, wait_for_editor};
use super::front_end::ConsoleFrontEnd;
use super::host_messages::{HostEvent, HostRequest, OpenConversation};
use super::pending_input::PendingInput;
use super::terminal_session::{ScreenExit, ScreenStart, TerminalSession};
use super::worker::{Begin, Opening, WorkEnd, Worker};
use crate::commands::own_commands::{is_harmless, makes_prompt};
use crate::conversation::commands_during_run::PromptCommands;
use crate::opening::error::ChatError;
use crate::opening::factory::ConversationFactory;
use crate::opening::setup::ChatSetup;
use crate::opening::start::ChatEnd;
use crate::opening::workplace::Workplace;
use crate::visits::Visit;

/// Time limit for drawing the last frame.
const FINAL_DRAW_WAIT: Duration = Duration::from_millis(30);

/// Poll interval for the return to the foreground, which no signal announces.
const FOREGROUND_POLL: Duration = Duration::from_secs(1);

/// Pause in typing after which earlier input has been processed.
const TYPING_PAUSE: Duration = Duration::from_millis(20);

/// Size in bytes at which an incomplete line is printed in part.
const MAX_PARTIAL_BYTES: usize = 16 * 1024;

/// Signal that continues a stopped process.
const CONTINUED: i32 = rustix::process::Signal::CONT.as_raw();

/// Runs a conversation on the inline screen, where closed blocks scroll away above the composer, or on the
/// full screen while that is selected.
pub(crate) fn run(
    session: &mut TerminalSession,
    start: ScreenStart,
    kind: ScreenKind,
) -> Result<ScreenExit, ChatError> {
    let TerminalSession { factory, tty, guard, interrupts, runtime, editor, visit } = session;
    let setup = factory.setup();
    let suspending = guard.clone();
    interrupts.on_suspend(Box::new(move || suspending.restore_before_stop()));
    guard.hold_panics();
    let (sender, printed) = unbounded_channel();
    let backlog = Backlog::default();
    let drawn = Screen::drawn_by(Sink { sender, backlog: backlog.clone() }, &setup.terminal);
    let (start, front_end, pending) = match start {
        ScreenStart::Open(start) => {
            let front_end = ConsoleFrontEnd::with_screen(setup, tty.clone(), SharedScreen::new(drawn), false);
            let shared = (front_end.keyboard.clone(), front_end.view.clone());
            (
                Begin::Open(Box::new(Opening {
                    factory: factory.clone(),
                    start,
                    front_end,
                    interrupts: interrupts.clone(),
                })),
                shared,
                PendingInput::default(),
            )
        }
        ScreenStart::GoOn { chat, pending, said } => {
            chat.leave_drawing_to(drawn);
            said.iter().for_each(|said| chat.screen.line(Style::DIM, said));
            let shared = (chat.keyboard.clone(), chat.view.clone());
            (Begin::GoOn(chat), shared, pending)
        }
    };
    let (todo, work) = unbounded_channel();
    let (notes, told) = unbounded_channel();
    let opened = Arc::new(OnceLock::new());
    let (keyboard, view) = front_end;
    let reader = view.reader();
    let chosen = match &start {
        Begin::GoOn(chat) => chat.wanted.theme(),
        Begin::Open(_) => None,
    };
    let mut screen = InlineScreen {
        setup: ChatSetup { theme: chosen.or(setup.theme), ..setup.clone() },
        guard: guard.clone(),
        keyboard,
        view,
        is_full: kind == ScreenKind::Full,
        is_away: false,
        opened: opened.clone(),
        notes: notes.clone(),
        todo,
        place: None,
        partial: String::new(),
        backlog,
        began: Instant::now(),
        commands: PromptCommands::default(),
        uses: CommandUses::read(setup),
        factory: factory.clone(),
        known: Arc::default(),
        visit: visit.clone(),
    };
    let (keymap, said) = factory.keymap();
    let shortcuts = keymap.commands().map(str::to_owned).collect();
    let text = pending.text();
    let PendingInput { work: before, draft } = pending;
    before.into_iter().for_each(|work| screen.request_work(work));
    let composing = Composing { keymap, said, draft, text };
    let loans = visit.as_ref().map(|visit| visit.loans.clone()).unwrap_or_default();
    loans.set_screen(Some(notes.clone()));
    let worker = Worker { work, notes, opened, shortcuts, is_visit: visit.is_some() };
    let ended = runtime.block_on(async {
        let working = Box::pin(worker.run(start));
        screen.run(working, reader, printed, told, composing, editor).await
    });
    loans.set_screen(None);
    ended
}

/// Initial state of a screen's composer.
struct Composing {
    keymap: Keymap,
    /// Messages about invalid key bindings.
    said: Vec<String>,
    draft: String,
    /// Text of the draft that the earlier screen stored.
    text: String,
}

pub(crate) struct InlineScreen {
    pub(crate) setup: ChatSetup,
    pub(crate) guard: TerminalGuard,
    pub(crate) keyboard: Keyboard,
    pub(crate) view: ViewDriver,
    /// Whether the full screen is used instead of the inline one.
    is_full: bool,
    /// Whether another process has the terminal: this one is stopped or in the background.
    pub(super) is_away: bool,
    pub(crate) opened: Arc<OnceLock<OpenConversation>>,
    pub(crate) todo: UnboundedSender<HostRequest>,
    pub(crate) notes: UnboundedSender<HostEvent>,
    /// Workplace of the conversation, with the working directory and the time of the last check.
    pub(super) place: Option<(PathBuf, Instant, Workplace)>,
    /// Incomplete line of printed text.
    partial: String,
    /// Text that was printed and is not drawn yet.
    backlog: Backlog,
    pub(crate) began: Instant,
    pub(crate) commands: PromptCommands,
    /// Number of times that each command was used.
    pub(crate) uses: CommandUses,
    factory: Arc<dyn ConversationFactory>,
    /// Cached completions.
    known: Arc<Mutex<NameCache>>,
    visit: Option<Visit>,
}

impl InlineScreen {
    /// Draws until the conversation ends. Sleeps while nothing changes.
    async fn run(
        &mut self,
        working: impl Future<Output = Result<WorkEnd, ChatError>>,
        mut reader: Reader,
        mut printed: UnboundedReceiver<Printed>,
        mut told: UnboundedReceiver<HostEvent>,
        Composing { keymap, said, draft, text }: Composing,
        editor: &mut LineEditor,
    ) -> Result<ScreenExit, ChatError> {
        let cannot = ChatError::Terminal;
        let mut resized = signal(SignalKind::window_change()).map_err(cannot)?;
        let mut hung_up = signal(SignalKind::hangup()).map_err(cannot)?;
        let mut continued = signal(SignalKind::from_raw(CONTINUED)).map_err(cannot)?;
        let abilities = self.setup.drawn_abilities();
        self.guard.begin_drawing(queries(&self.setup.terminal, &abilities)).map_err(cannot)?;
        let mut input = Some(Input::read().map_err(cannot)?);
        let mut editing: Option<Edited> = None;
        let mut drafts = Drafts::new(draft_files(&self.setup), DRAFT_PAUSE).holding(text);
        let completer = self.completer();
        let app = App::new(self.view.view(), Modes::size(), abilities, editor.history(), completer);
        let mut app = app.masked_by(mask).with_keys(keymap).with_recall(editor.recall());
        app = app
            .with_renderers(self.renderers())
            .with_commands_beside_runs(is_harmless)
            .with_prompt_commands(makes_prompt);
        said.iter().chain(&Modes::size_remark()).for_each(|line| app.print(Style::YELLOW, line));
        app.give_back(&draft);
        if let Some(lost) = drafts.take_lost() {
            app.offer_draft(&lost.text, &lost.note());
        }
        app.set_full(self.is_full);
        app.set_titles(self.setup.sets_title);
        let mut working = pin!(working);
        let (mut is_closed, mut is_unread, mut is_over) = (false, false, false);
        let exit = loop {
            let tick = app.next_tick().map(|at| self.began + at).into_iter().chain(drafts.due()).min();
            let tick_at = tick.unwrap_or(self.began);
            tokio::select! {
                exit = &mut working => break exit,
                typed = next_input(input.as_mut()) => match typed {
                    Typed::Keys(keys) => {
                        for action in app.keys(&keys, self.began.elapsed()) {
                            match action {
                                Action::Edit(text) => {
                                    let lent = self.lend_terminal(EditedThing::Text(text), &mut app, &mut input).await;
                                    editing = lent.map_err(cannot)?;
                                }
                                action => self.carry_out_action(action, &mut app, editor).await?,
                            }
                        }
                    }
                    Typed::Bytes(_) => {}
                    Typed::Away => is_unread = true,
                    Typed::Gone => break Ok(WorkEnd::End(ChatEnd::Terminated)),
                },
                patches = reader.next(), if !is_closed => match patches {
                    Some(patches) => app.patches(&patches, self.began.elapsed()),
                    None => is_closed = true,
                },
                Some(text) = printed.recv() => self.print(&mut app, text),
                Some(note) = told.recv() => match note {
                    HostEvent::Busy(is_busy) => app.set_busy(is_busy),
                    HostEvent::GiveBack(text) => app.give_back(&text),
                    HostEvent::Full(is_full) => self.set_full(is_full, &mut app),
                    HostEvent::Announce(blocks) => app.announce(&blocks),
                    HostEvent::Names => app.names_changed(),
                    HostEvent::SessionsChanged => {
                        self.known.lock().unwrap_or_else(PoisonError::into_inner).forget_sessions();
                        app.names_changed();
                    }
                    HostEvent::Beside { line, text } => self.show_command_output(&line, &text, &mut app).await,
                    HostEvent::Made(made) => self.handle_command_outcome(made, &mut app).await,
                    HostEvent::ChooseSession => app.choose_session(),
                    HostEvent::Copy(text) => copy(&text, &mut app),
                    HostEvent::Theme(theme) => self.set_theme(theme, &mut app),
                    HostEvent::Failed(why) => app.print(Style::YELLOW, &why),
                    HostEvent::EditFile(file) if editing.is_none() => {
                        let lent = self.lend_terminal(EditedThing::File(file), &mut app, &mut input).await;
                        editing = lent.map_err(cannot)?;
                    }
                    // An editor is open already and has the terminal.
                    HostEvent::EditFile(_) => {}
                    HostEvent::Lend(loan) if editing.is_none() => {
                        let lent = self.lend_terminal(EditedThing::Loan(loan), &mut app, &mut input).await;
                        editing = lent.map_err(cannot)?;
                    }
                    // Dropping the loan fails it for the borrower.
                    HostEvent::Lend(_) => {}
                    HostEvent::Rested if app.draft().is_empty() => self.request_work(HostRequest::Quit),
                    HostEvent::Rested => {}
                    HostEvent::Image(image) => self.attach_pasted(image, &mut app),
                },
                edited = wait_for_editor(editing.as_mut()) => {
                    editing = None;
                    self.end_editing(edited, &mut app).map_err(cannot)?;
                    input = Some(Input::read().map_err(cannot)?);
                }
                // The size is checked before each frame.
                _ = resized.recv(), if editing.is_none() => {}
                () = self.wait_for_visit_end(), if !is_over => {
                    is_over = true;
                    self.keyboard.stop();
                    self.request_work(HostRequest::Quit);
                }
                _ = hung_up.recv() => break Ok(WorkEnd::End(ChatEnd::Terminated)),
                () = self.guard.wait_for_leave() => break Ok(WorkEnd::End(ChatEnd::Terminated)),
                () = self.guard.wait_for_suspend(), if editing.is_none() => self.suspend(&mut app, false).map_err(cannot)?,
                _ = continued.recv(), if editing.is_none() => {
                    if !self.is_away && self.guard.modes().are_changed() {
                        // A shell used the terminal while this process was in the background.
                        app.abandon();
                        self.is_away = true;
                    }
                }
                () = sleep(FOREGROUND_POLL), if self.is_away => {}
                () = sleep_until(tick_at), if tick.is_some() => {
                    for action in app.tick(self.began.elapsed()) {
                        self.carry_out_action(action, &mut app, editor).await?;
                    }
                }
            }
            // Queue of printed text, drained as a whole; the backlog bounds its size.
            while let Ok(text) = printed.try_recv() {
                self.print(&mut app, text);
            }
            drafts.note(|| app.unsent());
            if app.is_resting(self.began.elapsed()) {
                // Text may arrive a thousand times a second, so the terminal is checked before each frame
                // instead.
                continue;
            }
            app.set_model(self.model_facts());
            if editing.is_none() {
                self.reclaim_terminal(&mut app).map_err(cannot)?;
                if let Some(input) = input.as_ref().filter(|_| is_unread && !self.is_away) {
                    is_unread = false;
                    input.resume();
                }
            }
            if !self.is_away {
                if editing.is_none() {
                    self.apply_size(&mut app, input.as_ref()).map_err(cannot)?;
                }
                let frame = app.frame(self.began.elapsed());
                self.write(&frame, &app).map_err(cannot)?;
            }
            self.backlog.clear();
        };
        while let Ok(Some(patches)) = timeout(FINAL_DRAW_WAIT, reader.next()).await {
            app.patches(&patches, self.began.elapsed());
        }
        while let Ok(text) = printed.try_recv() {
            self.print(&mut app, text);
        }
        if !self.partial.is_empty() {
            app.print(Style::PLAIN, &std::mem::take(&mut self.partial));
        }
        if matches!(exit, Ok(WorkEnd::Screen(..) | WorkEnd::SignIn(..) | WorkEnd::Reload(..))) {
            let keys = match input.take() {
                Some(input) => input.finish().await,
                None => Vec::new(),
            };
            self.handle_last_input(&keys, &mut told, &mut app, editor).await?;
        }
        // A disconnected terminal ends the drawing.
        let bytes = app.leave();
        if !self.is_away {
            let _ = self.write(&bytes, &app);
        }
        drop((input, editing));
        let ended = exit.map(|end| match end {
            WorkEnd::End(end) => ScreenExit::End(end),
            WorkEnd::Screen(next, chat, queued) => {
                ScreenExit::Screen { next, chat, pending: PendingInput::of_screen(queued, app.draft()) }
            }
            WorkEnd::SignIn(wanted, chat, queued) => ScreenExit::SignIn {
                wanted,
                chat,
                pending: PendingInput::of_screen(queued, app.draft()),
                kind: self.kind(),
            },
            WorkEnd::Reload(read, chat, queued) => ScreenExit::Reload {
                factory: read,
                chat,
                pending: PendingInput::of_screen(queued, app.draft()),
                kind: self.kind(),
            },
        });
        match ended.as_ref().ok().and_then(ScreenExit::pending) {
            Some(pending) => drafts.store_for_next_screen(pending.text()),
            None => drafts.close(),
        }
        self.guard.end_drawing();
        ended
    }

    /// Waits until the visit is over; never returns for a conversation that has the terminal throughout.
    async fn wait_for_visit_end(&self) {
        match &self.visit {
            Some(visit) => visit.over.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn kind(&self) -> ScreenKind {
        if self.is_full { ScreenKind::Full } else { ScreenKind::Inline }
    }

    /// Collects the last notes and keys of a closing screen: queued requests and the draft for the next one.
    async fn handle_last_input(
        &mut self,
        keys: &[Key],
        told: &mut UnboundedReceiver<HostEvent>,
        app: &mut App,
        editor: &mut LineEditor,
    ) -> Result<(), ChatError> {
        while let Ok(note) = told.try_recv() {
            match note {
                HostEvent::Busy(is_busy) => app.set_busy(is_busy),
                HostEvent::GiveBack(text) => app.give_back(&text),
                HostEvent::Beside { line, text } => self.show_command_output(&line, &text, app).await,
                HostEvent::Made(made) => self.handle_command_outcome(made, app).await,
                HostEvent::Copy(text) => copy(&text, app),
                HostEvent::Failed(why) => app.print(Style::YELLOW, &why),
                // The next screen starts in this mode.
                HostEvent::Full(is_full) => self.is_full = is_full,
                // The next screen may have no picker, so the command lists the sessions.
                HostEvent::ChooseSession => self.request_work(HostRequest::Line("/resume".to_owned())),
                HostEvent::Announce(_)
                | HostEvent::Names
                | HostEvent::SessionsChanged
                | HostEvent::Theme(_)
                | HostEvent::EditFile(_)
                | HostEvent::Lend(_)
                | HostEvent::Rested
                | HostEvent::Image(_) => {}
            }
        }
        if let Some(text) = self.commands.stop_and_take_texts() {
            app.give_back(&text);
        }
        let now = self.began.elapsed();
        let mut actions = app.keys(keys, now);
        // Time passes for a held-back Enter, so that it takes effect.
        actions.extend(app.tick(now + TYPING_PAUSE));
        for action in actions {
            match action {
                // Such a command does not run beside a closing conversation.
                Action::Beside(line) | Action::PromptCommand { line, .. } => {
                    self.request_work(HostRequest::Line(line))
                }
                // The text remains the draft.
                Action::Edit(_) | Action::Suspend => {}
                action => self.carry_out_action(action, app, editor).await?,
            }
        }
        Ok(())
    }

    /// Applies the present size of the terminal before `input` is handled, so that earlier replies to a size
    /// query are ignored.
    fn apply_size(&self, app: &mut App, input: Option<&Input>) -> std::io::Result<()> {
        let size = Modes::size();
        if size == app.size() {
            return Ok(());
        }
        let bytes = app.resize(size, self.began.elapsed());
        if let Some(input) = input.filter(|_| app.is_asking()) {
            input.expect_reply();
        }
        self.write(&bytes, app)
    }

    pub(crate) fn write(&self, bytes: &str, app: &App) -> std::io::Result<()> {
        self.guard.modes().write_frame(bytes, app.is_drawn_alternate())
    }

    /// Switches between the full and the inline screen.
    pub(crate) fn set_full(&mut self, is_full: bool, app: &mut App) {
        self.is_full = is_full;
        app.set_full(is_full);
    }

    /// Switches to another theme.
    pub(crate) fn set_theme(&mut self, theme: &'static str, app: &mut App) {
        self.setup.theme = Some(theme);
        app.set_theme(self.setup.chosen_theme(theme));
    }

    fn print(&mut self, app: &mut App, printed: Printed) {
        let (style, text) = match printed {
            Printed::Text(style, text) => (style, text),
            Printed::Echo(typed) => return app.echo(&typed),
            Printed::Words(style, text) => return app.print_words(style, &text),
        };
        let Some((lines, rest)) = text.rsplit_once('\n') else {
            self.partial.push_str(&text);
            // A very long line is printed in parts.
            if self.partial.len() > MAX_PARTIAL_BYTES {
                app.print(style, &std::mem::take(&mut self.partial));
            }
            return;
        };
        app.print(style, &(std::mem::take(&mut self.partial) + lines));
        self.partial = rest.to_owned();
    }

    fn completer(&self) -> Completer {
        let (opened, setup, notes) = (self.opened.clone(), self.setup.clone(), self.notes.clone());
        let (uses, factory, known) = (self.uses.clone(), self.factory.clone(), self.known.clone());
        let completions = Completions { opened, setup, notes, uses, factory, known };
        Box::new(move |asked| completions.offer(asked))
    }
}
