use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::{Absorb, BoxError, Event, First, Fold, Source, WireReply};
use crate::model::{Image, Message};

/// A person submitted input, before any expansion. Each handler sees the text as changed so far; a handler
/// that answers [`InputReply::Handled`] ends the emission.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Input {
    /// The text so far.
    pub text: String,
    /// The attached images so far.
    pub images: Vec<Image>,
    /// Whether a handler dealt with the input, so that no model is asked.
    pub handled: bool,
    /// Messages that join the conversation behind the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Message>,
}

/// Answer to [`Input`]; without an answer the input stays unchanged. In JSON `{"transform": {"text": "…"}}`
/// or `"handled"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum InputReply {
    /// Replaces the input.
    Transform {
        /// Text to use instead.
        text: String,
        /// The new images; `None` keeps the current images.
        images: Option<Vec<Image>>,
    },
    /// The input is dealt with: no model and no later handler is asked.
    Handled,
    /// Keeps the input and adds messages behind it. Only for handlers in this process, not in JSON.
    #[serde(skip_deserializing)]
    Add {
        /// Messages to add.
        messages: Vec<Message>,
    },
}

impl WireReply for InputReply {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(serde_json::from_value(value)?)
    }
}

impl Event for Input {
    const NAME: &'static str = "input";
    type Reply = InputReply;
    type Mode = Fold;
}

impl Absorb for Input {
    fn absorb(&mut self, reply: InputReply, _: &Source) -> ControlFlow<()> {
        match reply {
            InputReply::Transform { text, images } => {
                self.text = text;
                if let Some(images) = images {
                    self.images = images;
                }
                ControlFlow::Continue(())
            }
            InputReply::Add { messages } => {
                self.added.extend(messages);
                ControlFlow::Continue(())
            }
            InputReply::Handled => {
                self.handled = true;
                ControlFlow::Break(())
            }
        }
    }
}

/// A person runs a shell command of their own (`!command`). The first handler that answers replaces the
/// execution.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UserBash {
    /// Command line as typed.
    pub command: String,
    /// Whether the output stays out of the conversation (`!!command`).
    pub private: bool,
}

/// Answer to [`UserBash`]: the result to show instead of running the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BashOutput {
    /// Output of the command.
    pub output: String,
    /// Exit code of the command.
    pub exit_code: i32,
}

impl Event for UserBash {
    const NAME: &'static str = "user:bash";
    type Reply = BashOutput;
    type Mode = First;
}
