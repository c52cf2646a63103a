//! Tools under the names and in the shapes of the Agent SDK, in both directions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use zk_core::model::{Block, ToolCall, ToolSpec};
use zk_core::service::Tool;
use zk_hooks::{Vocabulary, claude_arguments, claude_name, zk_name};

/// Name of the tool that takes a structured answer, here and in the SDK.
const OUTPUT: (&str, &str) = ("__output__", "StructuredOutput");

/// Tools of zk that a tool of the SDK replaces, with its name.
const HIDDEN: [(&str, &str); 2] = [("ask_user", "AskUserQuestion"), ("present_plan", "ExitPlanMode")];

/// Tools whose names occur in texts for the model.
const TOLD: [&str; 12] = [
    "shell",
    "read_file",
    "write_file",
    "edit",
    "multi_edit",
    "list_files",
    "glob",
    "grep",
    "fetch",
    "spawn",
    "todo_write",
    "skills_use",
];

/// Maximum number of calls whose original name and arguments are kept.
const MAX_CALLS: usize = 10_000;

/// Argument values with different names: the tool, the SDK's argument, zk's value and the SDK's value.
const VALUES: [(&str, &str, &str, &str); 1] = [("grep", "output_mode", "files", "files_with_matches")];

/// Translation of tool names between zk and the SDK, with the calls as the model wrote them.
#[derive(Default)]
pub(super) struct Names {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The SDK's names of MCP servers' tools, by zk's names.
    servers: HashMap<String, String>,
    /// Argument names of each tool, by zk's name of the tool.
    arguments: HashMap<String, Vec<String>>,
    calls: HashMap<String, (String, Value)>,
}

impl Names {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the SDK's name of an MCP server's tool.
    pub(super) fn learn_server(&self, tool: &dyn Tool) {
        let Some(server) = tool.server() else { return };
        let name = &tool.spec().name;
        let rest = name.strip_prefix(&format!("mcp_{server}_")).unwrap_or(name);
        self.learn(name, &format!("mcp__{server}__{rest}"));
    }

    pub(super) fn learn(&self, zk: &str, outward: &str) {
        self.state().servers.insert(zk.to_owned(), outward.to_owned());
    }

    /// Returns the SDK's name of a tool.
    pub(super) fn to_sdk_name(&self, zk: &str) -> String {
        if zk == OUTPUT.0 {
            return OUTPUT.1.to_owned();
        }
        let known = claude_name(zk).map(str::to_owned).or_else(|| self.state().servers.get(zk).cloned());
        known.unwrap_or_else(|| zk.to_owned())
    }

    /// zk's name of a tool.
    pub(super) fn to_zk_name(&self, outward: &str) -> String {
        if outward == OUTPUT.1 {
            return OUTPUT.0.to_owned();
        }
        if let Some(name) = zk_name(outward) {
            return name.to_owned();
        }
        let state = self.state();
        let found = state.servers.iter().find(|(_, name)| *name == outward);
        found.map_or_else(|| outward.to_owned(), |(name, _)| name.clone())
    }

    /// Converts arguments of a call to the SDK's shape.
    pub(super) fn to_sdk_input(&self, zk: &str, args: &Value) -> Value {
        let mut input = Vocabulary::Claude.args(zk, args);
        change_values(zk, &mut input, |(own, theirs)| (own, theirs));
        input
    }

    /// Converts arguments of a call to zk's shape, without arguments that zk's tool does not take.
    pub(super) fn to_zk_args(&self, zk: &str, input: &Value) -> Value {
        let mut input = input.clone();
        change_values(zk, &mut input, |(own, theirs)| (theirs, own));
        let mut args = Vocabulary::Claude.to_zk(zk, &input);
        let state = self.state();
        if let (Some(fields), Some(known), Some(_)) =
            (args.as_object_mut(), state.arguments.get(zk), claude_name(zk))
        {
            fields.retain(|name, _| known.contains(name));
            // The SDK's general-purpose agent is zk's sub-agent without a definition.
            if zk == "spawn" && fields.get("agent").is_some_and(|agent| agent == "general-purpose") {
                fields.remove("agent");
            }
        }
        args
    }

