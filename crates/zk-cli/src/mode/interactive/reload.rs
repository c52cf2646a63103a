//! `/reload`: the conversation goes on with settings and plugins that are read anew.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_agent::{AgentConversation, AgentCounts};
use zk_core::model::{Message, MessageId, Model, Role, SessionId, ThinkingRequest};
use zk_core::service::{Conversation, Questions};
use zk_permission::Mode;
use zk_tools::{JobHandover, JobPhase, Jobs};
use zk_view::ViewDriver;

use super::attachments::Attachments;
use super::chat::{Chat, Opens};
use super::desk::Desk;
use super::drafts::{DRAFT, Drafts};
use super::keyboard::Keyboard;
use super::plain::plain_screen;
use super::screen_kind::ScreenKind;
use super::tty::Tty;
use super::unfinished::Unfinished;
use super::{Seat, Start, directory, session_commands};
use crate::app::AppContext;
use crate::args::Resume;
use crate::endpoint::Endpoint;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::permission_modes::PermissionModes;
use crate::mode::shared_screen::SharedScreen;
use crate::sessions::{self, Kept, Session};
use crate::signals::Signals;
use crate::term::{Notices, Style};

/// Message once everything was read.
const READ: &str = "settings, hooks, keys, theme, skills, agents and MCP servers are read anew";

/// State that goes on in the conversation that is opened next.
pub(super) struct Carried {
    session: CarriedSession,
    /// Last messages, which are stored with the next run, such as the output of a command of the person.
    unstored: Vec<Arc<Message>>,
    pub(super) model: Model,
    /// Thinking of the model, if the person chose it.
    thinking: Option<ThinkingRequest>,
    /// The permission mode, if the person chose it.
    mode: Option<Mode>,
    /// The directory that tools work in.
    cwd: PathBuf,
    pub(super) attachments: Attachments,
    jobs: JobHandover,
    counts: AgentCounts,
    asking: Arc<Questions>,
    view: ViewDriver,
}

enum CarriedSession {
    Stored(SessionId),
    /// One that is stored nowhere, or no longer.
    Unsaved(Arc<Session>, Vec<Arc<Message>>),
    /// One without an answer in it.
    Empty,
}

impl Carried {
    /// The endpoint of the provider that is in use.
    pub(super) async fn endpoint(&self, app: &AppContext) -> Outcome<Endpoint> {
        // Values of the command line are about the provider that zk begins with.
        match app.endpoint().await {
            Ok(endpoint) if *endpoint.provider.name == *self.model.provider => Ok(endpoint),
            Ok(_) | Err(_) => app.endpoint_of(&self.model.provider).await,
        }
    }

    pub(super) async fn session(&self, app: &AppContext) -> Outcome<Session> {
        match &self.session {
            CarriedSession::Stored(id) => sessions::begin(app, Some(&Resume::Id(id.to_string()))).await,
            CarriedSession::Unsaved(before, messages) => Ok(before.continued(messages.clone())),
            CarriedSession::Empty => sessions::begin(app, None).await,
        }
    }

    /// Chooses again what was chosen in the conversation.
    pub(super) async fn restore(&self, conversation: &AgentConversation, notices: &Notices) -> Outcome<()> {
        let agent = conversation.agent();
        agent.continue_counts(self.counts);
        if let Some(thinking) = self.thinking.filter(|chosen| chosen.level != agent.thinking().level) {
            agent.set_thinking(thinking).await.map_err(Failure::failed)?;
        }
        let known: HashSet<Option<MessageId>> =
            agent.history().iter().map(|known| known.id.clone()).collect();
        for message in self.unstored.iter().filter(|message| !known.contains(&message.id)) {
            agent.inject(Message::clone(message)).map_err(Failure::failed)?;
        }
        let modes = agent.bus().service::<PermissionModes>();
        if let (Some(modes), Some(mode)) = (modes, self.mode)
            && let Err(why) = modes.choose(mode)
        {
            notices.show(&format!("the permission mode is {} now, not {mode}: {why}", modes.chosen()));
        }
        if conversation.state().cwd != self.cwd {
            let cx = conversation.command_cx();
            if let Err(why) = directory::go_to(&self.cwd.to_string_lossy(), conversation, &cx).await {
                let now = conversation.state().cwd;
                notices.show(&format!("tools work in {} now: {why}", now.display()));
            }
        }
        Ok(())
    }
}

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
        warnings.iter().for_each(|warning| self.screen.line(Style::Yellow, &format!("warning: {warning}")));
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
        let modes = self.agent.bus().service::<PermissionModes>();
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
                line.iter().for_each(|line| self.screen.line(Style::Yellow, line));
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
    if wanted(before) == wanted(read) { now } else { ScreenKind::chosen(read) }
}

