use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use zk_agent::{AgentConversation, AgentCounts};
use zk_core::model::{Message, MessageId, Model, SessionId, ThinkingRequest};
use zk_core::service::{Conversation, Questions};
use zk_permission::Mode;
use zk_permission::ModeSwitch;
use zk_providers::select::SelectedEndpoint;
use zk_tools::JobHandover;
use zk_tui::plain::Notices;
use zk_view::ViewDriver;

use super::attachments::Attachments;
use super::directory;
use crate::app::AppContext;
use crate::args::Resume;
use crate::exit::{Failure, Outcome};
use crate::sessions::{self, Session};

/// State that goes on in the conversation that is opened next.
pub(super) struct Carried {
    pub(super) session: CarriedSession,
    /// Last messages, which are stored with the next run, such as the output of a command of the person.
    pub(super) unstored: Vec<Arc<Message>>,
    pub(super) model: Model,
    /// Thinking of the model, if the person chose it.
    pub(super) thinking: Option<ThinkingRequest>,
    /// The permission mode, if the person chose it.
    pub(super) mode: Option<Mode>,
    /// The directory that tools work in.
    pub(super) cwd: PathBuf,
    pub(super) attachments: Attachments,
    pub(super) jobs: JobHandover,
    pub(super) counts: AgentCounts,
    pub(super) asking: Arc<Questions>,
    pub(super) view: ViewDriver,
}

/// Session that goes on.
pub(super) enum CarriedSession {
    Stored(SessionId),
    /// One that is stored nowhere, or no longer.
    Unsaved(Arc<Session>, Vec<Arc<Message>>),
    /// One without an answer in it.
    Empty,
}

impl Carried {
    /// The endpoint of the provider that is in use.
    pub(super) async fn endpoint(&self, app: &AppContext) -> Outcome<SelectedEndpoint> {
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
        let modes = agent.bus().service::<ModeSwitch>();
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