    /// Returns the tools under the SDK's names, without replaced ones.
    pub(super) fn offered(&self, tools: &[Arc<ToolSpec>]) -> Arc<[Arc<ToolSpec>]> {
        let is_hidden = |spec: &&Arc<ToolSpec>| HIDDEN.iter().any(|(name, _)| *name == spec.name);
        let shown = tools.iter().filter(|spec| !is_hidden(spec));
        shown.map(|spec| self.to_sdk_spec(spec)).collect()
    }

    fn to_sdk_spec(&self, spec: &Arc<ToolSpec>) -> Arc<ToolSpec> {
        let outward = self.to_sdk_name(&spec.name);
        if outward == spec.name {
            return spec.clone();
        }
        let properties = spec.schema.get("properties").and_then(Value::as_object);
        let known = properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
        self.state().arguments.insert(spec.name.clone(), known);
        let mut changed = ToolSpec::clone(spec);
        changed.description = self.with_sdk_names(&spec.description);
        changed.schema = renamed_schema(&spec.name, &spec.schema);
        changed.name = outward;
        Arc::new(changed)
    }

    /// Replaces zk's tool names in a text for the model by the SDK's.
    pub(super) fn with_sdk_names(&self, text: &str) -> String {
        let renamed = TOLD.iter().map(|name| (*name, self.to_sdk_name(name)));
        let replaced = HIDDEN.iter().map(|(name, other)| (*name, (*other).to_owned()));
        renamed.chain(replaced).fold(text.to_owned(), |told, (name, other)| {
            told.replace(&format!("`{name}`"), &format!("`{other}`"))
        })
    }

    /// Converts a model's call to zk's names, and keeps the original for the host.
    pub(super) fn take_call(&self, mut call: ToolCall) -> ToolCall {
        let name = self.to_zk_name(&call.name);
        if name != call.name {
            let args = self.to_zk_args(&name, &call.args);
            let mut state = self.state();
            if state.calls.len() >= MAX_CALLS {
                state.calls.clear();
            }
            state
                .calls
                .insert(call.id.as_str().to_owned(), (call.name, std::mem::replace(&mut call.args, args)));
            call.name = name;
        }
        call
    }

    /// Returns a stored call as the model wrote it; `None` if the names are equal.
    pub(super) fn give_call(&self, call: &ToolCall) -> Option<ToolCall> {
        let (name, args) = self.call(call);
        (name != call.name).then(|| ToolCall { name, args, ..call.clone() })
    }

    /// Returns name and arguments of a call for the host.
    pub(super) fn call(&self, call: &ToolCall) -> (String, Value) {
        self.call_as_made(call.id.as_str())
            .unwrap_or_else(|| (self.to_sdk_name(&call.name), self.to_sdk_input(&call.name, &call.args)))
    }

    /// Returns name and arguments of a call as the model wrote them, if the call was made in this process.
    pub(super) fn call_as_made(&self, id: &str) -> Option<(String, Value)> {
        self.state().calls.get(id).cloned()
    }

    /// Converts a block of a message to the form of the Messages API; `None` if that API has no such block.
    pub(super) fn block(&self, block: &Block) -> Option<Value> {
        Some(match block {
            Block::Text(text) => json!({"type": "text", "text": text.text}),
            Block::Thinking(thinking) => match &thinking.redacted {
                Some(data) => json!({"type": "redacted_thinking", "data": data}),
                None => json!({
                    "type": "thinking",
                    "thinking": thinking.text,
                    "signature": thinking.signature.clone().unwrap_or_default(),
                }),
            },
            Block::ToolCall(call) => {
                let (name, input) = self.call(call);
                json!({"type": "tool_use", "id": call.id, "name": name, "input": input})
            }
            Block::Image(image) => json!({
                "type": "image",
                "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
            }),
            Block::Document(document) => json!({
                "type": "document",
                "source": {"type": "base64", "media_type": document.media_type, "data": document.data},
            }),
            Block::Compaction(compaction) => json!({"type": "text", "text": compaction.summary}),
            Block::ToolResult(result) => json!({
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "content": self.content(&result.content),
                "is_error": result.is_error,
            }),
            Block::Provider(_) => return None,
        })
    }

