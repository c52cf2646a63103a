//! `/reload`: the conversation goes on with settings and plugins that are read anew.

use std::ops::ControlFlow;

use tokio_util::sync::CancellationToken;
use zk_core::model::Role;
use zk_core::service::Conversation;
use zk_permission::ModeSwitch;
use zk_tools::{JobPhase, Jobs};
use zk_tui::plain::{Keyboard, SharedScreen};
use zk_tui::term::Tty;
use zk_tui::{DRAFT_PAUSE, Drafts, ScreenKind, Style};

use super::carried::{Carried, CarriedSession};
use super::chat::{Chat, ConversationSource};
use super::draft_files::draft_files;
use super::front_end::ConsoleFrontEnd;
use super::pending_input::PendingInput;
use super::session_commands;
use super::terminal::{plain_screen, screen_kind};
use super::terminal_session::{ScreenStart, TerminalSession};
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};
use crate::sessions::Kept;
use crate::signals::Signals;

/// Message once everything was read.
const READ: &str = "settings, hooks, keys, theme, skills, agents and MCP servers are read anew";

impl Chat {
    /// Reads the settings as they are now, unless this conversation cannot go on with them.
    pub(super) fn reread(&self) -> Result<AppContext, String> {
        let jobs = self.agent.bus().service::<Jobs>().map(|jobs| jobs.list()).unwrap_or_default();
        let runs = |phase: &JobPhase| matches!(phase, JobPhase::Running | JobPhase::Ending);
        if let Some(job) = jobs.iter().find(|job| runs(&job.phase) && !job.detached) {
            let command = job.command.lines().next().unwrap_or_default();
            return Err(format!(
                "{} still runs in the background and would end ({command}); wait for it, or end it with /jobs kill {0}",
                job.id
            ));
        }
        let (app, warnings) = self.app.reread().map_err(|failure| failure.message)?;
        app.settings.check_preset(&app.project).map_err(|failure| failure.message)?;
        warnings.iter().for_each(|warning| self.screen.line(Style::YELLOW, &format!("warning: {warning}")));
        Ok(app)
    }

    /// Ends everything of this conversation, and gives what the next one goes on with.
    async fn carry(self) -> Carried {
        let session = self.sessions.current();
        let is_unsaved = session.open.is_none();
        let messages = self.agent.history();
        let is_answered = messages.iter().any(|message| message.role == Role::Assistant);
        let carried = is_unsaved.then(|| CarriedSession::Unsaved(session.clone(), messages.clone()));
        if is_unsaved {
            session.keep_outputs();
        }
        let modes = self.agent.bus().service::<ModeSwitch>();
        let (model, thinking) = (self.agent.model(), self.agent.thinking());
        let thinking = (thinking.level != self.app.settings.program.thinking).then_some(thinking);
        let (cwd, counts) = (self.conversation.state().cwd, self.agent.counts());
        let jobs = self.agent.bus().service::<Jobs>();
        let jobs = jobs.map(|jobs| jobs.hand_over()).unwrap_or_default();
        self.conversation.close().await;
        self.agent.bus().close().await;
        let left = self.sessions.take_left().pop();
        let session = carried.unwrap_or_else(|| match left {
            Some(Ok(Kept::All(id))) => CarriedSession::Stored(id),
            Some(Ok(Kept::Nothing)) | None if !is_answered => CarriedSession::Empty,
            // The session could not be stored from some moment on.
            Some(Ok(Kept::Nothing)) | None => CarriedSession::Unsaved(session, messages.clone()),
            Some(left @ (Ok(Kept::Part { .. }) | Err(_))) => {
                let line = session_commands::describe_left(&left, "zk --resume");
                line.iter().for_each(|line| self.screen.line(Style::YELLOW, line));
                CarriedSession::Unsaved(session, messages.clone())
            }
        });
        let injected = messages.iter().rev().take_while(|message| message.role == Role::User);
        let mut unstored: Vec<_> = injected.cloned().collect();
        unstored.reverse();
        let mode = modes.and_then(|modes| modes.changed());
        let (attachments, asking, view) = (self.attachments, self.asking, self.view);
        Carried { session, unstored, model, thinking, mode, cwd, attachments, jobs, counts, asking, view }
    }
}

/// The screen to go on with: another one only if the settings say so now, and did not before.
pub(super) fn kind(now: ScreenKind, before: &AppContext, read: &AppContext) -> ScreenKind {
    let wanted = |app: &AppContext| app.settings.program.screen;
    if wanted(before) == wanted(read) { now } else { screen_kind(read) }
}

