//! Recovery from a conversation that exceeds the model's window: plugins are asked to reduce it, and the
//! model is asked again if they did.

use std::sync::Arc;

use zk_core::events::ContextOverflow;
use zk_core::model::{AgentError, Message, ProviderError, context_size};
use zk_core::service::Request;

use super::sequence::Turn;
use crate::run::RunState;

impl RunState {
    /// Returns the request with fewer messages; `None` if the messages were not reduced.
    pub(crate) async fn reduced_request(
        &mut self,
        turn: &Turn,
        error: &ProviderError,
    ) -> Result<Option<Request>, AgentError> {
        let Some(messages) = self.reduce_messages(turn, error).await? else { return Ok(None) };
        let request = self.build_request(turn, &messages).await?;
        self.sent = messages;
        Ok(Some(request))
    }

    /// Makes room after a full window cut an answer, so that another turn can continue it; fails for any
    /// other error. If two turns in a row are cut, the window is too small for the answer.
    pub(crate) async fn make_room_after(
        &mut self,
        turn: &Turn,
        error: AgentError,
    ) -> Result<bool, AgentError> {
        let AgentError::ContextExceeded(overflow) = &error else { return Err(error) };
        if self.cut_at.is_some_and(|cut| cut + 1 == turn.number) {
            return Err(error);
        }
        match self.reduce_messages(turn, overflow).await? {
            Some(_) => {
                self.cut_at = Some(turn.number);
                Ok(false)
            }
            None => Err(error),
        }
    }

    /// Announces the overflow, and returns the reduced messages; `None` if they were not reduced.
    async fn reduce_messages(
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
        let messages = self.build_messages(turn).await?;
        Ok((context_size(&messages) < size).then_some(messages))
    }
}