    /// Converts the content of a result: text to a string, blocks to a list.
    pub(super) fn content(&self, content: &zk_core::model::ToolContent) -> Value {
        match content {
            zk_core::model::ToolContent::Text(text) => text.as_str().into(),
            zk_core::model::ToolContent::Blocks(blocks) => {
                blocks.iter().filter_map(|block| self.block(block)).collect()
            }
        }
    }
}

fn change_values(
    zk: &str,
    input: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    for (tool, argument, own, theirs) in VALUES {
        let (from, to) = direction((own, theirs));
        if tool == zk
            && let Some(value) = input.get_mut(argument).filter(|value| **value == from)
        {
            *value = to.into();
        }
    }
}

/// The schema of a tool's arguments under the SDK's names.
fn renamed_schema(zk: &str, schema: &Value) -> Value {
    let names = claude_arguments(zk);
    let renamed = |name: &str| {
        let found = names.iter().find(|(own, _)| *own == name);
        found.map_or_else(|| name.to_owned(), |(_, theirs)| (*theirs).to_owned())
    };
    let mut schema = schema.clone();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let mut all: Map<String, Value> =
            std::mem::take(properties).into_iter().map(|(name, value)| (renamed(&name), value)).collect();
        if matches!(zk, "shell" | "spawn") {
            let text = json!({"type": "string", "description": "A few words on what it does"});
            all.insert("description".to_owned(), text);
        }
        for (tool, argument, own, theirs) in VALUES {
            let values = all.get_mut(argument).filter(|_| tool == zk).and_then(|value| value.get_mut("enum"));
            if let Some(Value::Array(values)) = values {
                values.iter_mut().filter(|value| **value == own).for_each(|value| *value = theirs.into());
            }
        }
        *properties = all;
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Some(text) = name.as_str() {
                *name = renamed(text).into();
            }
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Arc<ToolSpec> {
        ToolSpec::new(
            "shell",
            "Runs. See `read_file`.",
            json!({"type": "object", "properties": {"command": {"type": "string"}, "timeout_ms": {"type": "integer"}}, "required": ["command"]}),
        )
    }

    #[test]
    fn a_model_is_offered_their_names_and_shapes() {
        let names = Names::default();
        let hidden = ToolSpec::new("ask_user", "", json!({}));
        let offered = names.offered(&[shell(), hidden]);
        assert_eq!(offered.len(), 1);
        assert_eq!(
            (offered[0].name.as_str(), offered[0].description.as_str()),
            ("Bash", "Runs. See `Read`.")
        );
        assert!(offered[0].schema.pointer("/properties/timeout").is_some());
        assert!(offered[0].schema.pointer("/properties/description").is_some());
    }

    #[test]
    fn a_call_is_zks_inside_and_the_models_own_outside() {
        let names = Names::default();
        names.offered(&[shell()]);
        let made = ToolCall::new("c1", "Bash", json!({"command": "ls", "timeout": 5, "description": "list"}));
        let taken = names.take_call(made.clone());
        assert_eq!((taken.name.as_str(), &taken.args), ("shell", &json!({"command": "ls", "timeout_ms": 5})));
        assert_eq!(names.give_call(&taken), Some(made));
        // A call of an earlier process is known by its names alone.
        let earlier = ToolCall::new("c0", "shell", json!({"command": "ls"}));
        assert_eq!(names.call(&earlier), ("Bash".to_owned(), json!({"command": "ls"})));
    }

    #[test]
    fn tools_of_servers_have_two_underscores() {
        let names = Names::default();
        names.learn("mcp_docs_find", "mcp__docs__find");
        assert_eq!(names.to_sdk_name("mcp_docs_find"), "mcp__docs__find");
        assert_eq!(names.to_zk_name("mcp__docs__find"), "mcp_docs_find");
        assert_eq!(
            (names.to_zk_name("Task"), names.to_zk_name("own")),
            ("spawn".to_owned(), "own".to_owned())
        );
    }
}
