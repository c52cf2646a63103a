//! Requests of servers for an answer of the model, and the calls that they belong to.
#![expect(deprecated, reason = "servers of earlier revisions, and of this one for a while, ask the model")]

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, Role, SamplingMessage, SamplingMessageContentBlock,
};
use zk_core::kernel::Cx;
use zk_core::model::{Block, Image, Message};

use super::result::is_shown_image;

/// Longest answer for a server in tokens.
const MAX_ANSWER_TOKENS: u32 = 8192;

/// Request of a server to the model.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) max_tokens: u32,
}

/// Answer of the model for a server.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    pub(crate) text: String,
    pub(crate) model: String,
}

impl Sampling {
    /// Converts a request of the protocol; the error says which part is not supported.
    pub(crate) fn read(params: CreateMessageRequestParams) -> Result<Self, &'static str> {
        if params.tools.is_some_and(|tools| !tools.is_empty()) {
            return Err("the model gets no tools of servers: `sampling.tools` was not offered");
        }
        let messages = params.messages.into_iter().map(parse_message).collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() {
            return Err("it has no message");
        }
        let max_tokens = params.max_tokens.clamp(1, MAX_ANSWER_TOKENS);
        Ok(Self { system: params.system_prompt.unwrap_or_default(), messages, max_tokens })
    }
}

fn parse_message(message: SamplingMessage) -> Result<Message, &'static str> {
    let blocks = message.content.into_vec().into_iter().map(|content| match content {
        SamplingMessageContentBlock::Text(text) => Ok(Block::text(text.text)),
        SamplingMessageContentBlock::Image(image) if is_shown_image(&image.mime_type) => {
            Ok(Block::Image(Image::new(image.mime_type, image.data)))
        }
        _ => Err("it has content that the model is not shown: only text and images are"),
    });
    let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
    Ok(match message.role {
        Role::Assistant => Message::assistant(blocks),
        Role::User => Message::user(blocks),
    })
}

impl Sampled {
    pub(crate) fn into_result(self) -> CreateMessageResult {
        CreateMessageResult::new(SamplingMessage::assistant_text(self.text), self.model)
            .with_stop_reason(CreateMessageResult::STOP_REASON_END_TURN)
    }
}

/// Contexts of the calls in flight: a server's request uses the model of the run that its call belongs to.
#[derive(Clone, Default)]
pub(crate) struct Callers(Arc<Mutex<Vec<(u64, Cx)>>>);

impl Callers {
    /// Adds a call until the guard is dropped.
    pub(crate) fn enter(&self, cx: &Cx) -> CallerGuard {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = callers.last().map_or(0, |(id, _)| id + 1);
        callers.push((id, cx.clone()));
        CallerGuard { callers: self.clone(), id }
    }

    /// Returns the context of the call that began last, because a request does not name its call.
    pub(crate) fn last(&self) -> Option<Cx> {
        let callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        callers.last().map(|(_, cx)| cx.clone())
    }
}

pub(crate) struct CallerGuard {
    callers: Callers,
    id: u64,
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        let mut callers = self.callers.0.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(params: Value) -> Result<Sampling, &'static str> {
        Sampling::read(serde_json::from_value(params).unwrap())
    }

    #[test]
    fn text_and_images_are_asked_and_anything_else_is_refused() {
        let asked = read(json!({
            "systemPrompt": "Be brief.", "maxTokens": 1_000_000,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What is this?"},
                                             {"type": "image", "mimeType": "image/png", "data": "aGk="}]},
                {"role": "assistant", "content": {"type": "text", "text": "A cat"}},
            ],
        }));
        let asked = asked.unwrap();
        assert_eq!((asked.system.as_str(), asked.max_tokens), ("Be brief.", MAX_ANSWER_TOKENS));
        assert_eq!(asked.messages.len(), 2);
        assert_eq!(asked.messages[0].content.len(), 2);
        let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": "aGk="});
        let with = |content: Value| {
            read(json!({"messages": [{"role": "user", "content": content}], "maxTokens": 5}))
        };
        assert!(with(audio).is_err());
        assert!(read(json!({"messages": [], "maxTokens": 5})).is_err());
        let tool = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
        let text = json!({"type": "text", "text": "x"});
        let tools = json!({"messages": [{"role": "user", "content": text}], "maxTokens": 5, "tools": tool});
        assert!(read(tools).is_err());
    }

    #[test]
    fn the_latest_unfinished_call_is_the_caller() {
        let callers = Callers::default();
        let (first, second) = (zk_core::kernel::Bus::new(), zk_core::kernel::Bus::new());
        let one = callers.enter(&first.cx().with_service(Arc::new(1_u8)));
        let two = callers.enter(&second.cx().with_service(Arc::new(2_u8)));
        let last = || callers.last().and_then(|cx| cx.service::<u8>()).map(|number| *number);
        assert_eq!(last(), Some(2));
        drop(two);
        assert_eq!(last(), Some(1));
        drop(one);
        assert_eq!(last(), None);
    }
}
