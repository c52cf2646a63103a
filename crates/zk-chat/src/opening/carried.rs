use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_agent::{AgentConversation, AgentCounts};
use zk_core::model::{Message, MessageId, Model, SessionId, ThinkingRequest};
use zk_core::service::{Conversation, Questions};
use zk_permission::Mode;
use zk_permission::ModeSwitch;
use zk_tools::JobHandover;
use zk_view::ViewDriver;

use super::error::ChatError;
use super::sessions::UnsavedSession;
use super::setup::ChatSetup;
use crate::commands::directory;
use crate::conversation::attachments::Attachments;

/// State that a conversation carries over to its successor.
pub struct Carried {
    /// Session to go on with.
    pub session: CarriedSession,
    /// Messages to store with the next run, such as the output of a shell command of the person.
    pub(crate) unstored: Vec<Arc<Message>>,
    /// Present model.
    pub model: Model,
    /// Reasoning level, if the person chose one.
    pub(crate) thinking: Option<ThinkingRequest>,
    /// Permission mode, if the person chose one.
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

/// Session that is carried over to the next conversation.
#[derive(Debug)]
pub enum CarriedSession {
    /// Stored session.
    Stored(SessionId),
    /// Session that is not stored, or no longer.
    Unsaved(UnsavedSession, Vec<Arc<Message>>),
    /// Session without an answer.
    Empty,
}

impl Carried {
    /// Restores the choices made in the conversation.
    pub(crate) async fn restore_choices(
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
            if let Err(why) = directory::change_directory(
                &self.cwd.to_string_lossy(),
                conversation,
                &cx,
                setup.phrases.add_directory,
            )
            .await
            {
                let now = conversation.state().cwd;
                setup.notices.show(&format!("tools work in {} now: {why}", now.display()));
            }
        }
        Ok(())
    }
}
