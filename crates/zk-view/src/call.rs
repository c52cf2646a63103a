use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{CallId, Effect, Effects, ToolCall};

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
    /// How far it is.
    pub state: CallState,
    /// Why it did not run, where somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The end of what it printed so far; empty once it is over.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub progress: Text,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Milliseconds it ran, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// What sort of thing a call does: the most that its effects say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// It reads files, and does nothing else.
    Read,
    /// It changes files.
    Edit,
    /// It runs a program.
    Execute,
    /// It opens connections.
    Fetch,
    /// Anything else, or its tool does not say.
    #[default]
    Other,
}

impl CallKind {
    pub(crate) fn of(effects: &Effects) -> Self {
        let Effects::Known { list } = effects else { return Self::Other };
        let kind = |effect: &Effect| match effect {
            Effect::Executes { .. } | Effect::LeavesContext { .. } => Self::Execute,
            Effect::Writes { .. } => Self::Edit,
            Effect::Network { .. } => Self::Fetch,
            Effect::Reads { .. } => Self::Read,
        };
        let kinds: Vec<Self> = list.iter().map(kind).collect();
        let by_weight = [Self::Execute, Self::Edit, Self::Fetch, Self::Read];
        by_weight.into_iter().find(|kind| kinds.contains(kind)).unwrap_or_default()
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
    pub(crate) fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// The paths that effects name.
pub(crate) fn locations(effects: &Effects) -> Vec<String> {
    let Effects::Known { list } = effects else { return Vec::new() };
    let paths = |effect: &Effect| match effect {
        Effect::Reads { paths } | Effect::Writes { paths } => paths.clone(),
        Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => Vec::new(),
    };
    let mut named: Vec<String> = Vec::new();
    for path in list.iter().flat_map(paths) {
        let path = path.display().to_string();
        if named.len() < LOCATIONS && !named.contains(&path) {
            named.push(path);
        }
    }
    named
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
            state,
            reason: None,
            progress: Text::default(),
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
    fn the_kind_of_a_call_is_the_most_that_its_effects_say_and_its_places_are_named_once() {
        let both = Effects::Known {
            list: vec![
                Effect::Reads { paths: vec!["a".into(), "b".into()] },
                Effect::Writes { paths: vec!["b".into()] },
            ],
        };
        assert_eq!((CallKind::of(&both), locations(&both)), (CallKind::Edit, vec!["a".into(), "b".into()]));
        for (effects, kind) in [
            (Effects::reads(["x"]), CallKind::Read),
            (Effects::executes("ls"), CallKind::Execute),
            (Effects::none(), CallKind::Other),
            (Effects::Unknown, CallKind::Other),
        ] {
            assert_eq!(CallKind::of(&effects), kind);
        }
        let many = Effects::reads((0..100).map(|n| n.to_string()));
        assert_eq!(locations(&many).len(), LOCATIONS);
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
