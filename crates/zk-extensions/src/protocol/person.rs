#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::Display;
use zk_core::service::{Audience, Delivery};

/// Parameters of `ask`: a question to the person, whose result is a [`PersonAnswer`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskPerson {
    /// Form of the question.
    #[serde(default)]
    pub form: AskedForm,
    /// The question.
    pub text: String,
    /// Choices of the form `select`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Whether words that are none of the choices are an answer too.
    #[serde(default)]
    pub accepts_words: bool,
    /// Content that the question is about.
    #[serde(default)]
    pub preview: Option<Display>,
    /// Seconds that the person has; 60 unless it is given, 3600 at most.
    #[serde(default)]
    pub seconds: Option<u64>,
}

/// Form of a question to the person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskedForm {
    /// Yes or no.
    #[default]
    Confirm,
    /// One of several choices.
    Select,
    /// A line of text.
    Input,
}

/// Answer of the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PersonAnswer {
    /// Yes.
    Yes,
    /// No, or no choice.
    No,
    /// A choice.
    Choice {
        /// Index of the choice, from 0.
        index: usize,
    },
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// No answer: nobody is there, the time is over, or the run was stopped.
    Absent,
}

/// Parameters of `session/append`: an entry of the extension's own in the session; the result is an [`Appended`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AppendEntry {
    /// Kind of the entry, named by the extension.
    pub kind: String,
    /// Version of the data's format, from 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Content of the entry.
    pub data: Value,
    /// Audience of the entry.
    #[serde(default)]
    pub audience: Audience,
}

fn first_version() -> u32 {
    1
}

/// Result of `session/append`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Appended {
    /// Id of the entry.
    pub id: String,
}

/// Parameters of `session/entries`; the result is a list of [`OwnEntry`], oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EntriesQuery {
    /// Kind of the entries; all of them unless it is given.
    pub kind: Option<String>,
}

/// Entry of the extension's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OwnEntry {
    /// Kind of the entry.
    pub kind: String,
    /// Version of the data's format.
    pub version: u32,
    /// Content of the entry.
    pub data: Value,
}

/// Parameters of `side_call`: a request to a model beside the conversation, in the budget of the run; the result is a
/// [`SideReply`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SideQuestion {
    /// Id of the run; that of the request which the extension is working on unless it is given.
    #[serde(default)]
    pub run: Option<String>,
    /// Purpose in a word or two, for statistics.
    pub purpose: String,
    /// Prompt of the call.
    pub prompt: String,
    /// System prompt of the call.
    #[serde(default)]
    pub system: String,
    /// Limit of the answer in tokens.
    #[serde(default)]
    pub max_tokens: Option<u32>,
}

/// Result of `side_call`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideReply {
    /// Text of the answer.
    pub text: String,
}

/// Parameters of `run/steer`, `run/follow_up` and `run/next_prompt`: a message for the model in a run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunMessage {
    /// Id of the run; that of the request which the extension is working on unless it is given.
    #[serde(default)]
    pub run: Option<String>,
    /// Text of the message.
    pub text: String,
}

/// Parameters of `run/abort`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Id of the run; that of the request which the extension is working on unless it is given.
    #[serde(default)]
    pub run: Option<String>,
    /// Reason, which the person reads.
    pub reason: String,
}

/// Parameters of `deliver`: a message for the conversation, which begins a run if none is active; the result is a
/// [`Delivered`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Deliver {
    /// Text of the message.
    pub text: String,
    /// Time at which it joins the conversation.
    #[serde(default = "when_done")]
    pub when: Delivery,
}

fn when_done() -> Delivery {
    Delivery::FollowUp
}

/// Result of `deliver`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Delivered {
    /// A run began with it.
    Started {
        /// Id of the run.
        run: String,
    },
    /// The active run gets it.
    Queued {
        /// Id of the run.
        run: String,
    },
    /// The next prompt takes it along.
    Waiting,
}

/// Parameters of the notification `show`: a block in the conversation; a later one with the same key replaces it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShowBlock {
    /// Key of the block, unique within the extension.
    pub key: String,
    /// Kind of the block, named by the extension.
    #[serde(default)]
    pub kind: String,
    /// Heading above the body.
    pub title: String,
    /// Content of the block.
    pub body: Display,
    /// Whether the block is final.
    #[serde(default)]
    pub last: bool,
}