/// Ends a conversation and opens it anew with what was read; with what it had before, if that cannot be done or the person
/// stops it. What is typed meanwhile is kept.
pub(super) fn open(
    seat: &mut Seat,
    read: AppContext,
    chat: Chat,
    unfinished: Unfinished,
) -> Outcome<ControlFlow<Exit, Start>> {
    let before = chat.app.clone();
    // Nobody draws until it is open again.
    let screen = SharedScreen::with_keys(plain_screen(&read));
    chat.screen.replace(plain_screen(&read));
    let Seat { tty, signals, runtime, .. } = &*seat;
    let mut reopening = Reopening { tty, signals, screen, unfinished };
    let opened = runtime.block_on(async {
        let opened = reopening.open(read, before, chat).await;
        signals.disarm();
        opened
    });
    let unfinished = reopening.unfinished;
    if !matches!(opened, Ok(ControlFlow::Continue(_))) {
        // The next conversation of this directory gets it.
        Drafts::new(&seat.app, DRAFT).hand_on(unfinished.text());
    }
    let (chat, app, said) = match opened? {
        ControlFlow::Continue(opened) => opened,
        ControlFlow::Break(exit) => return Ok(ControlFlow::Break(exit)),
    };
    seat.app = app;
    let chat = Box::new(chat);
    Ok(ControlFlow::Continue(Start::GoOn { chat, unfinished, said: Some(said) }))
}

/// A conversation that is opened anew, while nobody draws it.
struct Reopening<'a> {
    tty: &'a Tty,
    signals: &'a Signals,
    screen: SharedScreen,
    unfinished: Unfinished,
}

impl Reopening<'_> {
    async fn open(
        &mut self,
        read: AppContext,
        before: AppContext,
        chat: Chat,
    ) -> Outcome<ControlFlow<Exit, (Chat, AppContext, String)>> {
        let came_with = self.unfinished.work.len();
        let stop = CancellationToken::new();
        self.signals.arm_run(stop.clone());
        let keyboard = Keyboard::new(self.tty.clone(), self.screen.clone(), read.limits.clone());
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
        let count = if stop.is_cancelled() { came_with } else { self.unfinished.work.len() };
        // There is nothing else to go back to, so Ctrl-C does not stop this; a second signal ends the program.
        self.signals.arm_run(CancellationToken::new());
        let opened = self.attempt(&before, &carried, None).await;
        if self.is_terminated() {
            return self.end(opened.ok()).await;
        }
        let mut said = format!("cannot go on with the new settings, so those before stay: {failure}");
        if self.unfinished.give_back(count) {
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
        let desk = Desk::showing(app, self.tty.clone(), self.screen.clone(), shown, true);
        let keyboard = desk.keyboard.clone();
        let opened = Opens::Carried { carried, stop };
        let opening = Box::pin(Chat::open(app, opened, desk, self.signals.clone()));
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
        keyboard.set_draft(std::mem::take(&mut self.unfinished.draft));
        // Without keys a signal still stops it.
        let watching = keyboard.watch(stop.clone());
        let worked = work.await;
        drop(watching);
        self.unfinished.take_from(keyboard);
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
