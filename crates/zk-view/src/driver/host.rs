use zk_core::model::{Block, Message};
use zk_core::service::Conversation;

use super::ViewDriver;
use crate::{Effect, EngineInput, NoteLevel};

/// Reason for the end of a run that the person stopped.
const STOPPED: &str = "the person stopped it";

/// Carrying out the effects of a view.
impl ViewDriver {
    /// Carries out effects on a conversation until there is one that only the host can do, which is given back.
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

    /// Carries out what one effect asks of a conversation. Gives back one that only the host can do. What
    /// fails is shown as a notice.
    pub async fn carry_out(&self, conversation: &dyn Conversation, effect: Effect) -> Option<Effect> {
        let done = match effect {
            Effect::Run { text } => {
                let submitted = conversation.submit(vec![Block::text(text)]).await;
                submitted.map(drop).map_err(|error| error.to_string())
            }
            // Steering that comes too late waits in the queue of the view, which knows that the run is over.
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

    /// Shows the questions of a view that [answers](ViewDriver::answering), for as long as this is polled.
    /// It is for a front-end that asks something before there is a bus: on a bus, the view shows them
    /// itself. If questions are followed already, this takes over once that ends.
    pub async fn follow_questions(&self) {
        let Some(answering) = &self.shared.answering else { return };
        // A follower that is aborted ends only once the runtime gets to it: the next one waits for that.
        let _following = answering.following.lock().await;
        // Something is asked between one bus and the next, too.
        self.shared.state().closed = false;
        let mut front_end = answering.questions.attach();
        loop {
            let pending = front_end.pending();
            self.shared.apply(EngineInput::Questions(&pending));
            front_end.changed().await;
        }
    }
}
