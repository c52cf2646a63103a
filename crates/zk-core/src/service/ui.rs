use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The person at the other end, if there is one. A service: ask `cx.service::<dyn Ui>()` each time, it can be
/// swapped while an agent runs.
#[async_trait]
pub trait Ui: Send + Sync {
    /// Whether a person can answer.
    fn is_interactive(&self) -> bool;

    /// Asks; waits for the answer, the caller's deadline or the end of the run.
    async fn ask(&self, question: Question) -> Answer;

    /// Shows one line that is not part of the answer.
    fn notify(&self, text: &str);
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// Whether a tool call may run.
    Approve {
        /// The agent that wants it, and how deep it sits in the tree.
        agent: String,
        /// 0 for the root agent.
        depth: u32,
        /// The tool.
        tool: String,
        /// What the call does, in one line.
        summary: String,
        /// Its arguments, as they will run.
        args: Value,
    },
    /// Yes or no.
    Confirm {
        /// The question.
        text: String,
    },
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

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Yes, this once.
    Yes,
    /// Yes, and for the rest of this session.
    Always,
    /// No, with a word to the model if the person gave one.
    No {
        /// The word.
        message: Option<String>,
    },
    /// The choice, from 0.
    Choice(usize),
    /// The line.
    Text(String),
    /// Nobody is there to answer.
    Absent,
}

/// Nobody: confirmations are declined, everything else stays unanswered.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUi;

#[async_trait]
impl Ui for NoUi {
    fn is_interactive(&self) -> bool {
        false
    }

    async fn ask(&self, question: Question) -> Answer {
        match question {
            Question::Confirm { .. } => Answer::No { message: None },
            Question::Approve { .. } | Question::Select { .. } | Question::Input { .. } => Answer::Absent,
        }
    }

    fn notify(&self, _: &str) {}
}
