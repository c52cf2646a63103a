use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::service::{QuestionDigest, QuestionId, SwitchTarget, UiAnswer};

use crate::{BlockId, Text};

/// Action that the person wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "intent", rename_all = "snake_case")]
pub enum Intent {
    /// Send a prompt. During a run it is queued until the end.
    Submit {
        /// The prompt.
        text: String,
    },
    /// Interrupt the run with a message; without a run, send a prompt.
    Steer {
        /// The message.
        text: String,
    },
    /// Take a text back that waits in the queue.
    Unqueue {
        /// Number of the text.
        id: u64,
    },
    /// Answer a question.
    Answer {
        /// The question.
        id: QuestionId,
        /// Digest of the question as shown.
        digest: QuestionDigest,
        /// The answer.
        answer: UiAnswer,
    },
    /// Stop the run. Queued texts stay in the queue.
    Stop,
    /// Do not wait for the next attempt of a request.
    Hurry,
    /// Switch to another session.
    Switch {
        /// Session to switch to.
        to: SwitchTarget,
    },
    /// Make the conversation smaller.
    Compact {
        /// Instructions for the summary.
        instructions: Option<String>,
    },
    /// Run a command of the program.
    Command {
        /// Name of the command.
        name: String,
        /// Arguments of the command as they were typed.
        args: String,
    },
    /// Load all lines of a block's body.
    Expand {
        /// The block.
        id: BlockId,
    },
}

/// Action for the host of a view. Effects are data: the view itself performs no I/O.
/// [`ViewDriver::carry_out`](crate::ViewDriver::carry_out) carries out those that concern the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Start a run with this prompt.
    Run {
        /// The prompt.
        text: String,
    },
    /// Interrupt the run with this message.
    Steer {
        /// The message.
        text: String,
    },
    /// Stop the run.
    Abort,
    /// Pass an answer to the questions service.
    Reply {
        /// The question.
        id: QuestionId,
        /// Digest of the question as shown.
        digest: QuestionDigest,
        /// The answer.
        answer: UiAnswer,
    },
    /// End the wait before the next attempt.
    Hurry,
    /// Switch to another session.
    Switch {
        /// Session to switch to.
        to: SwitchTarget,
    },
    /// Make the next request smaller.
    Compact {
        /// Instructions for the summary.
        instructions: Option<String>,
    },
    /// Run a command of the program.
    Command {
        /// Name of the command.
        name: String,
        /// Arguments of the command.
        args: String,
    },
    /// Return a queued text to the person after a session switch.
    GiveBack {
        /// The text.
        text: String,
    },
    /// Load the body of an old block from the stored session and pass it as
    /// [`EngineInput::Body`](crate::EngineInput::Body): see [`body_of`](crate::body_of).
    LoadBody {
        /// The block.
        id: BlockId,
    },
}

/// A text that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queued {
    /// Number of the text.
    pub id: u64,
    /// Whether the text steers the run instead of waiting for its end.
    pub steers: bool,
    /// The text.
    pub text: Text,
}

/// All lines of a body.
pub type Lines = Arc<[Text]>;
