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

/// Description of a tool for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolSpec {
    /// The canonical name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// Description of what the tool does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments, an object schema.
    pub schema: Value,
    /// Whether every request names it.
    #[serde(default, skip_serializing_if = "Disclosure::is_always")]
    pub disclosure: Disclosure,
}

/// Moment at which a model is told about a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// With every request.
    #[default]
    Always,
    /// Once the run asked for it, through [`RunTools`](crate::service::RunTools). Until then a call is refused.
    Lazy,
}

impl Disclosure {
    fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

/// Rule for which calls of one batch may run together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// Alone, after everything before it and before everything after it.
    #[default]
    Exclusive,
    /// Together with other shared calls.
    Shared,
    /// Together with other calls of this kind that name none of these resources; in order with the rest.
    Resources(Vec<String>),
}

/// Output of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolOutput {
    /// For the model.
    pub content: ToolContent,
    /// For the person, when there is something better to show than the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
    /// For plugins: data of the tool's own. It is stored with the call where the session is, and never sent to a
    /// model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl ToolOutput {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: ToolContent::Text(text.into()), display: None, details: None }
    }

    /// Adds something to show to a person.
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

/// Form in which a result is shown to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Display {
    /// One line.
    Line {
        /// The line.
        text: String,
    },
    /// A unified diff.
    Diff {
        /// The path it is of.
        path: String,
        /// The diff.
        diff: String,
    },
    /// Lines of text.
    Lines {
        /// The lines.
        lines: Vec<String>,
    },
    /// A table.
    Table {
        /// Column heads.
        head: Vec<String>,
        /// Rows.
        rows: Vec<Vec<String>>,
    },
    /// Output of a command, and how it ended.
    Command {
        /// The end of the output, whole lines as far as they were kept.
        lines: Vec<String>,
        /// Number of lines that the command printed in all.
        total_lines: u64,
        /// Exit of the command.
        exit: CommandExit,
    },
    /// Markdown, and what came of it.
    Markdown {
        /// The text.
        text: String,
        /// What came of it, in a line; empty where nothing has to be said.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        outcome: String,
    },
    /// A list of what is to be done, as it is now.
    Checklist {
        /// The items, in order.
        items: Vec<CheckItem>,
        /// Whether other items stand in it than before, and not the same ones further on.
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
    /// The exit code of the command it shows, if it is one that ended by itself.
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

/// Exit of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum CommandExit {
    /// With this exit code.
    Code {
        /// The code; 0 is success.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// Number of the signal.
        signal: i32,
    },
    /// The command took longer than it was allowed to.
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

/// Error of a tool that has no result. The model is told `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[error("{message}")]
pub struct ToolError {
    /// The class.
    pub kind: ToolErrorKind,
    /// Message for the model: what failed, where, and what to do next.
    pub message: String,
    /// For the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
}

/// Classes of tool errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments make no sense.
    InvalidArgs,
    /// Something that the arguments name does not exist.
    NotFound,
    /// Not allowed here.
    Denied,
    /// The operation failed.
    Failed,
    /// The call took too long.
    TimedOut,
    /// The run was stopped.
    Aborted,
}

impl ToolErrorKind {
    /// Whether the same call may succeed later, without anything being changed for it.
    #[must_use]
    pub fn is_transient(self) -> bool {
        match self {
            Self::TimedOut => true,
            Self::InvalidArgs | Self::NotFound | Self::Denied | Self::Failed | Self::Aborted => false,
        }
    }
}

impl ToolError {
    /// Whether the same call may succeed later, without anything being changed for it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.kind.is_transient()
    }

    /// An error of class `kind`.
    pub fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), display: None }
    }

    /// The operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Failed, message)
    }

    /// The arguments do not have the shape that the tool `name` takes.
    pub fn misfit(name: &str, error: &impl fmt::Display) -> Self {
        Self::invalid(format!("these arguments do not fit {name}: {error}; correct them and call it again"))
    }

    /// The arguments make no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::InvalidArgs, message)
    }
}

/// The size of a result as it weighs on the wire: bytes of text plus base64 characters of images and
/// documents. A proxy, not tokens.
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
    /// A specification, shared.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            description: description.into(),
            schema,
            disclosure: Disclosure::Always,
        })
    }

    /// Makes a spec as [`ToolSpec::new`] does, for a tool that a model is told about only when a run asks for
    /// it.
    pub fn lazy(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Arc<Self> {
        let spec = Self::new(name, description, schema);
        Arc::new(Self { disclosure: Disclosure::Lazy, ..Self::clone(&spec) })
    }
}
