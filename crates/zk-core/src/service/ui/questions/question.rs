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
    /// Asks whether a tool call may run.
    Approve(Box<Approval>),
    /// Asks for yes or no.
    Confirm {
        /// Text of the question.
        text: String,
    },
    /// Question about trust in exact content of a project.
    Trust(Box<TrustRequest>),
    /// Asks for one of several options.
    Select(Box<Selection>),
    /// Asks for a line of text.
    Input {
        /// Text of the question.
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
    /// Whether a free text is an answer, too: [`Answer::Text`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_words: bool,
    /// Content that the question is about, to be read before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Display>,
}

impl Selection {
    /// Creates a selection of options without descriptions.
    pub fn new(text: impl Into<String>, options: Vec<String>) -> Self {
        Self { text: text.into(), options, descriptions: Vec::new(), accepts_words: false, preview: None }
    }

    /// Adds descriptions of the choices.
    #[must_use]
    pub fn described(mut self, descriptions: Vec<String>) -> Self {
        self.descriptions = descriptions;
        self
    }

    /// Allows a free text as an answer.
    #[must_use]
    pub fn accepting_words(mut self) -> Self {
        self.accepts_words = true;
        self
    }

    /// Adds the subject of the question.
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

/// Content of a project that a person can trust, exactly as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrustRequest {
    /// The question, in a sentence.
    pub text: String,
    /// Things that count once they are trusted, in a line each.
    pub items: Vec<String>,
    /// Detail lines, such as hashes; a front-end shows them on demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// A tool call that needs approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Further choices like [`Approval::wider`], such as all calls of a server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<Wider>,
    /// Connections that the call gets in its sandbox if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// Connections that allow a call to run inside of its sandbox instead of leaving it; without them that
    /// choice is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contained: Option<Connections>,
}

/// Similar calls that a person can allow together with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wider {
    /// Property that the similar calls share with the call.
    pub kind: WiderKind,
    /// Description of the similar calls, with one that the choice allows and one that it does not, such as "commands that
    /// begin with `cargo test`, so also …, but not …".
    pub allows: String,
    /// Short description of the calls, such as "every `git push …`".
    #[serde(default)]
    pub label: String,
    /// Warning about the choice, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Property that the calls of a [`Wider`] choice have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WiderKind {
    /// Commands with the same first words.
    Prefix,
    /// Files in the same directory.
    Directory,
    /// Commands that run the project's code in the same way.
    ProjectCode,
    /// Same tool, with any arguments.
    Tool,
    /// Any tool of the same MCP server.
    Server,
}

impl WiderKind {
    /// Returns the property's name, such as `prefix` or `directory`.
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

    /// Key of the choice for the session; in upper case permanently.
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

/// A part of an approval question with a heading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// Name of the argument, or a title of the lines. May be text from a model too: see [`visible_line`].
    pub heading: String,
    /// Format of the lines. A front-end shows it separately from the heading, which could imitate it.
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
        Display::Diff { path, diff } => (format!("diff of {path}"), visible_diff(diff)),
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
    /// Yes, and the calls of one [`Approval::more`] for the rest of the session.
    MoreSession {
        /// Index of the choice.
        index: usize,
    },
    /// Yes, and the calls of one [`Approval::more`] permanently, in this project.
    MoreAlways {
        /// Index of the choice.
        index: usize,
    },
    /// Yes, this once, in the sandbox that the call wants to leave, with the connections of [`Approval::contained`].
    Contained,
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
    /// Returns the description of the calls that `answer` allows besides the one that the question is about; `None` for an
    /// answer that allows no others, or that the question does not offer.
    ///
    /// ```
    /// use zk_core::service::{Approval, Question, UiAnswer};
    ///
    /// let approval = Approval { session: Some("exactly this call".to_owned()), ..Approval::default() };
    /// let question = Question::Approve(Box::new(approval));
    /// assert_eq!(question.granted_by(&UiAnswer::Session), Some("exactly this call"));
    /// assert_eq!((question.granted_by(&UiAnswer::Once), question.granted_by(&UiAnswer::Always)), (None, None));
    /// ```
    #[must_use]
    pub fn granted_by(&self, answer: &Answer) -> Option<&str> {
        let Self::Approve(approval) = self else { return None };
        let more = |index: &usize| approval.more.get(*index);
        match answer {
            Answer::Session => approval.session.as_deref(),
            Answer::Always => approval.always.as_deref(),
            Answer::WiderSession | Answer::WiderAlways => {
                approval.wider.as_ref().map(|wider| wider.allows.as_str())
            }
            Answer::MoreSession { index } | Answer::MoreAlways { index } => {
                more(index).map(|wider| wider.allows.as_str())
            }
            Answer::Once
            | Answer::Contained
            | Answer::No { .. }
            | Answer::Choice { .. }
            | Answer::Text { .. }
            | Answer::Absent => None,
        }
    }

    /// Describes the answers that the question offers, such as `yes, yes for the session, or no`.
    ///
    /// ```
    /// use zk_core::service::{Question, Selection};
    ///
    /// let options = vec!["8080".to_owned(), "9090".to_owned()];
    /// let question: Question = Selection::new("Which port?", options).accepting_words().into();
    /// assert_eq!(question.describe_answers(), "the number of an option from 1 to 2, a text, or no");
    /// ```
    #[must_use]
    pub fn describe_answers(&self) -> String {
        let words = match self {
            Self::Approve(approval) => [
                Some("yes".to_owned()),
                approval.session.as_ref().map(|_| "yes for the session".to_owned()),
                approval.always.as_ref().map(|_| "yes always".to_owned()),
            ],
            Self::Confirm { .. } | Self::Trust(_) => [Some("yes".to_owned()), None, None],
            Self::Select(select) => {
                let count = select.options.len();
                let number = (count > 0).then(|| format!("the number of an option from 1 to {count}"));
                [number, select.accepts_words.then(|| "a text".to_owned()), None]
            }
            Self::Input { .. } => [Some("a text".to_owned()), None, None],
        };
        let words: Vec<String> = words.into_iter().flatten().collect();
        let comma = if words.len() > 1 { "," } else { "" };
        format!("{}{comma} or no", words.join(", "))
    }

    /// Whether `answer` is a possible answer to this question. [`Answer::Absent`] always is.
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
            | (Self::Select(_), Answer::No { .. }) => true,
            (Self::Select(select), Answer::Choice { index }) => *index < select.options.len(),
            (Self::Select(select), Answer::Text { text }) => select.accepts_words && !text.trim().is_empty(),
            (
                Self::Approve(_)
                | Self::Confirm { .. }
                | Self::Trust(_)
                | Self::Input { .. }
                | Self::Select(_),
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
