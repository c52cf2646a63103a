use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{CallId, CallKind, CallLocation, ToolCall};

use crate::{Body, Text};

/// Lines and bytes of a running call's output that are kept.
const PROGRESS: (usize, usize) = (5, 2048);

/// Places of a call that are named.
const LOCATIONS: usize = 16;

/// Characters of an argument that stand for a call.
const MAIN_ARGUMENT: usize = 200;

/// A tool call as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Call {
    /// The id its provider gave it; not unique in a session.
    pub call_id: CallId,
    /// The number of the answer it is of, among those of its run, from 0.
    pub step: u32,
    /// The tool's canonical name.
    pub tool: Text,
    /// What it does, in one line: what its tool says, before that its name and what its arguments begin with.
    pub summary: Text,
    /// The kind of the call; known once it is about to run.
    #[serde(default, skip_serializing_if = "CallKind::is_other")]
    pub kind: CallKind,
    /// The paths it reads or changes, as it names them, once it is about to run; the first ones of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Text>,
    /// The line of the first of them, from 1, where the call is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How far it is.
    pub state: CallState,
    /// Why it did not run, where somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The end of what it printed so far; empty once it is over.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub progress: Text,
    /// What was remarked on it, such as arguments that were converted or lines that the model does not see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Text>,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Milliseconds it ran, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// The paths that a call names, the first ones of many.
pub(crate) fn paths(locations: &[CallLocation]) -> Vec<String> {
    locations.iter().take(LOCATIONS).map(|place| place.path.display().to_string()).collect()
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The model is writing its arguments.
    Writing,
    /// It waits for its turn, its guards or the person.
    Waiting,
    /// It runs.
    Running,
    /// It ended well.
    Done,
    /// It failed.
    Failed,
    /// A guard or the person refused it.
    Refused,
    /// Its batch ended before it ran.
    Skipped,
    /// It waits for somebody who is not here.
    Parked,
    /// Its arguments do not fit its tool.
    Invalid,
    /// There is no such tool.
    Unknown,
    /// It was cut off while it ran: whether it took effect is not known.
    OutcomeUnknown,
    /// Its process ended before its result was stored; it changed nothing.
    NotRun,
}

impl CallState {
    /// Whether the call is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Writing | Self::Waiting | Self::Running => false,
            Self::Done
            | Self::Failed
            | Self::Refused
            | Self::Skipped
            | Self::Parked
            | Self::Invalid
            | Self::Unknown
            | Self::OutcomeUnknown
            | Self::NotRun => true,
        }
    }
}

impl Call {
    pub(crate) fn new(call_id: CallId, step: u32, tool: &str, state: CallState) -> Self {
        Self {
            call_id,
            step,
            tool: Text::line(tool),
            summary: Text::line(tool),
            kind: CallKind::Other,
            locations: Vec::new(),
            line: None,
            state,
            reason: None,
            progress: Text::default(),
            remarks: Vec::new(),
            body: None,
            elapsed_ms: None,
        }
    }

    /// A call whose arguments are known. It may never run, and then nothing else says what it was.
    pub(crate) fn waiting(call: &ToolCall, step: u32) -> Self {
        let mut shown = Self::new(call.id.clone(), step, &call.name, CallState::Waiting);
        if let Some(main) = main_argument(&call.args) {
            let main: String = main.chars().take(MAIN_ARGUMENT).collect();
            shown.summary = Text::line(&format!("{} {main}", call.name));
        }
        shown
    }

    pub(crate) fn add_progress(&mut self, delta: &Text) {
        self.progress.append(delta);
        self.progress.keep_end(PROGRESS.0, PROGRESS.1);
    }
}

/// The text among the arguments that says most of what a call does.
fn main_argument(args: &Value) -> Option<&str> {
    let args = args.as_object()?;
    let usual = ["command", "path", "pattern", "url", "query"].into_iter().filter_map(|name| args.get(name));
    let mut texts = usual.chain(args.values()).filter_map(Value::as_str);
    texts.find_map(|text| text.lines().find(|line| !line.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_places_of_a_call_are_named() {
        let many: Vec<CallLocation> =
            (0..100).map(|n| CallLocation { path: n.to_string().into(), line: None }).collect();
        assert_eq!(paths(&many).len(), LOCATIONS);
        assert_eq!(paths(&many).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn a_call_that_never_ran_says_what_it_was() {
        for (args, summary) in [
            (json!({ "background": true, "command": "\nrm -rf x\nmore" }), "shell rm -rf x"),
            (json!({ "b": 1, "text": "hello" }), "shell hello"),
            (json!({}), "shell"),
            (json!({ "command": "é".repeat(300) }), &format!("shell {}", "é".repeat(200))),
        ] {
            let shown = Call::waiting(&ToolCall::new("c", "shell", args), 0);
            assert_eq!(shown.summary, Text::line(summary));
        }
    }
}
