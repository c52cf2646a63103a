//! Recovery of a conversation that does not fit the model's window: whoever can leave something out of it is
//! asked to, and the model is asked again if that helped.

use std::sync::Arc;

use zk_core::events::ContextOverflow;
use zk_core::model::{AgentError, Message, ProviderError, context_size};
use zk_core::service::Request;

use super::sequence::Turn;
use crate::run::RunState;

impl RunState {
    /// The request again, of fewer messages, or nothing if they did not become less.
    pub(crate) async fn with_room(
        &mut self,
        turn: &Turn,
        error: &ProviderError,
    ) -> Result<Option<Request>, AgentError> {
        let Some(messages) = self.make_room(turn, error).await? else { return Ok(None) };
        let request = self.request(turn, &messages).await?;
        self.sent = messages;
        Ok(Some(request))
    }

    /// Whether another turn can go on with an answer that stopped because of `error`: if the window was full, and
    /// now is not. Twice in a row the window is too small for the answer, whatever is left out before it.
    pub(crate) async fn go_on_after(&mut self, turn: &Turn, error: AgentError) -> Result<bool, AgentError> {
        let AgentError::ContextExceeded(overflow) = &error else { return Err(error) };
        if self.cut_at.is_some_and(|cut| cut + 1 == turn.number) {
            return Err(error);
        }
        match self.make_room(turn, overflow).await? {
            Some(_) => {
                self.cut_at = Some(turn.number);
                Ok(false)
            }
            None => Err(error),
        }
    }

    /// The messages to send after whoever listens left something out of them; nothing if nobody did.
    async fn make_room(
        &self,
        turn: &Turn,
        error: &ProviderError,
    ) -> Result<Option<Vec<Arc<Message>>>, AgentError> {
        let size = context_size(&self.sent);
        let overflow = ContextOverflow {
            turn_id: turn.id.clone(),
            model: self.model.reference(),
            window: error.window.or(self.model.window),
            size,
            error: error.to_string(),
        };
        turn.cx.emit(overflow).await?;
        let messages = self.context(turn).await?;
        Ok((context_size(&messages) < size).then_some(messages))
    }
}
