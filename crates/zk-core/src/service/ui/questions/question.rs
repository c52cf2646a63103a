use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::visible::{visible_diff, visible_line, visible_lines};
use crate::model::{Display, Effects};
use crate::service::Connections;

/// Question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Whether a tool call may run.
    Approve(Box<Approval>),
    /// A question for yes or no.
    Confirm {
        /// The question.
        text: String,
    },
    /// Whether something of a project is trusted as it is.
    Trust(Box<TrustRequest>),
    /// One of several.
    Select {
        /// The question.
        text: String,
        /// The choices.
        options: Vec<String>,
    },
    /// A line of text.
    Input {
        /// The question.
        text: String,
    },
}

/// Something of a project that a person can trust, exactly as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrustRequest {
    /// The question, in a sentence.
    pub text: String,
    /// Things that count once they are trusted, in a line each.
    pub items: Vec<String>,
    /// Lines for who wants to know exactly what is trusted, such as hashes; a front-end shows them on demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// A tool call that wants to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Approval {
    /// The tool's canonical name.
    pub tool: String,
    /// The arguments, as they will run.
    pub args: Value,
    /// Effects of the call, as its tool declares them.
    pub effects: Effects,
    /// Preview of the call that the tool draws: a diff, a body.
    pub preview: Option<Display>,
    /// Description of what *this session* would allow; that choice is not offered without it.
    pub session: Option<String>,
    /// Description of what *always* would allow from then on; that choice is not offered without it.
    pub always: Option<String>,
    /// Calls that *this prefix* or *this directory* would allow; those choices are not offered without it.
    pub wider: Option<Wider>,
    /// Reasons for the question, in a line each: such as the part of the call and the rule or default of the
    /// mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Further choices like [`Approval::wider`], such as all calls of a server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Wider>,
    /// Connections that the call gets in its sandbox if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// Connections with which a call that leaves its sandbox could run inside of it instead; that choice is not offered
    /// without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contained: Option<Connections>,
}

/// Calls like one that wants to run, which a person can allow with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wider {
    /// Property by which further calls are allowed.
    pub kind: WiderKind,
    /// Calls that the choice allows, in words, with one that it allows and one that it does not, such as "commands that
    /// begin with `cargo test`, so also …, but not …".
    pub allows: String,
    /// The calls in a few words, such as "every `git push …`".
    #[serde(default)]
    pub label: String,
    /// Warning about what the choice allows, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Property by which a [`Wider`] choice allows further calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WiderKind {
    /// The command begins with the same words.
    Prefix,
    /// The files are in the same directory.
    Directory,
    /// The command runs the code of the project in the same way.
    ProjectCode,
    /// The tool is the same, whatever its arguments are.
    Tool,
    /// The tool is one of the same MCP server.
    Server,
}

impl WiderKind {
    /// Returns its name, such as `prefix` or `directory`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Directory => "directory",
            Self::ProjectCode => "project_code",
            Self::Tool => "tool",
            Self::Server => "server",
        }
    }

    /// The key that chooses it for the session; the same in upper case chooses it for good.
    #[must_use]
    pub fn key(self) -> char {
        match self {
            Self::Prefix | Self::ProjectCode => 'p',
            Self::Directory => 'd',
            Self::Tool => 't',
            Self::Server => 'm',
        }
    }
}

/// A part of what a question shows, under a heading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// The argument's name, or what the lines are. It is text from a model too: see [`visible_line`].
    pub heading: String,
    /// Form of the lines, for reading them. A front-end shows it outside of the heading, which could imitate
    /// it.
    pub kind: SectionKind,
    /// The lines, everything in them visible.
    pub lines: Vec<String>,
}

/// Form of the lines of a [`Section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// The text of an argument.
    Text,
    /// An argument as JSON.
    Json,
    /// The tool's drawing of the call.
    Preview,
}

impl Approval {
    /// The whole of what will run, for any front-end to draw: every argument with every line, then the
    /// preview. A text argument is shown as its own lines, anything else as JSON.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = match &self.args {
            Value::Object(args) => args.iter().map(|(name, value)| section(name, value)).collect::<Vec<_>>(),
            other => vec![section("arguments", other)],
        };
        if let Some(preview) = &self.preview {
            sections.push(drawn(preview));
        }
        sections
    }
}

