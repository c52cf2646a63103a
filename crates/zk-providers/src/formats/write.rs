use std::sync::Arc;

use serde_json::{Map, Value};
use zk_core::model::wire::{CONTINUE, OPENING, Repair};
use zk_core::model::{Block, Capabilities, Message, Model, WireReady};

use super::error::FormatError;
use super::{Conversation, Format};
use crate::catalogue::profiles::{CompatProfile, REFERENCE};
use crate::dialects::anthropic;
use crate::dialects::chat;

/// A conversation, written in the format of a provider's requests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// The field `system`, where the format has instructions beside the messages, and there are any.
    pub system: Option<Value>,
    /// The messages as the format has them. In Chat Completions the first one holds the instructions.
    pub messages: Vec<Value>,
    /// Repairs to the conversation, because a provider does not take it as it was.
    pub repairs: Vec<Repair>,
}

impl Written {
    /// Returns the fields of a request body that hold the conversation: `messages`, and `system` if there is
    /// one.
    #[must_use]
    pub fn into_body(self) -> Value {
        let messages = Value::Array(self.messages);
        let fields = self.system.map(|system| ("system".to_owned(), system));
        fields.into_iter().chain([("messages".to_owned(), messages)]).collect::<Map<_, _>>().into()
    }

    fn new(
        (system, mut messages, ready): (Option<Value>, Vec<Value>, WireReady),
        history: &[Arc<Message>],
    ) -> Self {
        let mut repairs = ready.repairs().to_vec();
        // Only what is sent has to begin and to end with the user. In both formats, either is one message.
        let is_put = |message: Option<&Arc<Message>>, text: &str| {
            let put = message.filter(|message| *message.content == [Block::text(text)]);
            put.is_some_and(|put| !history.iter().any(|own| Arc::ptr_eq(own, put)))
        };
        repairs.retain(|repair| *repair != Repair::Boundary);
        if is_put(ready.messages().last(), CONTINUE) {
            messages.pop();
        }
        if is_put(ready.messages().first(), OPENING) {
            messages.drain(..messages.len().min(1));
        }
        Self { system, messages, repairs }
    }
}

impl Conversation {
    /// The conversation as `model` would be sent it by the vendor of the format: by the rules of a
    /// [`WireReady`], so that every call is answered, and every id and name is a legal one. What had to be
    /// mended for that stands in [`Written::repairs`]. For servers that are only like OpenAI's there is
    /// [`write_chat`](Self::write_chat).
    ///
    /// The written conversation begins and ends as it does here, though a request begins and ends with the
    /// user.
    ///
    /// Parts that the format has no place for are not written, as they are not sent: what another model
    /// thought, the thoughts of every model in OpenAI's Chat Completions, and what a model said before it
    /// refused.
    ///
    /// ```
    /// use zk_core::model::{Block, Message, Model};
    /// use zk_providers::formats::{Conversation, Format};
    ///
    /// let messages = vec![
    ///     Message::user_text("hello").shared(),
    ///     Message::assistant(vec![Block::text("Good morning.")]).shared(),
    /// ];
    /// let conversation = Conversation { system: "Be polite.".into(), messages };
    /// let written = conversation.write(Format::OpenAiChat, &Model::unknown("openai", "gpt-5.5"))?;
    /// assert_eq!(written.messages[0]["content"], "Be polite.");
    /// assert_eq!(written.messages[2]["content"], "Good morning.");
    /// assert!(written.repairs.is_empty());
    /// # Ok::<(), zk_providers::formats::FormatError>(())
    /// ```
    ///
    /// # Errors
    /// [`FormatError::Unwritable`] when it is no JSON.
    pub fn write(&self, format: Format, model: &Model) -> Result<Written, FormatError> {
        match format {
            Format::AnthropicMessages => {
                let capabilities = Capabilities { image_in_tool_result: true, ..model.capabilities };
                let model = Model { capabilities, ..model.clone() };
                let parts = anthropic::conversation(&model, &self.system, &self.messages)
                    .map_err(|error| FormatError::Unwritable { reason: error.to_string() })?;
                Ok(Written::new(parts, &self.messages))
            }
            Format::OpenAiChat => {
                let profile = CompatProfile::named(REFERENCE).unwrap_or_default();
                Ok(self.write_chat(&profile, model))
            }
        }
    }

    /// The conversation in the Chat Completions of a server of the kind that `profile` describes, which says
    /// among other things how thoughts are written.
    ///
    /// ```
    /// use zk_core::model::{Block, Message, Model, Thinking};
    /// use zk_providers::CompatProfile;
    /// use zk_providers::formats::Conversation;
    ///
    /// let model = Model::unknown("deepseek", "deepseek-v4-pro");
    /// let origin = Some(model.reference());
    /// let thought = Thinking { text: "A greeting.".into(), origin, ..Thinking::default() };
    /// let answer = Message::assistant(vec![Block::Thinking(thought), Block::text("hello")]);
    /// let messages = vec![Message::user_text("hi").shared(), answer.shared()];
    /// let conversation = Conversation { messages, ..Conversation::default() };
    ///
    /// let deepseek = CompatProfile::named("deepseek").unwrap();
    /// let written = conversation.write_chat(&deepseek, &model);
    /// assert_eq!(written.messages[1]["reasoning_content"], "A greeting.");
    /// ```
    #[must_use]
    pub fn write_chat(&self, profile: &CompatProfile, model: &Model) -> Written {
        let parts = chat::conversation(profile, model, &self.system, &self.messages);
        let mut written = Written::new(parts, &self.messages);
        written.messages.splice(0..0, written.system.take());
        written
    }
}
