use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zk_agent::{Agent, AgentConversation};
use zk_core::service::{LeftSession, Questions};
use zk_permission::ModeSwitch;
use zk_tui::Style;
use zk_tui::plain::{Keyboard, LineEditor, Screen, SharedScreen, TerminalUi, Waiting};
use zk_view::ViewDriver;

use super::attachments::Attachments;
use super::effects::EffectHost;
use super::wanted_screen::WantedScreen;
use crate::commands::own_commands::is_harmless;
use crate::commands::provide_commands;
use crate::commands::session_commands::SetDraft;
use crate::opening::approval;
use crate::opening::error::ChatError;
use crate::opening::factory::{
    ConversationFactory, ConversationHost, ConversationSource, OpenedConversation,
};
use crate::opening::interrupts::Interrupts;
use crate::opening::sessions::ConversationSessions;
use crate::opening::start::ChatEnd;
use crate::screen::front_end::{AbortOnDrop, ConsoleFrontEnd, Lines, start_questions};

/// Callback for the start and end of a command.
type OnBusy = Arc<dyn Fn(bool) + Send + Sync>;

/// Open conversation: agent, screen and input.
pub(crate) struct Chat {
    /// Factory that opened the conversation.
    pub(crate) factory: Arc<dyn ConversationFactory>,
    pub(crate) agent: Agent,
    pub(crate) conversation: AgentConversation,
    pub(crate) sessions: Arc<dyn ConversationSessions>,
    pub(crate) screen: SharedScreen,
    pub(crate) keyboard: Keyboard,
    pub(crate) interrupts: Arc<dyn Interrupts>,
    pub(crate) view: ViewDriver,
    pub(crate) asking: Arc<Questions>,
    pub(crate) ui: Arc<TerminalUi>,
    /// Line printer of the conversation; `None` if another front end draws it.
    pub(crate) lines: Mutex<Option<Lines>>,
    /// Callback for commands that do not appear in the view.
    on_busy: Mutex<Option<OnBusy>>,
    _following: AbortOnDrop,
    /// Images attached to the draft.
    pub(crate) attachments: Attachments,
    /// Screen that a command requested for the rest of the conversation.
    pub(crate) wanted: WantedScreen,
    /// Commands to run in parallel with the present run.
    pub(crate) beside: tokio::sync::Mutex<UnboundedReceiver<String>>,
}

/// Outcome of an input line.
pub(crate) enum LineOutcome {
    Done,
    /// The line was stopped, or failed.
    Failed,
    /// A reload failed; input after it is discarded, since it was meant for the new state.
    ReloadRejected,
    /// The conversation ended.
    Quit(ChatEnd),
    /// The conversation restarts with new settings.
    Reload(Arc<dyn ConversationFactory>),
}

/// Switches to the next permission mode; returns a message.
pub(crate) fn switch_to_next_mode(modes: &ModeSwitch) -> String {
    modes.cycle();
    format!("mode {}: {}", modes.name(), modes.describe())
}

/// Switches to the next permission mode and prints it.
fn switch_mode_on_screen(modes: &ModeSwitch, screen: &SharedScreen) {
    screen.line(Style::YELLOW, &switch_to_next_mode(modes));
}

