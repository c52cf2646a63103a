use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast;
use zk_agent::{Agent, AgentConversation};
use zk_core::kernel::Bus;
use zk_core::service::{Questions, Ui};
use zk_tools::Jobs;
use zk_view::{Intent, NoteLevel, ViewDriver};

use super::driving;
use crate::commands::provide_commands;
use crate::commands::session_commands::SetDraft;
use crate::conversation::attachments::Attachments;
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::carried::Carried;
use crate::opening::ending::{EndingConversation, reread_settings};
use crate::opening::error::ChatError;
use crate::opening::factory::{
    ConversationFactory, ConversationHost, ConversationSource, OpenedConversation, Reread,
};
use crate::opening::sessions::ConversationSessions;
use crate::screen::front_end::AbortOnDrop;

/// Capacity of the channel of hosted events, beyond which a slow receiver misses events.
const MAX_WAITING_EVENTS: usize = 256;

/// Conversation driven by another program: view, questions and commands, without a terminal. Effects of the
/// view are carried out until it is dropped.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
///
/// use zk_agent::Agent;
/// use zk_chat::{AgentFactory, ChatSetup, HostedConversation, HostedOptions};
/// use zk_core::service::Conversation;
/// use zk_exec::LocalHostFiles;
/// use zk_testkit::{Script, ScriptedProvider};
/// use zk_view::{Content, Intent};
///
/// let setup = ChatSetup::new(std::env::temp_dir(), Arc::new(LocalHostFiles::default()));
/// let factory = AgentFactory::new(setup, |bus| {
///     let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
///     Ok(Agent::builder(Arc::new(provider)).bus(bus).model_id("scripted").build()?)
/// });
/// let hosted = HostedConversation::open(Arc::new(factory), HostedOptions::default()).await.unwrap();
/// let mut reader = hosted.view().reader();
/// hosted.intent(&Intent::Submit { text: "Hi.".into() });
/// let is_end = |content: &Content| matches!(content, Content::End(_));
/// while !hosted.view().view().blocks.iter().any(|block| is_end(&block.content)) {
///     reader.next().await.unwrap();
/// }
/// hosted.close().await;
/// # });
/// ```
pub struct HostedConversation {
    asking: Arc<Questions>,
    view: ViewDriver,
    attachments: Attachments,
    /// Parts replaced by a reload.
    present: RwLock<Arc<Present>>,
    /// Lock held while a command runs, or while the conversation is opened, closed or replaced.
    pub(super) changing: tokio::sync::Mutex<()>,
    events: broadcast::Sender<HostedEvent>,
    /// Whether a front end answers questions.
    attended: bool,
    driving: std::sync::Mutex<Option<AbortOnDrop>>,
}

/// Parts of the conversation that a reload replaces.
pub(super) struct Present {
    pub(super) factory: Arc<dyn ConversationFactory>,
    pub(super) opened: OpenedConversation,
    pub(super) wanted: WantedScreen,
}

/// Choices for a hosted conversation.
#[derive(Clone, Copy, Debug)]
pub struct HostedOptions {
    /// Whether a front end answers questions; without one, they are declined.
    pub attended: bool,
    /// Whether to ask about unapproved parts of the project before opening; otherwise they are ignored.
    pub asks_about_project: bool,
}

impl Default for HostedOptions {
    fn default() -> Self {
        Self { attended: true, asks_about_project: false }
    }
}

/// Event of a hosted conversation outside of its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostedEvent {
    /// Queued text that returns to the draft.
    GivenBack(String),
    /// The conversation was reopened with new settings.
    Reloaded,
    /// The conversation ended.
    Ended,
}

/// Sink of notices, which appear as rows of the view.
struct ViewNotices(ViewDriver);

impl Ui for ViewNotices {
    fn notify(&self, text: &str) {
        self.0.note(NoteLevel::Info, text);
    }
}

impl fmt::Debug for HostedConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedConversation").field("view", &self.view).finish_non_exhaustive()
    }
}

