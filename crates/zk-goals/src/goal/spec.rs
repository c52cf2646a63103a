use serde::{Deserialize, Serialize};
use zk_core::events::{GoalChanged, GoalState};

/// Maximum size of a goal's text, in bytes.
pub const MAX_GOAL_BYTES: usize = 8 * 1024;

/// Maximum number of decisions that are listed as waiting for a person.
const MAX_WAITING: usize = 20;

/// Goal as a person asks for it.
///
/// ```
/// use zk_goals::{GoalSpec, GoalSpecError};
///
/// let spec = GoalSpec::new(" make the tests pass ")?.autonomous(Some(20), Some(1.5));
/// assert_eq!((spec.text(), spec.max_turns()), ("make the tests pass", Some(20)));
/// assert_eq!(GoalSpec::new("  "), Err(GoalSpecError::Empty));
/// # Ok::<(), GoalSpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalSpec {
    text: String,
    #[serde(default)]
    autonomous: bool,
    #[serde(default)]
    max_turns: Option<u32>,
    #[serde(default)]
    budget: Option<f64>,
    #[serde(default)]
    origin: GoalOrigin,
}

/// Source of a goal's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalOrigin {
    /// A person set the goal, and the model is told of it.
    #[default]
    Set,
    /// A prompt counts as the goal; the model is not told of it.
    Prompt,
}

/// Reason for which a text cannot be a goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalSpecError {
    /// There is no text.
    #[error("a goal needs a text that says when it is reached, such as `make all tests pass`")]
    Empty,
    /// The text is too long.
    #[error(
        "the goal has {bytes} bytes, and at most {MAX_GOAL_BYTES} are possible: put the details into a file, and name it"
    )]
    TooLong {
        /// Size of the text in bytes.
        bytes: usize,
    },
}

impl GoalSpec {
    /// Creates a goal that is not autonomous: a person continues it with prompts.
    ///
    /// # Errors
    /// [`GoalSpecError`] for a text without content, or over [`MAX_GOAL_BYTES`].
    pub fn new(text: &str) -> Result<Self, GoalSpecError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(GoalSpecError::Empty);
        }
        if text.len() > MAX_GOAL_BYTES {
            return Err(GoalSpecError::TooLong { bytes: text.len() });
        }
        Ok(Self {
            text: text.to_owned(),
            autonomous: false,
            max_turns: None,
            budget: None,
            origin: GoalOrigin::Set,
        })
    }

    /// Makes the goal autonomous: the conversation works towards it by itself, within caps on turns and on US
    /// dollars.
    #[must_use]
    pub fn autonomous(self, max_turns: Option<u32>, budget: Option<f64>) -> Self {
        Self { autonomous: true, max_turns, budget, ..self }
    }

    /// Creates a goal from a prompt, cut to the part that is shown.
    pub(super) fn from_prompt(prompt: &str) -> Option<Self> {
        let first = prompt.lines().find(|line| !line.trim().is_empty())?;
        let end = first.char_indices().nth(200).map_or(first.len(), |(at, _)| at);
        Some(Self { origin: GoalOrigin::Prompt, ..Self::new(first.get(..end)?).ok()? })
    }

    /// Returns the text of the goal.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the conversation goes on by itself.
    #[must_use]
    pub fn is_autonomous(&self) -> bool {
        self.autonomous
    }

    /// Returns the cap on turns; `None` for no cap.
    #[must_use]
    pub fn max_turns(&self) -> Option<u32> {
        self.max_turns
    }

    /// Returns the cap on US dollars; `None` for no cap.
    #[must_use]
    pub fn budget(&self) -> Option<f64> {
        self.budget
    }

    /// Returns the source of the text.
    #[must_use]
    pub fn origin(&self) -> GoalOrigin {
        self.origin
    }

    pub(super) fn set_caps(&mut self, max_turns: Option<u32>, budget: Option<f64>) {
        (self.max_turns, self.budget) = (max_turns, budget);
    }
}

/// A goal with its progress: the content of a session's entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Number of the goal in its session, from 1.
    pub number: u64,
    /// Goal as it was asked for.
    pub spec: GoalSpec,
    /// Present state of the goal.
    pub state: GoalState,
    /// Reason for the state, if there is one.
    #[serde(default)]
    pub reason: Option<String>,
    /// Number of turns spent on the goal.
    #[serde(default)]
    pub turns: u32,
    /// US dollars spent on the goal, with sub-agents and side calls, as far as prices are known.
    #[serde(default)]
    pub spent: f64,
    /// Number of equal answers in a row, the last one included.
    #[serde(default)]
    pub equal_answers: u32,
    /// Digest of the calls since the last answer.
    #[serde(default)]
    pub work: u64,
    /// Digest of the last answer, with the calls before it.
    #[serde(default)]
    pub last_answer: Option<u64>,
    /// Number of failed turns in a row.
    #[serde(default)]
    pub failures: u32,
    /// State of the supervisor.
    #[serde(default)]
    pub supervision: Supervision,
    /// Decisions that wait for a person, one line each.
    #[serde(default)]
    pub waiting: Vec<String>,
}

/// State of the supervisor of a goal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// Number of turns since the last request for a verdict.
    #[serde(default)]
    pub turns_since: u32,
    /// Number of requests in a row without a usable verdict.
    #[serde(default)]
    pub failures: u32,
    /// Turn number from which the paused supervisor is asked again.
    #[serde(default)]
    pub paused_until: Option<u32>,
    /// Supervisor's reason why the goal is achieved. The goal ends with the next answer.
    #[serde(default)]
    pub achieved: Option<String>,
    /// Reason of the last verdict that the goal is not achieved, to tell the model with the next message.
    #[serde(default)]
    pub missing: Option<String>,
    /// Whether a requested verdict has not arrived. Such a request ends with its process.
    #[serde(skip)]
    pub is_asked: bool,
    /// Whether the cost of the requested verdict was counted.
    #[serde(skip)]
    pub is_paid: bool,
}

impl Goal {
    pub(super) fn new(number: u64, spec: GoalSpec) -> Self {
        Self {
            number,
            spec,
            state: GoalState::Active,
            reason: None,
            turns: 0,
            spent: 0.0,
            equal_answers: 0,
            work: 0,
            last_answer: None,
            failures: 0,
            supervision: Supervision::default(),
            waiting: Vec::new(),
        }
    }

    /// Whether a person set the goal, and it is neither reached nor given up, so that another goal replaces
    /// it only after a question.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let is_open = matches!(self.state, GoalState::Active | GoalState::Paused);
        is_open && self.spec.origin == GoalOrigin::Set
    }

    /// Whether the conversation works towards the goal by itself now.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.spec.autonomous && self.state == GoalState::Active
    }

    /// Adds a pending decision of a person; returns whether it is a new one.
    pub(super) fn add_waiting(&mut self, decision: String) -> bool {
        let is_new = !self.waiting.contains(&decision) && self.waiting.len() < MAX_WAITING;
        if is_new {
            self.waiting.push(decision);
        }
        is_new
    }

    /// Returns the event that announces the goal's present state.
    #[must_use]
    pub fn changed(&self) -> GoalChanged {
        GoalChanged {
            number: self.number,
            text: self.spec.text.clone(),
            state: self.state,
            reason: self.reason.clone(),
            autonomous: self.spec.autonomous,
            turns: self.turns,
            max_turns: self.spec.max_turns,
            cost: self.spent,
            budget: self.spec.budget,
            waiting: self.waiting.clone(),
        }
    }
}
