use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use zk_core::model::{CallId, CallKind, CallLocation, ToolCall};
use zk_core::service::{call_line, main_argument};

use crate::{Body, Text};

/// Maximum size of the shown output of a running call, in lines and bytes.
const MAX_PROGRESS: (usize, usize) = (5, 2048);

/// Maximum number of paths in a call.
const MAX_LOCATIONS: usize = 16;

/// Maximum length in characters of a one-line argument that a summary contains completely.
const MAX_WHOLE_ARGUMENT_CHARS: usize = 100;

/// Minimum number of bytes for which the end of a summary counts as the beginning of the argument.
const MIN_MATCH_BYTES: usize = 16;

/// Maximum length of the argument that a call keeps beside its summary, in characters.
const MAX_ARGUMENT_CHARS: usize = 4000;

/// Tool call as shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Call {
    /// The id its provider gave it; not unique in a session.
    pub call_id: CallId,
    /// Index of the call's answer within the run.
    pub step: u32,
    /// The tool's canonical name.
    pub tool: Text,
    /// Summary in one line. Until the tool gives one, the tool's name with the first argument.
    pub summary: Text,
    /// Main argument, such as a command, in full; `None` if the summary contains it. A very long one is
    /// truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<Text>,
    /// Kind of the call, known just before it runs.
    #[serde(default, skip_serializing_if = "CallKind::is_other")]
    pub kind: CallKind,
    /// Paths that the call reads or changes, as its arguments name them, known just before it runs; limited
    /// in number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Text>,
    /// Line number in the first path, from 1, if the call names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// State of the call.
    pub state: CallState,
    /// Reason for which the call did not run, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// Tail of the output so far; empty once the call is finished.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub progress: Text,
    /// Remarks on the call, such as converted arguments or lines hidden from the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Text>,
    /// Result of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Duration in milliseconds, once the call is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// Paths that a call names, limited in number.
pub(crate) fn location_paths(locations: &[CallLocation]) -> Vec<String> {
    locations.iter().take(MAX_LOCATIONS).map(|place| place.path.display().to_string()).collect()
}

/// State of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The model is writing its arguments.
    Writing,
    /// Call that waits for its turn, its guards or the person.
    Waiting,
    /// Call that runs.
    Running,
    /// Call that ended well.
    Done,
    /// Call that failed.
    Failed,
    /// Call refused by a guard or the person.
    Refused,
    /// Call whose batch ended first.
    Skipped,
    /// Call parked for a person who is absent.
    Parked,
    /// Call with invalid arguments.
    Invalid,
    /// Call of an unknown tool.
    Unknown,
    /// Call cut off while running: the effect is unknown.
    OutcomeUnknown,
    /// Call whose process ended before a result was stored; it changed nothing.
    NotRun,
}

impl CallState {
    /// Whether the call is finished.
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
            argument: None,
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

    /// Creates a waiting call from its arguments. If the call never runs, no later event describes it.
    pub(crate) fn waiting(call: &ToolCall, step: u32) -> Self {
        let mut shown = Self::new(call.id.clone(), step, &call.name, CallState::Waiting);
        // The tool is known only to the agent, which describes the call when it runs.
        shown.summary = Text::line(&call_line(&call.name, &call.args));
        if let Some((_, whole)) = main_argument(&call.args) {
            let whole = whole.trim();
            shown.argument = (whole.contains('\n') || whole.chars().nth(MAX_WHOLE_ARGUMENT_CHARS).is_some())
                .then(|| {
                    let end = whole.char_indices().nth(MAX_ARGUMENT_CHARS).map(|(at, _)| at);
                    match end.and_then(|end| whole.get(..end)) {
                        Some(beginning) => Text::new(&format!("{beginning}…")),
                        None => Text::new(whole),
                    }
                });
        }
        shown
    }

