use std::sync::Arc;

use serde_json::{Map, Value};
use zk_core::model::wire::{CONTINUE, OPENING, Repair};
use zk_core::model::{Block, Capabilities, Message, Model, WireReady};

use super::error::FormatError;
use super::{Conversation, Format};
use crate::catalogue::profiles::{CompatProfile, REFERENCE};
use crate::dialects::anthropic;
use crate::dialects::chat;

/// A conversation in the format of a provider's requests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// Value of the field `system`, if the format has separate instructions and there are any.
    pub system: Option<Value>,
    /// Messages in the format. In Chat Completions the first one has the instructions.
    pub messages: Vec<Value>,
    /// Repairs that were necessary for the provider to accept the conversation.
    pub repairs: Vec<Repair>,
}

impl Written {
    /// Returns the fields of a request body with the conversation: `messages`, and `system` if there is one.
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
        // Messages that only a request needs at its beginning and end are left out. In both formats each is
        // one message.
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
    /// Writes the conversation as it would be sent to `model` at the format's own vendor, normalised as a
    /// [`WireReady`]: every call is answered, and every id and name is legal. [`Written::repairs`] lists the
    /// changes. Use [`write_chat`](Self::write_chat) for servers that are only compatible with OpenAI's.
    ///
    /// The written conversation begins and ends like the original, although a request begins and ends with
    /// the user.
    ///
    /// Parts without a place in the format are left out, as in requests: thinking of other models, all
    /// thinking in OpenAI's Chat Completions, and text of a model before it refused.
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
    /// [`FormatError::Unwritable`] when it cannot be serialised as JSON.
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

    /// Writes the conversation in the Chat Completions of a server with this `profile`, which for example
    /// defines how thinking is written.
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
