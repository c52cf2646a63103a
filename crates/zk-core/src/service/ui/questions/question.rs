use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::visible::{visible_line, visible_lines};
use crate::model::{Display, Effects};

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
    /// One of several.
    Select(Box<Selection>),
    /// A line of text.
    Input {
        /// The question.
        text: String,
    },
}

/// A choice of one among several.
///
/// ```
/// use zk_core::service::{Question, Selection};
///
/// let options = vec!["Half up".to_owned(), "Truncate".to_owned()];
/// let question: Question = Selection::new("Which rounding?", options).described(vec!["like a till".to_owned()]).into();
/// assert_eq!(serde_json::to_value(question)?["options"], serde_json::json!(["Half up", "Truncate"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Selection {
    /// The question.
    pub text: String,
    /// The choices.
    pub options: Vec<String>,
    /// Descriptions of the choices, in their order; those of the last ones may be missing, and any be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptions: Vec<String>,
    /// Whether words that are none of the choices are an answer too: [`Answer::Text`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_words: bool,
    /// Content that the question is about, to be read before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Display>,
}

impl Selection {
    /// A choice among these, each of which says all of itself.
    pub fn new(text: impl Into<String>, options: Vec<String>) -> Self {
        Self { text: text.into(), options, descriptions: Vec::new(), accepts_words: false, preview: None }
    }

    /// Adds descriptions of the choices.
    #[must_use]
    pub fn described(mut self, descriptions: Vec<String>) -> Self {
        self.descriptions = descriptions;
        self
    }

    /// Lets words that are none of the choices be an answer.
    #[must_use]
    pub fn accepting_words(mut self) -> Self {
        self.accepts_words = true;
        self
    }

    /// Adds what the question is about.
    #[must_use]
    pub fn about(mut self, preview: Display) -> Self {
        self.preview = Some(preview);
        self
    }
}

impl From<Selection> for Question {
    fn from(selection: Selection) -> Self {
        Self::Select(Box::new(selection))
    }
}

/// A tool call that wants to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// Calls like one that wants to run, which a person can allow with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wider {
    /// Property by which further calls are allowed.
    pub kind: WiderKind,
    /// Calls that the choice allows, in words, such as "commands that begin with `cargo test`".
    pub allows: String,
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
}

impl WiderKind {
    /// Returns its name: `prefix` or `directory`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Directory => "directory",
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
        Display::Diff { path, diff } => (format!("diff of {path}"), visible_lines(diff)),
        Display::Lines { lines } => {
            ("preview".to_owned(), lines.iter().flat_map(|line| visible_lines(line)).collect())
        }
        Display::Command { lines, exit, .. } => {
            let lines = lines.iter().flat_map(|line| visible_lines(line)).chain([exit.to_string()]);
            ("preview".to_owned(), lines.collect())
        }
        Display::Markdown { text, .. } => ("preview".to_owned(), visible_lines(text)),
        Display::Checklist { items, .. } => {
            let lines = items.iter().flat_map(|item| visible_lines(&item.to_string()));
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
            (Self::Approve(_), Answer::Once | Answer::No { .. })
            | (Self::Confirm { .. }, Answer::Once | Answer::No { .. })
            | (Self::Input { .. }, Answer::Text { .. } | Answer::No { .. })
            | (Self::Select(_), Answer::No { .. }) => true,
            (Self::Select(select), Answer::Choice { index }) => *index < select.options.len(),
            (Self::Select(select), Answer::Text { text }) => select.accepts_words && !text.trim().is_empty(),
            (
                Self::Approve(_) | Self::Confirm { .. } | Self::Input { .. } | Self::Select(_),
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