/// Ends a conversation and opens it anew with what was read; with what it had before, if that cannot be done or the person
/// stops it. What is typed meanwhile is kept.
pub(super) fn open(
    session: &mut TerminalSession,
    read: AppContext,
    chat: Chat,
    pending: PendingInput,
) -> Outcome<ControlFlow<Exit, ScreenStart>> {
    let before = chat.app.clone();
    // Nobody draws until it is open again.
    let screen = SharedScreen::with_keys(plain_screen(&read));
    chat.screen.replace(plain_screen(&read));
    let TerminalSession { tty, signals, runtime, .. } = &*session;
    let mut reopening = Reopening { tty, signals, screen, pending };
    let opened = runtime.block_on(async {
        let opened = reopening.open(read, before, chat).await;
        signals.disarm();
        opened
    });
    let pending = reopening.pending;
    if !matches!(opened, Ok(ControlFlow::Continue(_))) {
        // The next conversation of this directory gets it.
        Drafts::new(draft_files(&session.app), DRAFT_PAUSE).hand_on(pending.text());
    }
    let (chat, app, said) = match opened? {
        ControlFlow::Continue(opened) => opened,
        ControlFlow::Break(exit) => return Ok(ControlFlow::Break(exit)),
    };
    session.app = app;
    let chat = Box::new(chat);
    Ok(ControlFlow::Continue(ScreenStart::GoOn { chat, pending, said: Some(said) }))
}

/// A conversation that is opened anew, while nobody draws it.
struct Reopening<'a> {
    tty: &'a Tty,
    signals: &'a Signals,
    screen: SharedScreen,
    pending: PendingInput,
}

impl Reopening<'_> {
    async fn open(
        &mut self,
        read: AppContext,
        before: AppContext,
        chat: Chat,
    ) -> Outcome<ControlFlow<Exit, (Chat, AppContext, String)>> {
        let came_with = self.pending.work.len();
        let stop = CancellationToken::new();
        self.signals.arm_run(stop.clone());
        let limits = read.limits.clone();
        let keyboard = Keyboard::new(self.tty.clone(), self.screen.clone(), move || limits.skip_waits());
        // Closing is waited for: a second signal ends the program.
        let carried = self.listening(&keyboard, &stop, chat.carry()).await;
        let opened = match stop.is_cancelled() {
            true => Err(Failure::new(Exit::Interrupted, "stopped")),
            false => self.attempt(&read, &carried, Some(&stop)).await,
        };
        if self.is_terminated() {
            return self.end(opened.ok()).await;
        }
        let failure = match opened {
            Ok(chat) => return Ok(ControlFlow::Continue((chat, read, READ.to_owned()))),
            Err(failure) => failure,
        };
        // Text that was typed for the new settings is not for those before. Whoever stopped this knows which
        // count from then on.
        let count = if stop.is_cancelled() { came_with } else { self.pending.work.len() };
        // There is nothing else to go back to, so Ctrl-C does not stop this; a second signal ends the program.
        self.signals.arm_run(CancellationToken::new());
        let opened = self.attempt(&before, &carried, None).await;
        if self.is_terminated() {
            return self.end(opened.ok()).await;
        }
        let mut said = format!("cannot go on with the new settings, so those before stay: {failure}");
        if self.pending.give_back(count) {
            said.push_str("; what was typed behind it was not sent");
        }
        opened.map(|chat| ControlFlow::Continue((chat, before, said)))
    }

    async fn attempt(
        &mut self,
        app: &AppContext,
        carried: &Carried,
        stop: Option<&CancellationToken>,
    ) -> Outcome<Chat> {
        let shown = (carried.asking.clone(), carried.view.clone());
        let front_end = ConsoleFrontEnd::showing(app, self.tty.clone(), self.screen.clone(), shown, true);
        let keyboard = front_end.keyboard.clone();
        let opened = ConversationSource::Carried { carried, stop };
        let opening = Box::pin(Chat::open(app, opened, front_end, self.signals.clone()));
        let chat = self.listening(&keyboard, &stop.cloned().unwrap_or_default(), opening).await?;
        // Only now is it certain that this conversation goes on.
        if let Some(jobs) = chat.agent.bus().service::<Jobs>() {
            jobs.take_over(&carried.jobs);
        }
        Ok(chat)
    }

    /// Awaits `work` while Escape and Ctrl-C cancel `stop`, and keeps what is typed meanwhile.
    async fn listening<T>(
        &mut self,
        keyboard: &Keyboard,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        keyboard.set_draft(std::mem::take(&mut self.pending.draft));
        // Without keys a signal still stops it.
        let watching = keyboard.watch(stop.clone());
        let worked = work.await;
        drop(watching);
        self.pending.take_from(keyboard);
        worked
    }

    fn is_terminated(&self) -> bool {
        self.signals.seen() == Some(Exit::Terminated)
    }

    async fn end<T>(&self, opened: Option<Chat>) -> Outcome<ControlFlow<Exit, T>> {
        if let Some(chat) = opened {
            chat.close().await;
        }
        Ok(ControlFlow::Break(Exit::Terminated))
    }
}
