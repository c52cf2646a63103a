use serde::{Deserialize, Serialize};
use zk_core::service::QuestionId;
use zk_view::Patch;

/// Change of the view of a conversation: the notification `conversation/patch`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchNote {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the notification: one more than the one before, but where the whole view stands for what is missing.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The change.
    pub patch: Patch,
    /// Whether nothing follows until somebody asks for more; said with a whole view, which stands for a
    /// `conversation/settled` as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

/// End of all that was asked for: the notification `conversation/settled`. Nothing follows until somebody asks for more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettledNote {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the notification.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
}

/// Answer of a client to a question: the notification `conversation/answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnsweredNote {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the notification.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The question.
    pub id: QuestionId,
    /// Id of the client that answered.
    pub client: String,
}

/// Text that waited and goes back to whoever types: the notification `conversation/given_back`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GivenBackNote {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the notification.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The text.
    pub text: String,
}

/// End of a conversation: the notification `conversation/closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedNote {
    /// Id of the conversation.
    pub conversation: String,
    /// Number of the notification.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Remarks on what was not saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsaved: Vec<String>,
}

/// Conversation that is being opened, and asks questions before that: the notification `conversation/opening`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpeningNote {
    /// Id of the conversation.
    pub conversation: String,
}
