//! `/reload`: the conversation continues with newly read settings and plugins.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_tools::Jobs;
use zk_tui::plain::{Keyboard, SharedScreen};
use zk_tui::term::Tty;
use zk_tui::{DRAFT_PAUSE, Drafts, ScreenKind, Style};

use super::chat::Chat;
use crate::opening::carried::Carried;
use crate::opening::ending::{EndingConversation, reread_settings};
use crate::opening::error::ChatError;
use crate::opening::factory::{ConversationFactory, ConversationSource, Reread};
use crate::opening::interrupts::{Interruption, Interrupts};
use crate::opening::setup::ChatSetup;
use crate::opening::start::ChatEnd;
use crate::screen::draft::draft_files::draft_files;
use crate::screen::front_end::ConsoleFrontEnd;
use crate::screen::pending_input::PendingInput;
use crate::screen::terminal_session::{ScreenStart, TerminalSession};

/// Message after a successful reload.
const READ: &str = "settings, hooks, keys, theme, skills, agents and MCP servers are read anew";

impl Chat {
    /// Rereads the settings; fails if this conversation cannot continue with them.
    pub(crate) fn reread(&self) -> Result<Arc<dyn ConversationFactory>, String> {
        let Reread { factory, warnings } = reread_settings(&*self.factory, &self.agent)?;
        warnings.iter().for_each(|warning| self.screen.line(Style::YELLOW, &format!("warning: {warning}")));
        Ok(factory)
    }

    /// Closes this conversation; returns the state for the next one.
    async fn close_and_take_state(self) -> Carried {
        let ending = EndingConversation {
            factory: &*self.factory,
            agent: &self.agent,
            conversation: &self.conversation,
            sessions: &*self.sessions,
            attachments: &self.attachments,
            asking: &self.asking,
            view: &self.view,
        };
        let (carried, unsaved) = ending.close_and_take_state().await;
        unsaved.iter().for_each(|line| self.screen.line(Style::YELLOW, line));
        carried
    }
}

/// Kind of screen after a reload: the present one, unless the setting changed.
pub(crate) fn next_screen_kind(now: ScreenKind, before: &ChatSetup, read: &ChatSetup) -> ScreenKind {
    if before.screen == read.screen { now } else { read.screen_kind() }
}

/// Reopens a conversation with the new settings, or with the old ones after a failure or a stop. Typed text
/// is kept.
pub(crate) fn reopen(
    session: &mut TerminalSession,
    read: Arc<dyn ConversationFactory>,
    chat: Chat,
    pending: PendingInput,
) -> Result<ControlFlow<ChatEnd, ScreenStart>, ChatError> {
    let before = chat.factory.clone();
    // The screen is not drawn until the conversation is open again.
    let is_drawn = chat.wanted.is_drawn();
    let plain = || {
        let screen = read.setup().plain_screen();
        if is_drawn { screen.with_margin() } else { screen }
    };
    let screen = SharedScreen::with_keys(plain());
    chat.screen.replace(plain());
    let TerminalSession { tty, interrupts, runtime, .. } = &*session;
    let mut reopening = Reopening { tty, interrupts, screen, pending };
    let opened = runtime.block_on(async {
        let opened = reopening.reopen(read, before, chat).await;
        interrupts.disarm();
        opened
    });
    let pending = reopening.pending;
    if !matches!(opened, Ok(ControlFlow::Continue(_))) {
        // The unsent text is stored for the next conversation of this directory.
        Drafts::new(draft_files(session.factory.setup()), DRAFT_PAUSE).store_for_next_screen(pending.text());
    }
    let (chat, factory, said) = match opened? {
        ControlFlow::Continue(opened) => opened,
        ControlFlow::Break(end) => return Ok(ControlFlow::Break(end)),
    };
    session.factory = factory;
    let chat = Box::new(chat);
    Ok(ControlFlow::Continue(ScreenStart::GoOn { chat, pending, said: Some(said) }))
}

