use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zk_core::events::{GoalChanged, GoalState};
use zk_core::model::SessionId;
use zk_core::service::{PendingQuestion, Question, QuestionDigest, QuestionId, UiAnswer, visible_line};

use super::error::FleetError;
use crate::drive::question_line;

/// Format version of entries.
pub(super) const ENTRY_VERSION: u32 = 1;

/// State of a conversation as its process reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetEntry {
    /// Format version of the entry.
    pub version: u32,
    /// Id of the entry.
    pub id: String,
    /// Id of the conversation's process.
    pub pid: u32,
    /// Time at which the conversation was opened, in milliseconds since 1970.
    pub started_ms: u64,
    /// Time of the last change, in milliseconds since 1970.
    pub updated_ms: u64,
    /// Id of the conversation's session; `None` if it is not stored.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Working directory of the conversation.
    pub cwd: PathBuf,
    /// First line of the last prompt.
    #[serde(default)]
    pub prompt: String,
    /// Whether a run is in progress.
    #[serde(default)]
    pub is_running: bool,
    /// Questions that wait for a person.
    #[serde(default)]
    pub questions: Vec<OpenQuestion>,
    /// Number of turns since the conversation was opened.
    #[serde(default)]
    pub turns: u32,
    /// Cost in US dollars since the conversation was opened, as far as prices are known.
    #[serde(default)]
    pub cost: f64,
    /// Goal of the conversation.
    #[serde(default)]
    pub goal: Option<GoalChanged>,
    /// Whether the conversation was closed regularly, with a goal that is not reached.
    #[serde(default)]
    pub is_closed: bool,
    /// Whether a person was told that the process is gone.
    #[serde(default)]
    pub is_told: bool,
    /// Time at which the process was first found gone, in milliseconds since 1970.
    #[serde(default)]
    pub gone_ms: Option<u64>,
}

/// A question that waits for a person, as another process lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Id of the question in its process.
    pub id: QuestionId,
    /// Digest of the question's content.
    pub digest: QuestionDigest,
    /// Text of the question, in one line.
    pub text: String,
    /// Options of the question; empty if it has none.
    #[serde(default)]
    pub options: Vec<String>,
    /// Kind of answer that another process may give.
    pub answers: OpenAnswers,
}

/// Answers that another process may give to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenAnswers {
    /// Only a refusal: consent is given where the whole question is visible. The other process may be a
    /// command of a model.
    Refusal,
    /// One of the options, or a free text.
    ChoiceOrText,
    /// A free text.
    Text,
}

impl OpenAnswers {
    /// Returns the kind of answer that another process may give to `question`.
    pub(super) fn of(question: &Question) -> Self {
        match question {
            Question::Select(selection) if selection.accepts_words => Self::ChoiceOrText,
            // These include questions whether to continue a plan or to spend more.
            Question::Select(_) => Self::Refusal,
            Question::Approve(_) | Question::Trust(_) | Question::Confirm { .. } => Self::Refusal,
            Question::Input { .. } => Self::Text,
        }
    }
}

impl OpenQuestion {
    pub(super) fn new(pending: &PendingQuestion, redact: &dyn Fn(&str) -> String) -> Self {
        let options = match &pending.question {
            Question::Select(selection) => {
                selection.options.iter().map(|option| redacted_line(option, redact)).collect()
            }
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) | Question::Input { .. } => {
                Vec::new()
            }
        };
        Self {
            id: pending.id,
            digest: pending.digest,
            text: visible_line(&question_line(&pending.question, redact)),
            options,
            answers: OpenAnswers::of(&pending.question),
        }
    }

    /// Parses an answer that a person typed.
    ///
    /// # Errors
    /// [`FleetError::Answer`] with the possible answers.
    pub fn read_answer(&self, typed: &str) -> Result<UiAnswer, FleetError> {
        let typed = typed.trim();
        let no = || UiAnswer::No { message: None };
        let is_no = typed.eq_ignore_ascii_case("no");
        let choice = || {
            let number =
                typed.parse::<usize>().ok().filter(|number| (1..=self.options.len()).contains(number));
            number.map(|number| UiAnswer::Choice { index: number - 1 })
        };
        let text = || (!typed.is_empty()).then(|| UiAnswer::Text { text: typed.to_owned() });
        let (answer, possible) = match self.answers {
            OpenAnswers::Refusal => (
                is_no.then(no),
                "a consent can be refused from here with `no`; it is given where the question is shown"
                    .to_owned(),
            ),
            OpenAnswers::ChoiceOrText => {
                (choice().or_else(text), format!("the answers are 1 to {}, or a text", self.options.len()))
            }
            OpenAnswers::Text => (text(), "the answer is a text".to_owned()),
        };
        answer.ok_or(FleetError::Answer(possible))
    }
}

/// Returns the whole text in one line, redacted and with visible control characters.
pub(super) fn redacted_line(text: &str, redact: &dyn Fn(&str) -> String) -> String {
    visible_line(&redact(text))
}

/// State of a listed conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetState {
    /// A question waits for a person.
    Waiting,
    /// A run is in progress.
    Running,
    /// The conversation waits for a prompt.
    Idle,
    /// The conversation was closed before its goal was reached.
    Paused,
    /// The process ended without closing the conversation.
    Orphaned,
}

impl FleetState {
    /// Returns the word for the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Paused => "paused",
            Self::Orphaned => "orphaned",
        }
    }

    /// Whether the process of the conversation is alive.
    #[must_use]
    pub fn is_alive(self) -> bool {
        match self {
            Self::Waiting | Self::Running | Self::Idle => true,
            Self::Paused | Self::Orphaned => false,
        }
    }
}

/// A listed conversation with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetView {
    /// State of the conversation.
    pub state: FleetState,
    /// Entry that the conversation's process wrote.
    #[serde(flatten)]
    pub entry: FleetEntry,
}

impl FleetView {
    pub(super) fn new(mut entry: FleetEntry, is_alive: bool) -> Self {
        if !is_alive {
            // Nobody waits for an answer or runs in a process that is gone.
            entry.questions.clear();
            entry.is_running = false;
        }
        let state = match is_alive {
            true if !entry.questions.is_empty() => FleetState::Waiting,
            true if entry.is_running => FleetState::Running,
            true => FleetState::Idle,
            false if entry.is_closed => FleetState::Paused,
            false => FleetState::Orphaned,
        };
        Self { state, entry }
    }
}

impl FleetEntry {
    /// Whether a request of another process can have an effect: there is a run, a question, or an autonomous
    /// goal between two runs.
    #[must_use]
    pub fn is_working(&self) -> bool {
        let is_driven = |goal: &GoalChanged| goal.autonomous && goal.state == GoalState::Active;
        self.is_running || !self.questions.is_empty() || self.goal.as_ref().is_some_and(is_driven)
    }

    /// Whether the goal is neither reached nor given up.
    #[must_use]
    pub fn has_open_goal(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| match goal.state {
            GoalState::Active | GoalState::Paused => goal.autonomous,
            GoalState::Completed | GoalState::Stuck | GoalState::Capped | GoalState::Cleared => false,
        })
    }
}

/// Request of another process to a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum FleetRequest {
    /// Stop the work that was listed; an autonomous goal pauses.
    Stop {
        /// Time of the last change in the list that the sender saw, in milliseconds since 1970. Work that began later
        /// goes on.
        listed_ms: u64,
    },
    /// Answer a question.
    Answer {
        /// Id of the question.
        id: QuestionId,
        /// Digest of the question as it was listed.
        digest: QuestionDigest,
        /// Answer of the person.
        answer: UiAnswer,
    },
}
