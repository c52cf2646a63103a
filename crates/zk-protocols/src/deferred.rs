//! Protocol `deferred`: core tools with their schemas, all others behind one more tool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::{Block, CallId, ToolCall, ToolSpec, WireReady};
use zk_core::service::StreamEvent;

use crate::rewrite::RewriteAnswer;
use crate::signature::signature;

/// Name of the tool that calls others.
pub(crate) const CALL_TOOL: &str = "call_tool";

/// Returns the tool that calls `others` by name.
pub(crate) fn call_tool(others: &[Arc<ToolSpec>]) -> Arc<ToolSpec> {
    let names: Vec<&str> = others.iter().map(|tool| tool.name.as_str()).collect();
    let list: Vec<String> = others.iter().map(|tool| format!("- {}", signature(tool))).collect();
    let description = format!(
        "Calls one of these tools by name. Wrong arguments are answered with what the tool asks for.\n{}",
        list.join("\n")
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": names, "description": "Name of the tool"},
            "arguments": {"type": "object", "description": "Arguments of the tool, by name"},
        },
        "required": ["name", "arguments"],
    });
    ToolSpec::new(CALL_TOOL, description, schema)
}

/// Returns the history with calls of tools that the request does not offer in the form in which the model made them.
pub(crate) fn wrapped_calls(history: &WireReady, offered: &BTreeSet<String>) -> WireReady {
    history.with_calls(|call| {
        (call.name != CALL_TOOL && !offered.contains(&call.name)).then(|| ToolCall {
            name: CALL_TOOL.to_owned(),
            args: json!({"name": call.name, "arguments": call.args}),
            ..call.clone()
        })
    })
}

/// Stream rewriter that unwraps `call_tool` calls into calls of the real tools.
#[derive(Default)]
pub(crate) struct DeferredAnswer {
    /// Calls of [`CALL_TOOL`] that have begun, with their ids, by block.
    begun: BTreeMap<u32, CallId>,
}

impl RewriteAnswer for DeferredAnswer {
    fn push(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        match event {
            StreamEvent::ToolCall { block, id, name } if name == CALL_TOOL => {
                self.begun.insert(block, id);
            }
            // The real tool is known once the arguments are complete.
            StreamEvent::ToolArgs { block, .. } if self.begun.contains_key(&block) => {}
            StreamEvent::Block { block, content: Block::ToolCall(call) } if call.name == CALL_TOOL => {
                self.begun.remove(&block);
                let call = unwrapped(call);
                let delta = call.malformed.clone().unwrap_or_else(|| call.args.to_string());
                out.push(StreamEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() });
                out.push(StreamEvent::ToolArgs { block, delta });
                out.push(StreamEvent::Block { block, content: Block::ToolCall(call) });
            }
            StreamEvent::Retry(notice) => {
                self.begun.clear();
                out.push(StreamEvent::Retry(notice));
            }
            StreamEvent::Done { stop, usage } => {
                // A call without its end was cut.
                for (block, id) in std::mem::take(&mut self.begun) {
                    let call = ToolCall::new(id, CALL_TOOL, json!({}));
                    let call = ToolCall { malformed: Some(String::new()), ..call };
                    out.push(StreamEvent::Block { block, content: Block::ToolCall(call) });
                }
                out.push(StreamEvent::Done { stop, usage });
            }
            other => out.push(other),
        }
    }

    fn break_off(&mut self, _: &mut Vec<StreamEvent>) {}
}

/// Returns the call of the real tool; a call that names none stays as it is.
fn unwrapped(mut call: ToolCall) -> ToolCall {
    let Some(name) = call.args.get("name").and_then(Value::as_str).map(str::to_owned) else { return call };
    if call.malformed.is_some() || name == CALL_TOOL {
        return call;
    }
    let arguments = match call.args.get_mut("arguments").map(Value::take) {
        // Some models write the arguments as JSON text.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            Ok(_) | Err(_) => Value::String(text),
        },
        Some(Value::Null) | None => Map::new().into(),
        Some(other) => other,
    };
    ToolCall { name, args: arguments, ..call }
}
