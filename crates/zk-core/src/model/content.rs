#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallId, ModelRef};

/// One piece of a message, independent of the provider; adapters convert it to and from each provider's own
/// blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text of either role.
    Text(Text),
    /// An image that the model sees.
    Image(Image),
    /// A document, such as a PDF.
    Document(Document),
    /// A call the model asks for (assistant messages only).
    ToolCall(ToolCall),
    /// The result of a call (user messages only).
    ToolResult(ToolResult),
    /// Reasoning of the model (assistant messages only).
    Thinking(Thinking),
    /// A summary in the place of messages that a compaction took out of the context.
    Compaction(Compaction),
    /// A block that only its provider understands (assistant messages only).
    Provider(ProviderBlock),
}

/// A text block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Text {
    /// Content of the block.
    pub text: String,
    /// Provider data that has to be sent back with the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

/// An image block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Image bytes in standard base64.
    pub data: String,
    /// Provider data that has to be sent back with the image, if a model made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

impl Image {
    /// Creates an image from its media type, such as `image/png`, and its bytes in standard base64.
    pub fn new(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { media_type: media_type.into(), data: data.into(), wire: None }
    }
}

/// A document block, such as a PDF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Document {
    /// Media type, such as `application/pdf`.
    pub media_type: String,
    /// Title or file name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Document bytes in standard base64.
    pub data: String,
}

impl Document {
    /// Whether the media type says that the document is text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.media_type.trim_start().get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
    }
}

/// A tool call that the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolCall {
    /// Call id that the provider assigned.
    pub id: CallId,
    /// Canonical name of the tool.
    pub name: String,
    /// Parsed arguments, always a JSON object; empty if `malformed` is set.
    pub args: Value,
    /// Argument text as received, if it is not a complete JSON object. Such a call is answered with an error
    /// and never executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// Provider data that has to be sent back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

impl ToolCall {
    /// Creates a call with parsed arguments.
    pub fn new(id: impl Into<CallId>, name: impl Into<String>, args: Value) -> Self {
        Self { id: id.into(), name: name.into(), args, malformed: None, wire: None }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolResult {
    /// Id of the call that the result belongs to.
    pub call_id: CallId,
    /// Output of the tool.
    pub content: ToolContent,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// Output of a tool for the model: text, or text with images and documents.
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
    /// Returns all text, with a marker for each image or document.
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

/// Reasoning of a model. Only the model that wrote it gets it back, and only with its signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Thinking {
    /// Readable text; empty if the provider withholds it.
    pub text: String,
    /// Provider's signature, which proves that the block is unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Opaque payload of a redacted block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
    /// Model that wrote the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelRef>,
    /// Provider data that has to be sent back with the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireData>,
}

/// Summary of a compaction, in the place of the messages before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Compaction {
    /// Text of the summary.
    pub summary: String,
    /// Size of the context before the compaction, in tokens.
    pub tokens_before: u64,
}

/// Block of a provider-specific kind: the call and result of a server-side tool, a mark of a model switch,
/// the provider's own compaction of the context.
///
/// The block is sent back unchanged to the model it came from, and to no other. Other models lose no
/// information: the model's text repeats the useful part of a result, and zk keeps and sends the whole
/// history that a server-side compaction summarised. Nothing in the block is ever executed here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderBlock {
    /// Description of the block, in a few words for people.
    pub text: String,
    /// The block in the provider's own format.
    pub wire: WireData,
}

/// Data of a provider that has to be sent back unchanged with a block, only to the model it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WireData {
    /// Model that the data came from.
    pub origin: ModelRef,
    /// The data in the provider's own format.
    pub data: Value,
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), wire: None })
    }

    /// Creates a block of provider data from `origin`; `text` describes it to people in a few words.
    pub fn provider(text: impl Into<String>, origin: &ModelRef, data: Value) -> Self {
        Self::Provider(ProviderBlock { text: text.into(), wire: WireData { origin: origin.clone(), data } })
    }

    /// Creates a tool result block.
    pub fn result(call_id: impl Into<CallId>, content: impl Into<ToolContent>, is_error: bool) -> Self {
        Self::ToolResult(ToolResult { call_id: call_id.into(), content: content.into(), is_error })
    }

    /// Returns the text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        Some(&text.text)
    }

    /// Returns the result of a result block.
    #[must_use]
    pub fn as_result(&self) -> Option<&ToolResult> {
        let Self::ToolResult(result) = self else { return None };
        Some(result)
    }

    /// Returns the reasoning of a reasoning block.
    #[must_use]
    pub fn as_thinking(&self) -> Option<&Thinking> {
        let Self::Thinking(thinking) = self else { return None };
        Some(thinking)
    }

    /// Returns the provider block, if the block is one.
    #[must_use]
    pub fn as_provider(&self) -> Option<&ProviderBlock> {
        let Self::Provider(block) = self else { return None };
        Some(block)
    }
}
