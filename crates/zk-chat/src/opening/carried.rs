use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_agent::{Agent, AgentConversation, AgentCounts};
use zk_core::model::{Message, MessageId, Model, Role, SessionId, ThinkingRequest};
use zk_core::service::{Conversation, Questions};
use zk_permission::Mode;
use zk_permission::ModeSwitch;
use zk_tools::{JobHandover, JobPhase, Jobs};
use zk_view::ViewDriver;

use super::error::ChatError;
use super::factory::{ConversationFactory, Reread};
use super::sessions::{ConversationSessions, LeftSession, UnsavedSession};
use super::setup::ChatSetup;
use crate::commands::{directory, session_commands};
use crate::conversation::attachments::Attachments;

/// State that goes on in the conversation that is opened next.
pub struct Carried {
    /// Session to go on with.
    pub session: CarriedSession,
    /// Last messages, which are stored with the next run, such as the output of a command of the person.
    pub(crate) unstored: Vec<Arc<Message>>,
    /// Model that is in use.
    pub model: Model,
    /// Thinking of the model, if the person chose it.
    pub(crate) thinking: Option<ThinkingRequest>,
    /// The permission mode, if the person chose it.
    pub(crate) mode: Option<Mode>,
    /// Whether the agent plans.
    pub(crate) plans: bool,
    /// The directory that tools work in.
    pub(crate) cwd: PathBuf,
    pub(crate) attachments: Attachments,
    pub(crate) jobs: JobHandover,
    pub(crate) counts: AgentCounts,
    pub(crate) asking: Arc<Questions>,
    pub(crate) view: ViewDriver,
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carried")
            .field("session", &self.session)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Session that goes on.
#[derive(Debug)]
pub enum CarriedSession {
    /// One that is stored.
    Stored(SessionId),
    /// One that is stored nowhere, or no longer.
    Unsaved(UnsavedSession, Vec<Arc<Message>>),
    /// One without an answer in it.
    Empty,
}

/// Reads the settings as they are now, unless a conversation of this agent cannot go on with them.
pub(crate) fn reread(factory: &dyn ConversationFactory, agent: &Agent) -> Result<Reread, String> {
    let jobs = agent.bus().service::<Jobs>().map(|jobs| jobs.list()).unwrap_or_default();
    let runs = |phase: &JobPhase| matches!(phase, JobPhase::Running | JobPhase::Ending);
    if let Some(job) = jobs.iter().find(|job| runs(&job.phase) && !job.detached) {
        let command = job.command.lines().next().unwrap_or_default();
        return Err(format!(
            "{} still runs in the background and would end ({command}); wait for it, or end it with /jobs kill {0}",
            job.id
        ));
    }
    factory.reread().map_err(|error| error.to_string())
}

/// Conversation that ends so that another one can go on with what it has.
pub(crate) struct EndingConversation<'a> {
    pub(crate) factory: &'a dyn ConversationFactory,
    pub(crate) agent: &'a Agent,
    pub(crate) conversation: &'a AgentConversation,
    pub(crate) sessions: &'a dyn ConversationSessions,
    pub(crate) attachments: &'a Attachments,
    pub(crate) asking: &'a Arc<Questions>,
    pub(crate) view: &'a ViewDriver,
}

impl EndingConversation<'_> {
    /// Ends everything of the conversation, and gives what the next one goes on with, and a line on what of the session is
    /// not stored.
    pub(crate) async fn carry(&self) -> (Carried, Option<String>) {
        let session = self.sessions.unsaved();
        let is_unsaved = self.sessions.open_session().is_none();
        let messages = self.agent.history();
        let is_answered = messages.iter().any(|message| message.role == Role::Assistant);
        let carried = is_unsaved.then(|| CarriedSession::Unsaved(session.clone(), messages.clone()));
        if is_unsaved {
            self.sessions.keep_outputs();
        }
        let modes = self.agent.bus().service::<ModeSwitch>();
        let (model, thinking) = (self.agent.model(), self.agent.thinking());
        let thinking = (thinking.level != self.factory.setup().thinking).then_some(thinking);
        let (cwd, counts) = (self.conversation.state().cwd, self.agent.counts());
        let jobs = self.agent.bus().service::<Jobs>();
        let jobs = jobs.map(|jobs| jobs.hand_over()).unwrap_or_default();
        self.conversation.close().await;
        self.agent.bus().close().await;
        let left = self.sessions.take_left().pop();
        let mut remark = None;
        let session = carried.unwrap_or_else(|| match left {
            Some(Ok(LeftSession::All(id))) => CarriedSession::Stored(id),
            Some(Ok(LeftSession::Nothing)) | None if !is_answered => CarriedSession::Empty,
            // The session could not be stored from some moment on.
            Some(Ok(LeftSession::Nothing)) | None => CarriedSession::Unsaved(session, messages.clone()),
            Some(left @ (Ok(LeftSession::Part { .. }) | Err(_))) => {
                remark = session_commands::describe_left(&left, self.factory.setup().phrases.resume);
                CarriedSession::Unsaved(session, messages.clone())
            }
        });
        let injected = messages.iter().rev().take_while(|message| message.role == Role::User);
        let mut unstored: Vec<_> = injected.cloned().collect();
        unstored.reverse();
        let plans = modes.as_ref().is_some_and(|modes| modes.before_plan().is_some());
        let mode = modes.and_then(|modes| modes.changed());
        let (attachments, asking, view) = (self.attachments.clone(), self.asking.clone(), self.view.clone());
        let carried = Carried {
            session,
            unstored,
            model,
            thinking,
            mode,
            plans,
            cwd,
            attachments,
            jobs,
            counts,
            asking,
            view,
        };
        (carried, remark)
    }
}

impl Carried {
    /// Chooses again what was chosen in the conversation.
    pub(crate) async fn restore(
        &self,
        conversation: &AgentConversation,
        setup: &ChatSetup,
    ) -> Result<(), ChatError> {
        let agent = conversation.agent();
        agent.continue_counts(self.counts);
        if let Some(thinking) = self.thinking.filter(|chosen| chosen.level != agent.thinking().level) {
            agent.set_thinking(thinking).await.map_err(|error| ChatError::Factory(error.into()))?;
        }
        let known: HashSet<Option<MessageId>> =
            agent.history().iter().map(|known| known.id.clone()).collect();
        for message in self.unstored.iter().filter(|message| !known.contains(&message.id)) {
            agent.inject(Message::clone(message)).map_err(|error| ChatError::Factory(error.into()))?;
        }
        let modes = agent.bus().service::<ModeSwitch>();
        if let (Some(modes), Some(mode)) = (&modes, self.mode)
            && let Err(why) = modes.choose(mode)
        {
            setup.notices.show(&format!("the permission mode is {} now, not {mode}: {why}", modes.chosen()));
        }
        modes.iter().filter(|_| self.plans).for_each(|modes| modes.plan());
        if conversation.state().cwd != self.cwd {
            let cx = conversation.command_cx();
            if let Err(why) =
                directory::go_to(&self.cwd.to_string_lossy(), conversation, &cx, setup.phrases.add_directory)
                    .await
            {
                let now = conversation.state().cwd;
                setup.notices.show(&format!("tools work in {} now: {why}", now.display()));
            }
        }
        Ok(())
    }
}
