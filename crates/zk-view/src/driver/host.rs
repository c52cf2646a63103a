use zk_core::model::{Block, Message};
use zk_core::service::Conversation;

use super::ViewDriver;
use crate::{Effect, EngineInput, NoteLevel};

/// Reason of a stop by the person, as the run's error.
const STOPPED: &str = "the person stopped it";

/// Carries out the effects of a view on a conversation.
impl ViewDriver {
    /// Carries out effects on a conversation until one needs the host; returns that one.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use std::sync::Arc;
    ///
    /// use zk_agent::{Agent, AgentConversation};
    /// use zk_core::kernel::Bus;
    /// use zk_testkit::{Script, ScriptedProvider};
    /// use zk_view::{Effect, Intent, ViewDriver};
    ///
    /// let (bus, view) = (Bus::new(), ViewDriver::new());
    /// bus.install(&view).unwrap();
    /// let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
    /// let agent = Agent::builder(Arc::new(provider)).bus(bus).model_id("scripted").build().unwrap();
    /// let conversation = AgentConversation::new(agent);
    ///
    /// view.intent(&Intent::Submit { text: "Hi.".into() });
    /// view.intent(&Intent::Command { name: "help".into(), args: String::new() });
    /// let left = view.drive(&conversation).await;
    /// assert_eq!(left, Effect::Command { name: "help".into(), args: String::new() });
    /// # });
    /// ```
    pub async fn drive(&self, conversation: &dyn Conversation) -> Effect {
        loop {
            let effect = self.next_effect().await;
            if let Some(left) = self.carry_out(conversation, effect).await {
                return left;
            }
        }
    }

    /// Carries out one effect on a conversation. Returns it if it needs the host. Failures become notices.
    pub async fn carry_out(&self, conversation: &dyn Conversation, effect: Effect) -> Option<Effect> {
        let done = match effect {
            Effect::Run { text } => {
                let submitted = conversation.submit(vec![Block::text(text)]).await;
                submitted.map(drop).map_err(|error| error.to_string())
            }
            // If the run has ended, the steering text stays in the queue of the view.
            Effect::Steer { text } => {
                let _ = conversation.steer(Message::injected(text, "steer"));
                Ok(())
            }
            Effect::Abort => {
                conversation.cancel(STOPPED);
                Ok(())
            }
            Effect::Reply { id, digest, answer } => {
                conversation.answer(id, digest, answer).map_err(|error| error.to_string())
            }
            Effect::Switch { to } => {
                conversation.switch(to).await.map(drop).map_err(|error| error.to_string())
            }
            Effect::Compact { instructions } => {
                conversation.compact(instructions).await.map_err(|error| error.to_string())
            }
            Effect::Hurry | Effect::Command { .. } | Effect::GiveBack { .. } | Effect::LoadBody { .. } => {
                return Some(effect);
            }
        };
        if let Err(why) = done {
            self.note(NoteLevel::Warning, &why);
        }
        None
    }

    /// Shows the questions of a view that [answers](ViewDriver::answering), while this future is polled. For
    /// front ends that ask before there is a bus; on a bus, the view does this itself. Waits for an earlier
    /// follower to end.
    pub async fn follow_questions(&self) {
        let Some(answering) = &self.shared.answering else { return };
        // An aborted follower ends only when the runtime polls it, so the next one waits.
        let _following = answering.following.lock().await;
        // The view is open again, since questions can also be asked between two buses.
        self.shared.state().closed = false;
        let mut front_end = answering.questions.attach();
        loop {
            let pending = front_end.pending();
            self.shared.apply(EngineInput::Questions(&pending));
            front_end.changed().await;
        }
    }
}
