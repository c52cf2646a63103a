#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallId, ModelRef};

/// One piece of a message, in the form every provider's own blocks are converted to and from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text(Text),
    /// An image.
    Image(Image),
    /// A document, such as a PDF.
    Document(Document),
    /// A call the model asks for (assistant messages only).
    ToolCall(ToolCall),
    /// The answer to a call (user messages only).
    ToolResult(ToolResult),
    /// Reasoning (assistant messages only).
    Thinking(Thinking),
    /// Stands for what a compaction took out of the context.
    Compaction(Compaction),
    /// A block that only its provider understands (assistant messages only).
    Provider(ProviderBlock),
}

/// Text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Text {
    /// The text.
    pub text: String,
    /// Data that the provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The bytes in standard base64.
    pub data: String,
    /// Data that the provider wants back with it, if a model made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

impl Image {
    /// An image of a type such as `image/png`, its bytes in standard base64.
    pub fn new(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { media_type: media_type.into(), data: data.into(), wire: None }
    }
}

/// A document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Document {
    /// Media type, such as `application/pdf`.
    pub media_type: String,
    /// A name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The bytes in standard base64.
    pub data: String,
}

impl Document {
    /// Whether it is text, by its type.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.media_type.trim_start().get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
    }
}

/// A call the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolCall {
    /// The provider's own id.
    pub id: CallId,
    /// The canonical tool name.
    pub name: String,
    /// The parsed arguments, always a JSON object. Empty when `malformed` is set.
    pub args: Value,
    /// The argument text as received, when it is not a complete JSON object: such a call is answered with an
    /// error and never executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// Data that the provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

impl ToolCall {
    /// A call with parsed arguments.
    pub fn new(id: impl Into<CallId>, name: impl Into<String>, args: Value) -> Self {
        Self { id: id.into(), name: name.into(), args, malformed: None, wire: None }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call_id: CallId,
    /// Content that the tool gave.
    pub content: ToolContent,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// Content that a tool gives the model: text, or text with images and documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum ToolContent {
    /// Text.
    Text(String),
    /// Text, images and documents.
    Blocks(Vec<Block>),
}

impl ToolContent {
    /// All text in it, images and documents as a marker.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let parts: Vec<&str> = blocks
                    .iter()
                    .map(|block| match block {
                        Block::Text(text) => text.text.as_str(),
                        Block::Image(_) => "[image]",
                        Block::Document(_) => "[document]",
                        Block::ToolCall(_)
                        | Block::ToolResult(_)
                        | Block::Thinking(_)
                        | Block::Compaction(_)
                        | Block::Provider(_) => "",
                    })
                    .collect();
                parts.join("\n")
            }
        }
    }
}

impl From<String> for ToolContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ToolContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Reasoning. Only the model it came from may see it again, and only with its signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Thinking {
    /// The readable part; empty where the provider withholds it.
    pub text: String,
    /// The provider's proof that the block is unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The opaque payload of a redacted block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
    /// The model it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelRef>,
    /// Data that the provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

/// A compaction's summary, in the place of the messages before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Compaction {
    /// The summary.
    pub summary: String,
    /// Context tokens before the compaction.
    pub tokens_before: u64,
}

/// A block of a kind that only one provider has: a call of a tool it runs itself and the result, a mark of
/// where it switched models, its own compaction of the context.
///
/// The block goes back unchanged to the model it came from, which misses what it did without it. Any other
/// model is not shown it, and loses nothing that is not in the history elsewhere: what the model made of a
/// result it said in text, and what a provider's own compaction stands for is still in the history, which zk
/// keeps and sends whole. Nothing in it is ever executed here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderBlock {
    /// Description of the block, in a few words for people.
    pub text: String,
    /// The block, in the provider's own shape.
    pub wire: WireData,
}

/// Provider data that has to be sent back unchanged with a block, to that provider and model only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WireData {
    /// The model it came from.
    pub origin: ModelRef,
    /// The data, in the provider's own shape.
    pub data: Value,
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), wire: None })
    }

    /// A block in its provider's own shape, as `origin` gave it; `text` says in a few words what it is.
    pub fn provider(text: impl Into<String>, origin: &ModelRef, data: Value) -> Self {
        Self::Provider(ProviderBlock { text: text.into(), wire: WireData { origin: origin.clone(), data } })
    }

    /// A result block.
    pub fn result(call_id: impl Into<CallId>, content: impl Into<ToolContent>, is_error: bool) -> Self {
        Self::ToolResult(ToolResult { call_id: call_id.into(), content: content.into(), is_error })
    }

    /// The text, if it is a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        Some(&text.text)
    }

    /// The result, if it is one.
    #[must_use]
    pub fn as_result(&self) -> Option<&ToolResult> {
        let Self::ToolResult(result) = self else { return None };
        Some(result)
    }

    /// The reasoning, if it is some.
    #[must_use]
    pub fn as_thinking(&self) -> Option<&Thinking> {
        let Self::Thinking(thinking) = self else { return None };
        Some(thinking)
    }

    /// The block in its provider's own shape, if it is one.
    #[must_use]
    pub fn as_provider(&self) -> Option<&ProviderBlock> {
        let Self::Provider(block) = self else { return None };
        Some(block)
    }
}