    /// Summary with the first line of [`argument`](Self::argument) in full.
    ///
    /// ```
    /// let call: zk_view::Call = serde_json::from_value(serde_json::json!({
    ///     "call_id": "c", "step": 0, "tool": "shell", "state": "running",
    ///     "summary": "$ cargo test --wor… (in the background)", "argument": "cargo test --workspace\ncargo doc",
    /// }))?;
    /// assert_eq!(call.headline(), "$ cargo test --workspace … (in the background)");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn headline(&self) -> Cow<'_, str> {
        let summary = self.summary.as_str();
        let Some(argument) = &self.argument else { return summary.into() };
        let argument = argument.as_str();
        let first = argument.lines().next().unwrap_or_default();
        let more = if argument.len() > first.len() { " …" } else { "" };
        // The part of the summary before the argument comes from the tool.
        let (before, after) = summary.split_once('…').unwrap_or((summary, ""));
        let begins = before.char_indices().find(|(at, _)| {
            before.get(*at..).is_some_and(|rest| {
                rest == first || (rest.len() >= MIN_MATCH_BYTES && first.starts_with(rest))
            })
        });
        match begins.and_then(|(at, _)| before.get(..at)) {
            Some(words) => format!("{words}{first}{more}{after}").into(),
            None => summary.into(),
        }
    }

    pub(crate) fn add_progress(&mut self, delta: &Text) {
        self.progress.append(delta);
        self.progress.truncate_to_tail(MAX_PROGRESS.0, MAX_PROGRESS.1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_locations_of_a_call_are_listed() {
        let many: Vec<CallLocation> =
            (0..100).map(|n| CallLocation { path: n.to_string().into(), line: None }).collect();
        assert_eq!(location_paths(&many).len(), MAX_LOCATIONS);
        assert_eq!(location_paths(&many).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn a_long_command_is_kept_whole_beside_its_summary() {
        let kept = |command: &str| {
            let args = json!({ "command": command });
            Call::waiting(&ToolCall::new("c", "shell", args), 0).argument.map(|text| text.to_string())
        };
        assert_eq!(kept("ls -la"), None);
        assert_eq!(kept("\none\ntwo\n"), Some("one\ntwo".to_owned()));
        let long = "x".repeat(101);
        assert_eq!(kept(&long), Some(long));
        assert_eq!(kept(&"é".repeat(9000)), Some("é".repeat(4000) + "…"));
    }

    #[test]
    fn a_headline_has_the_first_line_of_a_command_whole() {
        let long = format!("cargo test {}", "word ".repeat(60).trim());
        let headline = |summary: &str, command: &str| {
            let args = json!({ "command": command });
            let mut call = Call::waiting(&ToolCall::new("c", "shell", args), 0);
            call.summary = Text::line(summary);
            call.headline().into_owned()
        };
        assert_eq!(headline(&format!("$ {}…", long.get(..120).unwrap()), &long), format!("$ {long}"));
        assert_eq!(headline("$ one… (detached)", "one\ntwo"), "$ one … (detached)");
        assert_eq!(headline("something else", "one\ntwo"), "something else");
        assert_eq!(headline("", "one\ntwo"), "");
        assert_eq!(headline("$ ls", "ls"), "$ ls");
    }

    #[test]
    fn a_call_has_the_same_name_while_it_waits_and_once_its_tool_says_what_it_does() {
        for (tool, args, summary) in [
            ("shell", json!({ "command": "cargo test" }), "$ cargo test"),
            ("read_file", json!({ "path": "cart.py" }), "read cart.py"),
            ("edit", json!({ "path": "cart.py", "old_string": "a", "new_string": "b" }), "edit cart.py"),
            ("list_files", json!({ "path": "src" }), "list src"),
            ("mcp_box_run", json!({ "command": "ls" }), "mcp_box_run ls"),
        ] {
            let shown = Call::waiting(&ToolCall::new("c", tool, args), 0);
            assert_eq!(shown.summary, Text::line(summary));
        }
    }

    #[test]
    fn a_call_that_never_ran_says_what_it_was() {
        for (args, summary) in [
            (json!({ "background": true, "command": "\nrm -rf x\nmore" }), "$ rm -rf x"),
            (json!({ "path": "src/a.rs" }), "shell src/a.rs"),
            (json!({ "b": 1, "text": "hello" }), "shell hello"),
            (json!({}), "shell"),
            (json!({ "command": "é".repeat(300) }), &format!("$ {}", "é".repeat(200))),
        ] {
            let shown = Call::waiting(&ToolCall::new("c", "shell", args), 0);
            assert_eq!(shown.summary, Text::line(summary));
        }
    }
}
