use std::path::PathBuf;

use serde_json::{Map, Value, json};
use zk_core::model::wire::NO_OUTPUT;
use zk_core::model::{CallKind, CommandExit, Display, Effect, Effects, ToolError, ToolOutput, UnifiedDiff};
use zk_core::service::shell_word;

use super::protocol::{StepUpdate, text_of};

/// Maximum size of a step's text in bytes; the rest is dropped.
const MAX_STEP_BYTES: usize = 256 << 10;

/// Shells whose last argument is the command. For other programs the whole line is the command.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "/bin/sh", "/bin/bash", "/bin/dash", "/bin/zsh"];

/// Maximum size of both texts of a diff in bytes; larger ones are not shown.
const MAX_DIFF_BYTES: usize = 2 << 20;

/// Prefix of the tools that represent steps of agents.
const STEP_PREFIX: &str = "agent_";

/// Kinds of steps, each with a tool of its own.
pub(crate) const STEP_KINDS: [CallKind; 7] = [
    CallKind::Read,
    CallKind::Search,
    CallKind::Edit,
    CallKind::Execute,
    CallKind::Fetch,
    CallKind::Plan,
    CallKind::Other,
];

/// Returns the name of the tool that represents steps of a kind.
pub(crate) fn step_tool(kind: CallKind) -> String {
    format!("{STEP_PREFIX}{}", kind.name())
}

/// Step: a tool call that the agent carries out itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    title: String,
    kind: String,
    status: String,
    content: Vec<Value>,
    paths: Vec<PathBuf>,
    input: Value,
    output: Value,
}

impl Step {
    pub(crate) fn update(&mut self, update: StepUpdate) {
        let StepUpdate { tool_call_id: _, title, kind, status, content, locations, raw_input, raw_output } =
            update;
        if let Some(title) = title {
            self.title = title;
        }
        if let Some(kind) = kind {
            self.kind = kind;
        }
        if let Some(status) = status {
            self.status = status;
        }
        if let Some(content) = content {
            self.content = content;
        }
        if let Some(locations) = locations {
            self.paths = locations.into_iter().map(|location| location.path).collect();
        }
        if let Some(input) = raw_input {
            self.input = input;
        }
        if let Some(output) = raw_output {
            self.output = output;
        }
    }

    /// Marks an unfinished step as failed, since the agent reports nothing more about it.
    pub(crate) fn fail_if_unfinished(&mut self, why: &str) {
        if !self.is_over() {
            "failed".clone_into(&mut self.status);
            self.content.push(json!({ "type": "content", "content": { "type": "text", "text": why } }));
        }
    }

    /// Whether only the title is known. An agent may announce a call before its model has written the
    /// arguments.
    pub(crate) fn has_only_title(&self) -> bool {
        let has_begun = !matches!(self.status.as_str(), "" | "pending");
        !has_begun && self.input.is_null() && self.content.is_empty() && self.paths.is_empty()
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed")
    }

    pub(crate) fn kind(&self) -> CallKind {
        match self.kind.as_str() {
            "read" => CallKind::Read,
            "search" => CallKind::Search,
            "edit" | "delete" | "move" => CallKind::Edit,
            "execute" => CallKind::Execute,
            "fetch" => CallKind::Fetch,
            _ => CallKind::Other,
        }
    }

    /// Returns the command that the step runs, if the agent names it.
    fn command(&self) -> Option<String> {
        match self.input.get("command")? {
            Value::String(command) => Some(command.clone()),
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                // In `bash -lc COMMAND`, the last argument is the command.
                match words.as_slice() {
                    [shell, "-c" | "-lc", command] if SHELLS.contains(shell) => Some((*command).to_owned()),
                    words => Some(words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")),
                }
            }
            _ => None,
        }
    }