impl HostedConversation {
    /// Opens a conversation that a factory begins.
    ///
    /// # Errors
    /// [`ChatError`] when it cannot be opened.
    pub async fn open(
        factory: Arc<dyn ConversationFactory>,
        options: HostedOptions,
    ) -> Result<Arc<Self>, ChatError> {
        Self::open_showing(factory, options, |_| ()).await
    }

    /// Opens a conversation like [`HostedConversation::open`], and provides its view beforehand, so that
    /// questions during the opening can be answered.
    ///
    /// # Errors
    /// [`ChatError`] when it cannot be opened.
    pub async fn open_showing(
        factory: Arc<dyn ConversationFactory>,
        options: HostedOptions,
        on_view: impl FnOnce(&ViewDriver),
    ) -> Result<Arc<Self>, ChatError> {
        let asking = Arc::new(Questions::new());
        let view = if options.attended { ViewDriver::answering(&asking) } else { ViewDriver::new() };
        on_view(&view);
        let following = view.clone();
        let _following = AbortOnDrop(tokio::spawn(async move { following.follow_questions().await }));
        let factory = match factory.unapproved().filter(|_| options.asks_about_project) {
            Some(unapproved) => {
                unapproved.ask(&asking, &Bus::new().cx()).await.map_err(ChatError::Factory)?
            }
            None => factory,
        };
        let (events, _) = broadcast::channel(MAX_WAITING_EVENTS);
        let shared = Shared { asking: &asking, view: &view, events: &events, attended: options.attended };
        let present = shared.open_present(factory, ConversationSource::Start).await?;
        let hosted = Arc::new(Self {
            present: RwLock::new(Arc::new(present)),
            asking,
            view,
            attachments: Attachments::default(),
            changing: tokio::sync::Mutex::default(),
            events,
            attended: options.attended,
            driving: std::sync::Mutex::default(),
        });
        let driving = AbortOnDrop(tokio::spawn(driving::carry_out_effects(
            Arc::downgrade(&hosted),
            hosted.view.clone(),
        )));
        *hosted.driving.lock().unwrap_or_else(PoisonError::into_inner) = Some(driving);
        Ok(hosted)
    }

    /// The view, for readers and intents.
    #[must_use]
    pub fn view(&self) -> &ViewDriver {
        &self.view
    }

    /// Open questions, for front ends that do not use the view.
    #[must_use]
    pub fn questions(&self) -> &Arc<Questions> {
        &self.asking
    }

    /// Present agent; a reload replaces it.
    #[must_use]
    pub fn agent(&self) -> Agent {
        self.present().opened.agent.clone()
    }

    /// Present conversation of the agent; a reload replaces it.
    #[must_use]
    pub fn conversation(&self) -> AgentConversation {
        self.present().opened.conversation.clone()
    }

    /// Sessions of the conversation.
    #[must_use]
    pub fn sessions(&self) -> Arc<dyn ConversationSessions> {
        self.present().opened.sessions.clone()
    }

    /// The factory that opened the conversation.
    #[must_use]
    pub fn factory(&self) -> Arc<dyn ConversationFactory> {
        self.present().factory.clone()
    }