/// Conversation in the middle of a reload, while no screen is drawn.
struct Reopening<'a> {
    tty: &'a Tty,
    interrupts: &'a Arc<dyn Interrupts>,
    screen: SharedScreen,
    pending: PendingInput,
}

impl Reopening<'_> {
    async fn reopen(
        &mut self,
        read: Arc<dyn ConversationFactory>,
        before: Arc<dyn ConversationFactory>,
        chat: Chat,
    ) -> Result<ControlFlow<ChatEnd, (Chat, Arc<dyn ConversationFactory>, String)>, ChatError> {
        let came_with = self.pending.work.len();
        let stop = CancellationToken::new();
        self.interrupts.arm(stop.clone());
        let limits = read.setup().limits.clone();
        let keyboard = Keyboard::new(self.tty.clone(), self.screen.clone(), move || limits.skip_waits());
        // Closing is awaited; a second signal ends the program.
        let carried = self.with_keyboard(&keyboard, &stop, chat.close_and_take_state()).await;
        let opened = match stop.is_cancelled() {
            true => Err(ChatError::Stopped),
            false => self.try_open(&read, &carried, Some(&stop)).await,
        };
        if self.is_terminated() {
            return self.end_reload(opened.ok()).await;
        }
        let failure = match opened {
            Ok(chat) => return Ok(ControlFlow::Continue((chat, read, READ.to_owned()))),
            Err(failure) => failure,
        };
        // If the new settings fail, text typed for them is discarded. If the person stopped the reload, all
        // text was typed for the old settings.
        let count = if stop.is_cancelled() { came_with } else { self.pending.work.len() };
        // Ctrl-C cannot cancel the return to the old settings; a second signal ends the program.
        self.interrupts.arm(CancellationToken::new());
        let opened = self.try_open(&before, &carried, None).await;
        if self.is_terminated() {
            return self.end_reload(opened.ok()).await;
        }
        let mut said = format!("cannot go on with the new settings, so those before stay: {failure}");
        if self.pending.return_to_draft(count) {
            said.push_str("; what was typed behind it was not sent");
        }
        opened.map(|chat| ControlFlow::Continue((chat, before, said)))
    }

    async fn try_open(
        &mut self,
        factory: &Arc<dyn ConversationFactory>,
        carried: &Carried,
        stop: Option<&CancellationToken>,
    ) -> Result<Chat, ChatError> {
        let shown = (carried.asking.clone(), carried.view.clone());
        let front_end =
            ConsoleFrontEnd::for_view(factory.setup(), self.tty.clone(), self.screen.clone(), shown, true);
        let keyboard = front_end.keyboard.clone();
        let source = ConversationSource::Carried(carried);
        let opening = Box::pin(Chat::open(factory, source, front_end, self.interrupts.clone(), stop));
        let chat = self.with_keyboard(&keyboard, &stop.cloned().unwrap_or_default(), opening).await?;
        // The new conversation cannot fail any more.
        if let Some(jobs) = chat.agent.bus().service::<Jobs>() {
            jobs.take_over(&carried.jobs);
        }
        Ok(chat)
    }

    /// Awaits `work`; Escape and Ctrl-C cancel `stop`. Typed text is kept.
    async fn with_keyboard<T>(
        &mut self,
        keyboard: &Keyboard,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        keyboard.set_draft(std::mem::take(&mut self.pending.draft));
        // If the keyboard cannot be read, a signal still cancels `work`.
        let watching = keyboard.watch(stop.clone());
        let worked = work.await;
        drop(watching);
        self.pending.take_from(keyboard);
        worked
    }

    fn is_terminated(&self) -> bool {
        self.interrupts.seen() == Some(Interruption::Terminated)
    }

    async fn end_reload<T>(&self, opened: Option<Chat>) -> Result<ControlFlow<ChatEnd, T>, ChatError> {
        if let Some(chat) = opened {
            chat.close().await;
        }
        Ok(ControlFlow::Break(ChatEnd::Terminated))
    }
}