    /// Returns the paths of the step, including those of its diffs.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = self.paths.clone();
        for diff in self.diffs() {
            let path = PathBuf::from(diff.path);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    fn title(&self) -> &str {
        let title = self.title.trim().trim_matches('`');
        if title.is_empty() { "a step of its own" } else { title }
    }

    /// Returns the arguments of the call that represents the step.
    pub(crate) fn args(&self, id: &str) -> Value {
        let mut args = Map::new();
        args.insert("step".to_owned(), id.into());
        args.insert("title".to_owned(), self.title().into());
        if let Some(command) = self.command().filter(|_| self.kind() == CallKind::Execute) {
            args.insert("command".to_owned(), command.into());
        }
        let paths: Vec<Value> = self.paths().iter().map(|path| path.display().to_string().into()).collect();
        if !paths.is_empty() {
            args.insert("paths".to_owned(), paths.into());
        }
        Value::Object(args)
    }

    /// Returns the text of the step, up to a maximum size.
    pub(crate) fn text(&self) -> String {
        let block = |content: &Value| match content.get("type").and_then(Value::as_str) {
            Some("content") => content.get("content").map(text_of).filter(|text| !self.is_own_command(text)),
            _ => None,
        };
        let block = |content: &Value| block(content).map(unfenced);
        let mut text = self.content.iter().filter_map(block).collect::<Vec<_>>().join("\n");
        if text.is_empty() && self.diffs().next().is_none() {
            text = output_text(&self.output);
        }
        let end = text.floor_char_boundary(MAX_STEP_BYTES);
        if end < text.len() {
            text.truncate(end);
            text.push_str("\n[cut]");
        }
        text
    }

    /// Whether a text of the step only repeats its command, which is in the title already.
    fn is_own_command(&self, text: &str) -> bool {
        let text = unfenced(text.to_owned());
        let title = self.title();
        self.kind() == CallKind::Execute
            && !text.is_empty()
            && text == title.strip_prefix("$ ").unwrap_or(title)
    }

    /// Returns the result of an ended step.
    pub(crate) fn result(&self) -> Result<ToolOutput, ToolError> {
        let text = self.text();
        let is_silent = text.trim().is_empty();
        if is_silent && self.kind() == CallKind::Execute && self.status != "failed" {
            let exit = CommandExit::Code { code: 0 };
            let silent = Display::Command { lines: Vec::new(), total_lines: 0, exit };
            return Ok(ToolOutput::text(NO_OUTPUT).with_display(silent));
        }
        let text = if is_silent { self.title().to_owned() } else { text };
        if self.status == "failed" {
            return Err(ToolError::failed(text));
        }
        let output = ToolOutput::text(text);
        Ok(match self.diff() {
            Some(diff) => output.with_display(diff),
            None => output,
        })
    }

    fn diffs(&self) -> impl Iterator<Item = Diff<'_>> {
        self.content.iter().filter_map(Diff::of)
    }

    /// Returns the diffs of all files that the step changes.
    pub(crate) fn diff(&self) -> Option<Display> {
        let mut diffs = self.diffs();
        let first = diffs.next()?;
        let mut path = first.path.to_owned();
        let mut diff = first.unified()?;
        let mut more = 0;
        for other in diffs {
            diff.push_str(&other.unified()?);
            more += 1;
        }
        if more > 0 {
            path.push_str(&format!(" and {more} more"));
        }
        Some(Display::Diff { path, diff })
    }

    /// Preview for the person who is asked about the step.
    pub(crate) fn preview(&self) -> Option<Display> {
        self.diff().or_else(|| {
            let text = self.text();
            let lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
            (!text.trim().is_empty()).then_some(Display::Lines { lines })
        })
    }

    /// Returns zk's equivalent tool and the effects of the step, for rules and the permission judge. A
    /// command of an agent `outside` of the sandbox leaves the sandbox.
    pub(crate) fn effects(&self, agent: &str, outside: bool) -> (String, Effects) {
        let paths = self.paths();
        match self.kind() {
            CallKind::Read if !paths.is_empty() => ("read_file".to_owned(), Effects::reads(paths)),
            CallKind::Edit if !paths.is_empty() => ("edit".to_owned(), Effects::writes(paths)),
            CallKind::Execute => {
                let Some(command) = self.command() else { return (self.step_tool_name(), Effects::Unknown) };
                let mut list = vec![Effect::Executes { command: Some(command), argv: Vec::new() }];
                if outside {
                    let reason = format!("{agent} runs without a sandbox");
                    list.push(Effect::LeavesContext { reason });
                }
                ("shell".to_owned(), Effects::Known { list })
            }
            CallKind::Fetch => {
                let host = self.input.get("url").and_then(Value::as_str).and_then(host_of);
                match host {
                    Some(host) => ("fetch".to_owned(), Effects::one(Effect::Network { hosts: vec![host] })),
                    None => (self.step_tool_name(), Effects::Unknown),
                }
            }
            _ => (self.step_tool_name(), Effects::Unknown),
        }
    }

    fn step_tool_name(&self) -> String {
        step_tool(self.kind())
    }

    /// Returns the arguments that a person is shown when asked about the step.
    pub(crate) fn args_for_question(&self, agent: &str) -> Value {
        let mut args = Map::new();
        args.insert("agent".to_owned(), agent.into());
        match (self.kind(), self.command()) {
            (CallKind::Execute, Some(command)) => {
                args.insert("command".to_owned(), command.into());
                if let Some(cwd) = self.input.get("cwd").or_else(|| self.input.get("workdir")) {
                    args.insert("cwd".to_owned(), cwd.clone());
                }
            }
            // A permanent approval applies only to these texts.
            (CallKind::Edit, _) if self.diff().is_some() => {
                let edits =
                    self.diffs().map(|diff| json!({ "path": diff.path, "old": diff.old, "new": diff.new }));
                args.insert("edits".to_owned(), edits.collect());
            }
            _ => {
                args.insert("title".to_owned(), self.title().into());
                if !self.input.is_null() {
                    args.insert("input".to_owned(), self.input.clone());
                }
            }
        }
        Value::Object(args)
    }
}

