mod approved;
#[cfg(feature = "typed")]
mod arg_schema;
mod call_kind;
mod effects;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Block, ToolContent};

pub use approved::{Approved, CallRef};
#[cfg(feature = "typed")]
pub use arg_schema::schema_of;
pub use call_kind::{CallKind, CallLocation};
pub use effects::{Effect, Effects};

/// Specification of a tool, as models get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolSpec {
    /// Canonical name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// Description of what the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, of type object.
    pub schema: Value,
    /// Whether every request offers the tool.
    #[serde(default, skip_serializing_if = "Disclosure::is_always")]
    pub disclosure: Disclosure,
}

/// Condition under which requests offer a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// Every request offers the tool.
    #[default]
    Always,
    /// Requests offer the tool once the run asked for it, through [`RunTools`](crate::service::RunTools).
    /// Until then a call is refused.
    Lazy,
}

impl Disclosure {
    fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

/// Rule for which calls of one batch may run concurrently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// Runs alone, after all earlier calls and before all later ones.
    #[default]
    Exclusive,
    /// Runs concurrently with other shared calls.
    Shared,
    /// Runs concurrently with other calls of this variant that name none of the same resources; in order with
    /// all others.
    Resources(Vec<String>),
}

/// Output of a successful tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolOutput {
    /// Content for the model.
    pub content: ToolContent,
    /// Display form for the person, if there is a better one than the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
    /// Structured data for plugins. It is stored with the call in the session, and never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl ToolOutput {
    /// Creates an output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: ToolContent::Text(text.into()), display: None, details: None }
    }

    /// Sets the display form for the person.
    #[must_use]
    pub fn with_display(mut self, display: Display) -> Self {
        self.display = Some(display);
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Display form of a result, for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Display {
    /// One line of text.
    Line {
        /// Text of the line.
        text: String,
    },
    /// A unified diff.
    Diff {
        /// Path of the changed file.
        path: String,
        /// Text of the diff.
        diff: String,
    },
    /// Several lines of text.
    Lines {
        /// Text lines without line ends.
        lines: Vec<String>,
    },
    /// A table.
    Table {
        /// Column headings.
        head: Vec<String>,
        /// Rows.
        rows: Vec<Vec<String>>,
    },
    /// Output of a command and its exit.
    Command {
        /// Last lines of the output, if retained.
        lines: Vec<String>,
        /// Number of lines that the command printed in all.
        total_lines: u64,
        /// Exit of the command.
        exit: CommandExit,
    },
    /// Markdown, and the outcome.
    Markdown {
        /// The text.
        text: String,
        /// Outcome in one line; empty on success.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        outcome: String,
    },
    /// To-do list in its present state.
    Checklist {
        /// The items, in order.
        items: Vec<CheckItem>,
        /// Whether items were added, removed or changed, beyond their state.
        reshaped: bool,
    },
}

/// One item of a [`Display::Checklist`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CheckItem {
    /// Text of the item.
    pub text: String,
    /// State of the item.
    pub state: CheckState,
}

/// State of a [`CheckItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Nothing was done yet.
    Open,
    /// Item in progress.
    Current,
    /// Item that is done.
    Done,
}

impl CheckState {
    /// The sign of an item in this state.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Self::Open => "☐",
            Self::Current => "▸",
            Self::Done => "☑",
        }
    }
}

impl fmt::Display for CheckItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.state.mark(), self.text)
    }
}

impl Display {
    /// Returns the exit code, if this is a command that exited by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Command { exit: CommandExit::Code { code }, .. } => Some(*code),
            Self::Command { .. }
            | Self::Line { .. }
            | Self::Diff { .. }
            | Self::Lines { .. }
            | Self::Table { .. }
            | Self::Markdown { .. }
            | Self::Checklist { .. } => None,
        }
    }
}

/// Way in which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum CommandExit {
    /// The command exited with this code.
    Code {
        /// Exit code; 0 is success.
        code: i32,
    },
    /// A signal ended the command.
    Signal {
        /// Number of the signal.
        signal: i32,
    },
    /// The command exceeded its time limit.
    TimedOut,
    /// The command was stopped with its run.
    Stopped,
}

impl fmt::Display for CommandExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { code } => write!(f, "exit code {code}"),
            Self::Signal { signal } => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Error of a tool call. The model gets `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[error("{message}")]
pub struct ToolError {
    /// Class of the error.
    pub kind: ToolErrorKind,
    /// Message for the model: what failed, where, and what to do next.
    pub message: String,
    /// Display form for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
}

/// Class of a tool error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments are invalid.
    InvalidArgs,
    /// Something that the arguments name does not exist.
    NotFound,
    /// The call is not allowed here.
    Denied,
    /// The operation itself failed.
    Failed,
    /// The call exceeded its time limit.
    TimedOut,
    /// The run was stopped.
    Aborted,
}

impl ToolErrorKind {
    /// Whether the same call may succeed later without any change.
    #[must_use]
    pub fn is_transient(self) -> bool {
        match self {
            Self::TimedOut => true,
            Self::InvalidArgs | Self::NotFound | Self::Denied | Self::Failed | Self::Aborted => false,
        }
    }
}

impl ToolError {
    /// Whether the same call may succeed later without any change.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.kind.is_transient()
    }

    /// Creates an error of class `kind`.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), display: None }
    }

    /// Creates an error of class `Failed`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Failed, message)
    }

    /// Creates an error of class `InvalidArgs` for arguments that do not have the shape of the tool `name`.
    pub fn misfit(name: &str, error: &impl fmt::Display) -> Self {
        Self::invalid(format!("these arguments do not fit {name}: {error}; correct them and call it again"))
    }

    /// Creates an error of class `InvalidArgs`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidArgs, message)
    }
}

/// Returns the size of a result as sent: bytes of text plus base64 characters of images and documents. A
/// rough measure, not tokens.
#[must_use]
pub fn output_bytes(content: &ToolContent) -> usize {
    match content {
        ToolContent::Text(text) => text.len(),
        ToolContent::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                Block::Text(text) => text.text.len(),
                Block::Image(image) => image.data.len(),
                Block::Document(document) => document.data.len(),
                Block::ToolCall(_)
                | Block::ToolResult(_)
                | Block::Thinking(_)
                | Block::Compaction(_)
                | Block::Provider(_) => 0,
            })
            .sum(),
    }
}

impl fmt::Display for ToolErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgs => "invalid arguments",
            Self::NotFound => "not found",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Aborted => "aborted",
        })
    }
}

impl ToolSpec {
    /// Creates a shared specification that every request offers.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            description: description.into(),
            schema,
            disclosure: Disclosure::Always,
        })
    }

    /// Creates a shared specification that is offered only once a run asks for the tool.
    pub fn lazy(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Arc<Self> {
        let spec = Self::new(name, description, schema);
        Arc::new(Self { disclosure: Disclosure::Lazy, ..Self::clone(&spec) })
    }
}
