use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::visible::{visible_line, visible_lines};
use crate::model::{Display, Effects};

/// Question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Asks whether a tool call may run.
    Approve(Box<Approval>),
    /// Asks for yes or no.
    Confirm {
        /// Text of the question.
        text: String,
    },
    /// Asks for one of several options.
    Select {
        /// Text of the question.
        text: String,
        /// Options to choose from.
        options: Vec<String>,
    },
    /// Asks for a line of text.
    Input {
        /// Text of the question.
        text: String,
    },
}

/// A tool call that needs approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Approval {
    /// Canonical name of the tool.
    pub tool: String,
    /// Final arguments of the call.
    pub args: Value,
    /// Effects of the call, as declared by its tool.
    pub effects: Effects,
    /// Preview that the tool rendered: a diff, the body of a file.
    pub preview: Option<Display>,
    /// Description of the calls that the choice *this session* would allow; without it the choice is not
    /// offered.
    pub session: Option<String>,
    /// Description of the calls that the choice *always* would allow; without it the choice is not offered.
    pub always: Option<String>,
    /// Similar calls that *this prefix* or *this directory* would allow; without them these choices are not
    /// offered.
    pub wider: Option<Wider>,
    /// Reasons for the question, one line each, such as the part of the call and the rule or default of the
    /// mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// Similar calls that a person can allow together with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wider {
    /// Property that the similar calls share with the call.
    pub kind: WiderKind,
    /// Description of the similar calls, such as "commands that begin with `cargo test`".
    pub allows: String,
}

/// Property that the calls of a [`Wider`] choice have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WiderKind {
    /// The command begins with the same words.
    Prefix,
    /// The files are in the same directory.
    Directory,
}

impl WiderKind {
    /// Returns the property's name: `prefix` or `directory`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Directory => "directory",
        }
    }
}

/// A part of an approval question with a heading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// Name of the argument, or a title of the lines. May be text from a model too: see [`visible_line`].
    pub heading: String,
    /// Format of the lines. A front-end shows it apart from the heading, which could imitate it.
    pub kind: SectionKind,
    /// The lines, with invisible characters made visible.
    pub lines: Vec<String>,
}

/// Format of the lines of a [`Section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// The text of an argument.
    Text,
    /// An argument as JSON.
    Json,
    /// A preview that the tool rendered.
    Preview,
}

impl Approval {
    /// Returns all of the call for display: every argument with every line, then the preview. A text argument
    /// is shown as lines, anything else as JSON.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = match &self.args {
            Value::Object(args) => {
                args.iter().map(|(name, value)| argument_section(name, value)).collect::<Vec<_>>()
            }
            other => vec![argument_section("arguments", other)],
        };
        if let Some(preview) = &self.preview {
            sections.push(preview_section(preview));
        }
        sections
    }
}

fn argument_section(name: &str, value: &Value) -> Section {
    let heading = visible_line(name);
    match value {
        Value::String(text) => Section { heading, kind: SectionKind::Text, lines: visible_lines(text) },
        other => Section { heading, kind: SectionKind::Json, lines: visible_lines(&format!("{other:#}")) },
    }
}

fn preview_section(preview: &Display) -> Section {
    let (heading, lines) = match preview {
        Display::Line { text } => ("preview".to_owned(), visible_lines(text)),
        Display::Diff { path, diff } => (format!("diff of {path}"), visible_lines(diff)),
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

/// A person's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Yes, this once. Also the *yes* to a [`Question::Confirm`].
    Once,
    /// Yes, and [`Approval::session`] for the rest of the session.
    Session,
    /// Yes, and [`Approval::always`] from now on.
    Always,
    /// Yes, and [`Approval::wider`] for the rest of the session.
    WiderSession,
    /// Yes, and [`Approval::wider`] from now on, in this project.
    WiderAlways,
    /// No, optionally with a message to the model.
    No {
        /// Message to the model.
        message: Option<String>,
    },
    /// A choice among the options.
    Choice {
        /// Index of the chosen option, from 0.
        index: usize,
    },
    /// A line of text.
    Text {
        /// The text that the person typed.
        text: String,
    },
    /// No answer: there is no front-end, the question expired, or the run was stopped.
    Absent,
}

impl Question {
    /// Whether `answer` is a possible answer to this question. [`Answer::Absent`] always is.
    #[must_use]
    pub fn allows(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (_, Answer::Absent) => true,
            (Self::Approve(approval), Answer::Always) => approval.always.is_some(),
            (Self::Approve(approval), Answer::Session) => approval.session.is_some(),
            (Self::Approve(approval), Answer::WiderSession | Answer::WiderAlways) => approval.wider.is_some(),
            (Self::Approve(_), Answer::Once | Answer::No { .. })
            | (Self::Confirm { .. }, Answer::Once | Answer::No { .. })
            | (Self::Input { .. }, Answer::Text { .. } | Answer::No { .. })
            | (Self::Select { .. }, Answer::No { .. }) => true,
            (Self::Select { options, .. }, Answer::Choice { index }) => *index < options.len(),
            (
                Self::Approve(_) | Self::Confirm { .. } | Self::Input { .. } | Self::Select { .. },
                Answer::Once
                | Answer::Session
                | Answer::Always
                | Answer::WiderSession
                | Answer::WiderAlways
                | Answer::Choice { .. }
                | Answer::Text { .. },
            ) => false,
        }
    }
}