/// Texts of a file before and after a step.
struct Diff<'a> {
    path: &'a str,
    old: &'a str,
    new: &'a str,
}

impl<'a> Diff<'a> {
    fn of(content: &'a Value) -> Option<Self> {
        let text = |name: &str| content.get(name).and_then(Value::as_str);
        (text("type") == Some("diff")).then_some(())?;
        Some(Self { path: text("path")?, old: text("oldText").unwrap_or_default(), new: text("newText")? })
    }

    /// Returns the unified diff; `None` if the texts are too long.
    fn unified(&self) -> Option<String> {
        if self.old.len() + self.new.len() > MAX_DIFF_BYTES {
            return None;
        }
        Some(UnifiedDiff::new(self.old, self.new).named(self.path, self.path).to_string())
    }
}

fn output_text(output: &Value) -> String {
    match output {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => {
            let named =
                ["output", "stdout", "text", "content"].iter().find_map(|name| other.get(name)?.as_str());
            named.map_or_else(|| format!("{other:#}"), ToOwned::to_owned)
        }
    }
}

/// Removes a Markdown fence around the whole text.
fn unfenced(text: String) -> String {
    let inner = || {
        let (fence, rest) = text.trim().split_once('\n')?;
        let ticks = fence.len() - fence.trim_start_matches('`').len();
        let inner = rest.strip_suffix(fence.get(..ticks).filter(|_| ticks > 2)?)?;
        // With another fence inside, the outer ones do not belong together.
        (!inner.contains("\n```")).then(|| inner.trim_end_matches('\n').to_owned())
    };
    inner().unwrap_or(text)
}

/// Returns the host of an address; `None` if it contains a user name.
fn host_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && !host.contains('@')).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(update: Value) -> Step {
        let mut step = Step::default();
        step.update(serde_json::from_value(update).unwrap());
        step
    }

    #[test]
    fn a_text_is_shown_without_its_fence_and_without_the_command_of_the_title() {
        let part = |text: &str| json!({ "type": "content", "content": { "type": "text", "text": text } });
        let content = vec![part("```sh\nls\n```"), part("```console\na\nb\n```")];
        let title = json!({ "toolCallId": "x", "title": "$ ls", "kind": "execute", "content": content });
        assert_eq!(step(title).text(), "a\nb");
        for whole in ["plain", "```\na\n```\nand\n```\nb\n```", "```\nopen", ""] {
            assert_eq!(unfenced(whole.to_owned()), whole);
        }
    }

    #[test]
    fn a_command_is_judged_as_the_shell_gets_it() {
        for (command, seen) in [
            (json!("ls -la"), "ls -la"),
            (json!(["bash", "-lc", "rm -rf x"]), "rm -rf x"),
            (json!(["git", "commit", "-m", "it's; rm x"]), r"git commit -m 'it'\''s; rm x'"),
        ] {
            let step = step(json!({"toolCallId": "1", "kind": "execute", "rawInput": {"command": command}}));
            let (tool, effects) = step.effects("codex", false);
            assert_eq!((tool.as_str(), effects), ("shell", Effects::executes(seen)));
            assert!(step.effects("codex", true).1.leaves_context());
        }
        let unknown = step(json!({"toolCallId": "1", "kind": "execute", "title": "run it"}));
        assert_eq!(unknown.effects("codex", false), ("agent_execute".to_owned(), Effects::Unknown));
    }

    #[test]
    fn an_edit_names_its_files_and_shows_its_diff() {
        let step = step(json!({"toolCallId": "1", "kind": "edit", "status": "completed", "content": [
            {"type": "diff", "path": "/p/a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n"},
        ]}));
        assert_eq!(step.effects("codex", false), ("edit".to_owned(), Effects::writes(["/p/a.txt"])));
        let Some(Display::Diff { path, diff }) = step.diff() else { panic!() };
        assert_eq!(path, "/p/a.txt");
        assert!(diff.contains("@@ -1,2 +1,2 @@") && diff.contains("-two\n+2\n"), "{diff}");
        assert!(step.result().unwrap().display.is_some());
    }

    #[test]
    fn addresses_with_a_user_name_have_no_known_host() {
        assert_eq!(host_of("https://docs.rs/x?y").as_deref(), Some("docs.rs"));
        assert_eq!(host_of("https://docs.rs@evil/x"), None);
        assert_eq!(host_of("file:///etc"), None);
    }

    #[test]
    fn long_texts_are_cut_and_failures_say_why() {
        let text = "é".repeat(MAX_STEP_BYTES);
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let long = step(json!({"toolCallId": "1", "status": "failed", "content": content}));
        let error = long.result().unwrap_err();
        assert!(error.message.len() < MAX_STEP_BYTES + 20 && error.message.ends_with("[cut]"));
        let mut open = step(json!({"toolCallId": "1", "status": "in_progress"}));
        open.fail_if_unfinished("the agent ended");
        assert_eq!(open.result().unwrap_err().message, "the agent ended");
    }
}
