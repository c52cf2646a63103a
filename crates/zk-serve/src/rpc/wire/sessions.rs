use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Params of a conversation that is opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NewParams {
    /// Directory to work in; the server's without one. Another than the server's needs an approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Directories to work in beside it, for which an approver is needed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_directories: Vec<String>,
    /// Settings by dotted keys, over those of files. Others than `thinking`, `append_system` and `max_tokens` need an
    /// approver.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Whether nobody will answer questions: what would be asked is refused.
    pub unattended: bool,
    /// Whether parts of the project that nobody approved are asked about first. The questions come as notifications of a
    /// conversation that `conversation/opening` names.
    pub ask_about_project: bool,
}

/// Params of a stored session that is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenParams {
    /// Id of the session, or its beginning.
    pub session: String,
    /// Whether nobody will answer questions: what would be asked is refused.
    #[serde(default)]
    pub unattended: bool,
}

/// Params of a list of stored sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ListParams {
    /// Directory of the sessions; those of all directories without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Most sessions that are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Text that their titles or prompts contain, whatever its case; for a search.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionRow {
    /// Id of the session.
    pub session: String,
    /// Title of the session.
    pub title: String,
    /// Directory of the session.
    pub cwd: String,
    /// Milliseconds since 1970 at which it was written last.
    pub updated_ms: u64,
    /// Number of its messages.
    pub messages: u64,
    /// Session that it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Reason for which it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Conversation of this server that has it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The first prompt that contains the text of a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// Stored sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sessions {
    /// Sessions that were asked for, the newest first.
    pub sessions: Vec<SessionRow>,
}

/// Stored session that is meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// Id of the session.
    pub session: String,
}

/// Params of a copy of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
    /// Id of the session.
    pub session: String,
    /// The last entry of the copy; all entries without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// A stored session, as a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionResult {
    /// Id of the session.
    pub session: String,
}

/// Prompt of a stored session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptRow {
    /// Entry of the prompt.
    pub entry: String,
    /// Entry before the prompt: a copy up to it goes on in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Milliseconds since 1970 at which it was written.
    pub time_ms: u64,
    /// The prompt.
    pub text: String,
}

/// Prompts of a stored session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tree {
    /// All of them, the oldest first.
    pub prompts: Vec<PromptRow>,
}

/// Params of another title.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenameParams {
    /// Id of the session.
    pub session: String,
    /// The title; the beginning of its first prompt where it is empty.
    pub title: String,
}

/// Format of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// The conversation, to be read.
    #[default]
    Markdown,
    /// Every entry as a line of JSON.
    Jsonl,
}

/// Params of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExportParams {
    /// Id of the session.
    pub session: String,
    /// Format of the text.
    #[serde(default)]
    pub format: ExportFormat,
}

/// An exported session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportResult {
    /// The text.
    pub text: String,
}
