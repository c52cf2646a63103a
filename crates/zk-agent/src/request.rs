use std::sync::Arc;

use zk_core::events::{ContextTransform, HistoryRepaired, ProviderRequest, SystemTransform};
use zk_core::model::{AgentError, Message, SessionId, WireReady};
use zk_core::service::{Provider, Request, ToolChoice};

use crate::driver::Driver;
use crate::thinking::{decayed, output_limit, usual_limit};
use crate::turn::Turn;

impl Driver {
    /// The messages to send, in canonical names.
    pub(crate) async fn context(&self, turn: &Turn) -> Result<Vec<Arc<Message>>, AgentError> {
        let messages = self.agent.state().history.clone();
        if !turn.cx.bus().has_listeners::<ContextTransform>() {
            return Ok(messages);
        }
        let context = ContextTransform { turn_id: turn.id.clone(), messages, window: self.model.window };
        Ok(turn.cx.emit(context).await?.messages)
    }

    /// Everything else that is settled before the request: what is sent with them, and how.
    pub(crate) async fn request(
        &mut self,
        turn: &Turn,
        provider: &dyn Provider,
        messages: &[Arc<Message>],
    ) -> Result<Request, AgentError> {
        let cx = &turn.cx;
        let mut system = self.system.clone();
        if cx.bus().has_listeners::<SystemTransform>() {
            let transform = SystemTransform { turn_id: turn.id.clone(), turn: turn.number, system };
            system = cx.emit(transform).await?.system;
        }
        let thinking = decayed(self.thinking, self.behavior.thinking_decay.as_ref(), turn.number);
        let max_tokens = self.behavior.max_tokens.unwrap_or_else(|| usual_limit(&self.model));
        let parameters = cx
            .emit(ProviderRequest {
                model: self.model.reference(),
                thinking,
                max_tokens: output_limit(max_tokens, thinking, &self.model),
                tool_choice: self.output.as_ref().map_or(ToolChoice::Auto, |output| output.choice()),
            })
            .await?;
        let messages = self.toolbox.in_wire_names(messages);
        let history = WireReady::normalise(&messages, &provider.rules(&self.model));
        if !history.repairs().is_empty() {
            let repairs =
                || HistoryRepaired { turn_id: turn.id.clone(), repairs: history.repairs().to_vec() };
            cx.emit_with(repairs).await?;
        }
        Ok(Request {
            model: self.model.clone(),
            system,
            tools: self.toolbox.specs(),
            history,
            tool_choice: self.toolbox.choice_to_wire(parameters.tool_choice),
            output: self.output.as_ref().and_then(|output| output.format()),
            thinking: parameters.thinking,
            max_tokens: parameters.max_tokens,
            cache: self.behavior.cache.unwrap_or(true),
            session: self.agent.session.as_ref().map(SessionId::shared),
        })
    }
}
