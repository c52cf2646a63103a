use zk_agent::AgentConversation;
use zk_core::model::Message;
use zk_core::service::Conversation;
use zk_view::{BlockId, Effect, NoteLevel, ViewDriver, body_of};

use super::attachments::Attachments;
use crate::opening::sessions::ConversationSessions;

/// Part of an effect that its caller has to carry out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remainder {
    /// Prompt or shell command of the person, whose run the caller awaits.
    Run(String),
    /// Text for the draft.
    GiveBack(String),
}

/// Parts of a conversation that the effects of its view are carried out on, during a run and between runs.
#[derive(Clone, Copy)]
pub(crate) struct EffectHost<'a> {
    pub(crate) view: &'a ViewDriver,
    pub(crate) conversation: &'a AgentConversation,
    pub(crate) sessions: &'a dyn ConversationSessions,
    pub(crate) attachments: &'a Attachments,
}

impl EffectHost<'_> {
    /// Whether an effect concerns the present run, so that it cannot wait for the run's end.
    pub(crate) fn is_urgent(effect: &Effect) -> bool {
        match effect {
            Effect::Steer { .. } | Effect::Abort | Effect::Reply { .. } | Effect::LoadBody { .. } => true,
            Effect::Run { .. }
            | Effect::Switch { .. }
            | Effect::Compact { .. }
            | Effect::Hurry
            | Effect::Command { .. }
            | Effect::GiveBack { .. } => false,
        }
    }

    /// Carries out an effect; returns the part that is left to the caller.
    pub(crate) async fn carry_out(&self, effect: Effect) -> Option<Remainder> {
        match effect {
            Effect::Run { text } => return Some(Remainder::Run(text)),
            Effect::GiveBack { text } => return Some(Remainder::GiveBack(text)),
            Effect::LoadBody { id } => self.load_body(&id).await,
            Effect::Steer { text } => self.steer(&text),
            Effect::Abort | Effect::Reply { .. } | Effect::Switch { .. } | Effect::Compact { .. } => {
                // The view driver carries these out completely.
                let _ = self.view.carry_out(self.conversation, effect).await;
            }
            // In plain lines, keys end the wait for a retry, and commands are typed as lines.
            Effect::Hurry | Effect::Command { .. } => {}
        }
        None
    }

    /// Steers the run with a text and the images that it refers to.
    fn steer(&self, text: &str) {
        let mut message = Message::injected(text, "steer");
        message.content.extend(self.attachments.images_of(text));
        // If the run has ended, the text stays in the queue of the view.
        let _ = self.conversation.steer(message);
    }

    /// Loads all lines of a result into the view, or reports that they are no longer stored.
    async fn load_body(&self, id: &BlockId) {
        let entries = self.sessions.shown_entries().await.unwrap_or_default();
        match body_of(&entries, id) {
            Some(lines) => self.view.body(id, &lines),
            None => self.view.note(NoteLevel::Warning, "this output is not kept any more"),
        }
    }
}
