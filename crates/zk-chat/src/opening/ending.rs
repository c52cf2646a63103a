use std::sync::Arc;

use zk_agent::{Agent, AgentConversation};
use zk_core::model::Role;
use zk_core::service::{Conversation, LeftSession, Questions};
use zk_permission::ModeSwitch;
use zk_tools::{JobPhase, Jobs};
use zk_view::ViewDriver;

use super::carried::{Carried, CarriedSession};
use super::factory::{ConversationFactory, Reread};
use super::sessions::ConversationSessions;
use crate::commands::session_commands;
use crate::conversation::attachments::Attachments;

/// Rereads the settings; fails if a conversation of this agent cannot continue with them.
pub(crate) fn reread_settings(factory: &dyn ConversationFactory, agent: &Agent) -> Result<Reread, String> {
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

/// Conversation to be closed, whose state its successor takes over.
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
    /// Closes the conversation; returns the state for its successor, and a warning if the session is not
    /// fully stored.
    pub(crate) async fn close_and_take_state(&self) -> (Carried, Option<String>) {
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
            // The session is no longer stored, since writing failed at some moment.
            Some(Ok(LeftSession::Nothing)) | None => CarriedSession::Unsaved(session, messages.clone()),
            Some(left @ (Ok(LeftSession::Part { .. }) | Err(_))) => {
                remark = session_commands::describe_left_session(&left, self.factory.setup().phrases.resume);
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
