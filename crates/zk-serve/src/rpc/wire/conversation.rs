use serde::{Deserialize, Serialize};
use zk_core::service::{QuestionDigest, QuestionId, SwitchTarget, UiAnswer};
use zk_view::{BlockId, Text};

/// Conversation that is meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConversationParams {
    /// Id of the conversation.
    pub conversation: String,
}

/// Params of a prompt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubmitParams {
    /// Id of the conversation.
    pub conversation: String,
    /// The prompt.
    pub text: String,
    /// Images that belong to it: PNG, JPEG, GIF or WebP, each as base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// Answer to a prompt or a text that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubmitResult {
    /// Number of the last notification before it: the first `conversation/settled` with a greater one says that it is done.
    pub seq: u64,
}

/// Params of a text that interrupts a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SteerParams {
    /// Id of the conversation.
    pub conversation: String,
    /// The text.
    pub text: String,
}

/// Params of a text that is taken back from the queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnqueueParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the text in the queue.
    pub id: u64,
}

/// A text that waits for its turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedText {
    /// Number of the text.
    pub id: u64,
    /// Whether it interrupts the run, or waits for its end.
    pub steers: bool,
    /// The text.
    pub text: Text,
}

/// Texts that wait for their turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queue {
    /// All of them, in order.
    pub queued: Vec<QueuedText>,
}

/// Params of an answer to a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Id of the question's card.
    pub id: QuestionId,
    /// Digest of the card that was shown.
    pub digest: QuestionDigest,
    /// The answer.
    pub answer: UiAnswer,
}

/// Params of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Name of the command and its arguments, such as `/compact`.
    pub line: String,
}

/// Outcome of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandResult {
    /// Text that it says; nothing where it only acted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
    /// Whether it sent a prompt.
    pub prompted: bool,
    /// Whether the conversation ends.
    pub ended: bool,
}

/// Command that a conversation has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandRow {
    /// The name, without the slash.
    pub name: String,
    /// Help in one line.
    pub help: String,
    /// Arguments in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

/// Commands that a conversation has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Commands {
    /// All of them, by name.
    pub commands: Vec<CommandRow>,
}

/// Kind of what is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompleteKind {
    /// Name of a command, by its beginning.
    Command,
    /// Argument of a command, by the line so far.
    Argument,
    /// Path of a file, by a part of it.
    File,
}

/// Params of a completion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompleteParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Kind of what is completed.
    pub kind: CompleteKind,
    /// Text that was typed so far.
    pub text: String,
}

/// Text that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The text.
    pub value: String,
    /// Note beside it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Texts that may be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choices {
    /// All of them, the best first.
    pub choices: Vec<Choice>,
}

/// Params of a list of models.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelsParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Whether providers are asked for their lists.
    #[serde(default)]
    pub refresh: bool,
}

/// Model that a conversation may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelRow {
    /// Name of the model with its provider, such as `anthropic/opus`.
    pub name: String,
    /// Whether it is the one in use.
    pub is_current: bool,
    /// Tokens of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Price of a million tokens that it reads, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// Price of a million tokens that it writes, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
    /// Levels of reasoning, the least first.
    pub thinking: Vec<String>,
}

/// Models that a conversation may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Models {
    /// All of them.
    pub models: Vec<ModelRow>,
    /// Providers that could not be asked, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Settings of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// Model with its provider.
    pub model: String,
    /// Level of reasoning.
    pub thinking: String,
    /// Mode of permissions; nothing where calls are not judged by modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Directory that tools work in.
    pub cwd: String,
    /// Directories that tools may work in.
    pub directories: Vec<String>,
    /// Id of the session, once it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Settings that are changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingsParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Model, such as `anthropic/opus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Level of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Mode of permissions, for which an approver is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Directory to work in, one of those that tools may work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Directory to work in beside the others, for which an approver is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_directory: Option<String>,
}

/// Params of a block whose lines are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BodyParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Id of the block.
    pub block: BlockId,
}

/// All lines of a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BodyResult {
    /// The lines.
    pub lines: Vec<Text>,
}

/// Params of whoever follows a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the last notification that the client has; the whole view comes first without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// Answer to whoever follows a conversation; its notifications come behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubscribeResult {
    /// Number of the last notification so far.
    pub seq: u64,
    /// Whether the whole view comes first: there is a gap, or nothing was known.
    pub resync: bool,
}

/// Params of another session in a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SwitchParams {
    /// Id of the conversation.
    pub conversation: String,
    /// Session that takes the place of the present one.
    pub to: SwitchTarget,
}