    /// Subscribes to events outside of the view.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<HostedEvent> {
        self.events.subscribe()
    }

    /// Applies an intent. A steering text that is taken back is also removed from the run.
    pub fn intent(&self, intent: &Intent) {
        if let Intent::Unqueue { id } = intent {
            let queued = self.view.view().queue.into_iter().find(|queued| queued.id == *id && queued.steers);
            // A text that was sent to the model has left the queue.
            if let Some(text) = queued
                && !self.conversation().unsteer(text.text.unsanitised())
            {
                return;
            }
        }
        self.view.intent(intent);
    }

    /// Attaches an image, and returns its mark for a prompt.
    ///
    /// # Errors
    /// When the bytes are no image that models see.
    pub fn attach_image(&self, bytes: &[u8]) -> Result<String, String> {
        self.attachments.add_unnamed(bytes)
    }

    pub(super) fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    pub(super) fn present(&self) -> Arc<Present> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn send_event(&self, event: HostedEvent) {
        // There may be no receiver.
        let _ = self.events.send(event);
    }

    /// Rereads all settings and reopens the conversation, with the old settings if that fails. Returns the
    /// warnings.
    ///
    /// # Errors
    /// When reading fails, or the conversation cannot continue with the new settings: it is
    /// unchanged. [`ChatError::Factory`] if it cannot be reopened at all.
    pub async fn reload(&self) -> Result<Vec<String>, ChatError> {
        let _changing = self.changing.lock().await;
        let present = self.present();
        let Reread { factory, warnings } = reread_settings(&*present.factory, &present.opened.agent)
            .map_err(|why| ChatError::Factory(why.into()))?;
        let ending = EndingConversation {
            factory: &*present.factory,
            agent: &present.opened.agent,
            conversation: &present.opened.conversation,
            sessions: &*present.opened.sessions,
            attachments: &self.attachments,
            asking: &self.asking,
            view: &self.view,
        };
        let (carried, unsaved) = ending.close_and_take_state().await;
        unsaved.iter().for_each(|line| self.view.note(NoteLevel::Warning, line));
        let failure = match self.try_open(factory, &carried).await {
            Ok(()) => return Ok(warnings),
            Err(failure) => failure,
        };
        self.try_open(present.factory.clone(), &carried).await?;
        let why = format!("cannot go on with the new settings, so those before stay: {failure}");
        Err(ChatError::Factory(why.into()))
    }

    async fn try_open(
        &self,
        factory: Arc<dyn ConversationFactory>,
        carried: &Carried,
    ) -> Result<(), ChatError> {
        let shared =
            Shared { asking: &self.asking, view: &self.view, events: &self.events, attended: self.attended };
        let present = shared.open_present(factory, ConversationSource::Carried(carried)).await?;
        if let Some(jobs) = present.opened.agent.bus().service::<Jobs>() {
            jobs.take_over(&carried.jobs);
        }
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(present);
        self.send_event(HostedEvent::Reloaded);
        Ok(())
    }

    /// Stops the run, stores the session and closes the conversation. Returns warnings about sessions that
    /// are not fully stored.
    pub async fn close(&self) -> Vec<String> {
        let _changing = self.changing.lock().await;
        let present = self.present();
        present.opened.conversation.close().await;
        present.opened.agent.bus().close().await;
        self.driving.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.send_event(HostedEvent::Ended);
        let left = present.opened.sessions.take_left().into_iter();
        left.filter_map(|left| left.err().map(|error| format!("session not saved: {error}"))).collect()
    }
}

/// Parts that stay the same when the conversation is reopened.
struct Shared<'a> {
    asking: &'a Arc<Questions>,
    view: &'a ViewDriver,
    events: &'a broadcast::Sender<HostedEvent>,
    attended: bool,
}

impl Shared<'_> {
    async fn open_present(
        &self,
        factory: Arc<dyn ConversationFactory>,
        source: ConversationSource<'_>,
    ) -> Result<Present, ChatError> {
        let view = self.view.clone();
        let host = ConversationHost {
            ui: Arc::new(ViewNotices(view.clone())),
            questions: self.attended.then(|| self.asking.clone()),
            view: view.clone(),
            stop: None,
            on_shown: Box::new(move |not_shown| {
                not_shown.iter().for_each(|line| view.note(NoteLevel::Info, line));
            }),
        };
        let opened = factory.open(source, host).await?;
        let wanted = WantedScreen::default();
        wanted.set_drawn(true);
        let events = self.events.clone();
        let set_draft: SetDraft = Arc::new(move |text| {
            // There may be no receiver of events.
            let _ = events.send(HostedEvent::GivenBack(text));
        });
        provide_commands(&opened, &factory, self.view, &set_draft, &wanted);
        if let ConversationSource::Carried(carried) = source
            && let Err(error) = carried.restore_choices(&opened.conversation, factory.setup()).await
        {
            opened.sessions.keep_outputs();
            opened.agent.bus().close().await;
            return Err(error);
        }
        Ok(Present { factory, opened, wanted })
    }
}