fn section(name: &str, value: &Value) -> Section {
    let heading = visible_line(name);
    match value {
        Value::String(text) => Section { heading, kind: SectionKind::Text, lines: visible_lines(text) },
        other => Section { heading, kind: SectionKind::Json, lines: visible_lines(&format!("{other:#}")) },
    }
}

fn drawn(preview: &Display) -> Section {
    let (heading, lines) = match preview {
        Display::Line { text } => ("preview".to_owned(), visible_lines(text)),
        Display::Diff { path, diff } => (format!("diff of {path}"), visible_diff(diff)),
        Display::Lines { lines } => {
            ("preview".to_owned(), lines.iter().flat_map(|line| visible_lines(line)).collect())
        }
        Display::Command { lines, exit, .. } => {
            let lines = lines.iter().flat_map(|line| visible_lines(line)).chain([exit.to_string()]);
            ("preview".to_owned(), lines.collect())
        }
        Display::Table { head, rows } => {
            let row = |cells: &Vec<String>| visible_lines(&cells.join(" | "));
            ("preview".to_owned(), std::iter::once(head).chain(rows).flat_map(row).collect())
        }
    };
    Section { heading: visible_line(&heading), kind: SectionKind::Preview, lines }
}

/// Answer of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Yes, this once. Also the *yes* of a confirmation.
    Once,
    /// Yes, and what [`Approval::session`] says for the rest of the session.
    Session,
    /// Yes, and what [`Approval::always`] says from now on.
    Always,
    /// Yes, and what [`Approval::wider`] says for the rest of the session.
    WiderSession,
    /// Yes, and what [`Approval::wider`] says from now on, in this project.
    WiderAlways,
    /// Yes, and what one of [`Approval::more`] says for the rest of the session.
    MoreSession {
        /// Index of the choice.
        index: usize,
    },
    /// Yes, and what one of [`Approval::more`] says from now on, in this project.
    MoreAlways {
        /// Index of the choice.
        index: usize,
    },
    /// Yes, this once, in the sandbox that the call wants to leave, with the connections of [`Approval::contained`].
    Contained,
    /// No, with words to the model if the person gave some.
    No {
        /// The words.
        message: Option<String>,
    },
    /// The choice, from 0.
    Choice {
        /// Index of the chosen option.
        index: usize,
    },
    /// The line.
    Text {
        /// The text.
        text: String,
    },
    /// Nobody answered: no front-end, no answer in time, or the run was stopped.
    Absent,
}

impl Question {
    /// Whether `answer` is one of the answers to this question. Nobody being there always is.
    #[must_use]
    pub fn allows(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (_, Answer::Absent) => true,
            (Self::Approve(approval), Answer::Always) => approval.always.is_some(),
            (Self::Approve(approval), Answer::Session) => approval.session.is_some(),
            (Self::Approve(approval), Answer::WiderSession | Answer::WiderAlways) => approval.wider.is_some(),
            (Self::Approve(approval), Answer::MoreSession { index } | Answer::MoreAlways { index }) => {
                *index < approval.more.len()
            }
            (Self::Approve(approval), Answer::Contained) => approval.contained.is_some(),
            (Self::Approve(_), Answer::Once | Answer::No { .. })
            | (Self::Confirm { .. } | Self::Trust(_), Answer::Once | Answer::No { .. })
            | (Self::Input { .. }, Answer::Text { .. } | Answer::No { .. })
            | (Self::Select { .. }, Answer::No { .. }) => true,
            (Self::Select { options, .. }, Answer::Choice { index }) => *index < options.len(),
            (
                Self::Approve(_)
                | Self::Confirm { .. }
                | Self::Trust(_)
                | Self::Input { .. }
                | Self::Select { .. },
                Answer::Once
                | Answer::Session
                | Answer::Always
                | Answer::WiderSession
                | Answer::WiderAlways
                | Answer::MoreSession { .. }
                | Answer::MoreAlways { .. }
                | Answer::Contained
                | Answer::Choice { .. }
                | Answer::Text { .. },
            ) => false,
        }
    }
}