impl Chat {
    /// Opens the conversation. Unapproved parts of the project are used if the person approves them. `stop`
    /// cancels the opening, for callers that watch for interrupts; a carried-over conversation keeps its
    /// settings, so nothing is asked.
    pub(crate) async fn open(
        factory: &Arc<dyn ConversationFactory>,
        source: ConversationSource<'_>,
        front_end: ConsoleFrontEnd,
        interrupts: Arc<dyn Interrupts>,
        stop: Option<&CancellationToken>,
    ) -> Result<Self, ChatError> {
        let ConsoleFrontEnd { screen, keyboard, asking, view, draws_lines } = front_end;
        screen.take_notices(&factory.setup().notices);
        let ui = Arc::new(TerminalUi::new(screen.clone(), keyboard.clone()));
        // The view may ask a question before the conversation is open.
        let following = view.clone();
        let following = tokio::spawn(async move { following.follow_questions().await });
        let following = AbortOnDrop(following);
        let attending = draws_lines.then(|| start_questions(&view, &ui));
        let factory = match (source, stop) {
            (ConversationSource::Carried(_), None) => factory.clone(),
            (ConversationSource::Carried(_) | ConversationSource::Start, _) => {
                approval::ask_for_approval(factory, &asking, &keyboard, &*interrupts, stop).await?
            }
        };
        let setup = factory.setup();
        let mut lines = None;
        let host = ConversationHost {
            ui: ui.clone(),
            questions: Some(asking.clone()),
            view: view.clone(),
            stop,
            on_shown: Box::new(|not_shown| {
                not_shown.iter().for_each(|line| screen.line(Style::DIM, line));
                lines = attending.map(|attending| Lines::start(&view, &screen, &ui, attending));
            }),
        };
        let opened = factory.open(source, host).await?;
        let wanted = WantedScreen::default();
        wanted.set_drawn(!draws_lines);
        let typed = keyboard.clone();
        let set_draft: SetDraft = Arc::new(move |text| typed.set_draft(text));
        provide_commands(&opened, &factory, &view, &set_draft, &wanted);
        if let Some(modes) = opened.agent.bus().service::<ModeSwitch>() {
            let screen = screen.clone();
            keyboard.on_back_tab(move || switch_mode_on_screen(&modes, &screen));
        }
        let attachments = match source {
            ConversationSource::Start => Attachments::default(),
            ConversationSource::Carried(carried) => {
                let restoring = carried.restore_choices(&opened.conversation, setup);
                if let Err(error) = ConversationHost::unless_stopped(stop, restoring).await {
                    opened.sessions.keep_outputs();
                    // Commands of this conversation must not run in parallel with a replacement.
                    opened.agent.bus().close().await;
                    return Err(error);
                }
                carried.attachments.clone()
            }
        };
        // Requests have a receiver from here on.
        let (sender, beside) = unbounded_channel();
        keyboard.on_line(move |line| {
            let line = line.trim();
            is_harmless(line) && sender.send(line.to_owned()).is_ok()
        });
        let OpenedConversation { agent, conversation, sessions } = opened;
        Ok(Self {
            factory,
            agent,
            conversation,
            sessions,
            screen,
            keyboard,
            interrupts,
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
    }

    /// Parts that effects of the view are carried out on.
    pub(crate) fn effect_host(&self) -> EffectHost<'_> {
        EffectHost {
            view: &self.view,
            conversation: &self.conversation,
            sessions: &*self.sessions,
            attachments: &self.attachments,
        }
    }

    /// Sets the callback for the start and end of commands that do not appear in the view.
    pub(crate) fn on_busy(&self, tell: impl Fn(bool) + Send + Sync + 'static) {
        *self.on_busy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tell));
    }

    pub(crate) fn report_busy(&self, is_busy: bool) {
        let tell = self.on_busy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tell.iter().for_each(|tell| tell(is_busy));
    }

    pub(crate) fn switch_mode(&self) {
        if let Some(modes) = self.agent.bus().service::<ModeSwitch>() {
            switch_mode_on_screen(&modes, &self.screen);
        }
    }

    /// Prints the text that is handled now.
    pub(crate) fn echo_text(&self, text: &str) {
        let label = if self.screen.lock().is_labelled() { "you:" } else { "›" };
        self.screen.line(Style::PLAIN, &format!("{label} {text}"));
    }

    /// Next queued text of those typed during a run.
    pub(crate) fn next_queued(&self, editor: &mut LineEditor) -> Option<Waiting> {
        let waiting = self.keyboard.next_queued()?;
        editor.remember(&waiting.text);
        Some(waiting)
    }

    /// Waits until the line printer has caught up, if there is one.
    pub(crate) async fn flush(&self) {
        let drained = self.lines().as_ref().map(|lines| lines.painting.drained());
        if let Some(drained) = drained {
            drained.wait().await;
        }
    }

    pub(crate) fn lines(&self) -> MutexGuard<'_, Option<Lines>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the conversation in lines on `screen` from now on.
    pub(crate) fn draw_lines(&self, screen: Screen) {
        self.wanted.set_drawn(false);
        self.screen.replace(screen);
        let attending = start_questions(&self.view, &self.ui);
        *self.lines() = Some(Lines::start(&self.view, &self.screen, &self.ui, attending));
    }

    /// Hands the drawing of the conversation, and of text printed to `screen`, to another front end.
    pub(crate) fn leave_drawing_to(&self, screen: Screen) {
        self.wanted.set_drawn(true);
        *self.lines() = None;
        self.screen.replace(screen);
    }

    pub(crate) async fn close(&self) {
        self.conversation.close().await;
        self.agent.bus().close().await;
        let resume = self.factory.setup().phrases.resume;
        for left in self.sessions.take_left() {
            match left {
                Err(error) => self.screen.line(Style::RED, &format!("session not saved: {error}")),
                Ok(LeftSession::All(id)) => self.screen.line(Style::DIM, &format!("to go on: {resume} {id}")),
                Ok(LeftSession::Part { id, missing }) => self.screen.line(
                    Style::YELLOW,
                    &format!("session saved but for its last {missing} entries; to go on: {resume} {id}"),
                ),
                Ok(LeftSession::Nothing) => {}
            }
        }
    }
}
