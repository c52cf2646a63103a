use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use zk_agent::Agent;
use zk_core::events::{SessionLoaded, SessionSwitch, ToolAfter, ToolEnd, ToolProgress, ToolResultsAfter};
use zk_core::kernel::{AnyEvent, Cx};
use zk_core::model::{Display, SessionId};
use zk_core::service::{Redactor, Tool};
use zk_view::{escape_controls, redact_json};

#[cfg(test)]
mod tests;

/// Version of the line protocol, in its first line. It changes when a reader of the old one would break.
const PROTOCOL_VERSION: u32 = 1;

/// Events that are not printed, since they repeat the history, the system prompt or other events.
const LEFT_OUT: [&str; 7] = [
    "agent:before-start",
    "context:transform",
    "message:end",
    "provider:payload",
    "system:before",
    "system:transform",
    "tool:transform",
];

/// Returns the first line of a run: the session and the agent of it, and the `version` of the program.
#[must_use]
pub fn first_line(agent: &Agent, session: Option<&SessionId>, cwd: &Path, version: &str) -> Value {
    let tools: Vec<String> =
        agent.bus().items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect();
    json!({
        "type": "system",
        "subtype": "init",
        "protocol": PROTOCOL_VERSION,
        "session_id": session,
        "model": agent.model().reference(),
        "tools": tools,
        "cwd": cwd,
        "version": version,
    })
}

/// Appends the event as one line: `{"type":NAME, …its data}`, with `agent` and `depth` before the data when a
/// sub-agent emitted it.
pub fn write_event(event: &dyn AnyEvent, cx: &Cx, redactor: &Redactor, out: &mut Vec<u8>) {
    let name = event.name();
    if LEFT_OUT.contains(&name) {
        return;
    }
    let begin = out.len();
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    let origin = cx.origin();
    let mut written = Ok(());
    if origin.depth > 0 {
        out.extend_from_slice(b",\"agent\":");
        written = serde_json::to_writer(&mut *out, &*origin.agent).map_err(std::io::Error::from);
        written = written.and_then(|()| write!(out, ",\"depth\":{}", origin.depth));
    }
    let data = out.len();
    let written = written.and_then(|()| write_data(event, out).map_err(std::io::Error::from));
    if written.is_err() {
        // The event is dropped as a whole, since half a line would break the reader.
        out.truncate(begin);
        return;
    }
    match out.get(data..) {
        Some(b"{}") => out.truncate(data),
        Some([b'{', ..]) => {
            if let Some(brace) = out.get_mut(data) {
                *brace = b',';
            }
            out.pop();
        }
        Some(_) | None => {
            let value = out.split_off(data);
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(&value);
        }
    }
    out.push(b'}');
    redact_json(out, begin, redactor);
    escape_controls(out, begin);
    out.push(b'\n');
}

/// Appends a value as one line, without secrets and without what a terminal would act on.
pub fn write_value(value: &impl Serialize, redactor: &Redactor, out: &mut Vec<u8>) {
    let begin = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Half a line would break the reader.
        return out.truncate(begin);
    }
    redact_json(out, begin, redactor);
    escape_controls(out, begin);
    out.push(b'\n');
}

/// Appends the event's data. Tool output is left out here, since `tool:after` has it as the model gets it.
fn write_data(event: &dyn AnyEvent, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let any = event.as_any();
    if let Some(ToolProgress { call, text }) = any.downcast_ref() {
        return serde_json::to_writer(out, &json!({ "call": call, "bytes": text.len() }));
    }
    // Entries of the stored conversation are left out.
    if let Some(SessionLoaded { session_id, entries }) = any.downcast_ref() {
        return serde_json::to_writer(out, &json!({ "session_id": session_id, "entries": entries.len() }));
    }
    if let Some(SessionSwitch { from, to, entries }) = any.downcast_ref() {
        return serde_json::to_writer(out, &json!({ "from": from, "to": to, "entries": entries.len() }));
    }
    if let Some(ToolEnd { run_id, call, summary, read_only, elapsed_ms, .. }) = any.downcast_ref() {
        let data = json!({
            "run_id": run_id, "call": call, "summary": summary, "read_only": read_only, "elapsed_ms": elapsed_ms
        });
        return serde_json::to_writer(out, &data);
    }
    if let Some(after) = any.downcast_ref::<ToolAfter>()
        && let Some(display) = &after.display
    {
        let display = match display {
            Display::Lines { .. } => None,
            Display::Command { total_lines, exit, .. } => {
                Some(Display::Command { lines: Vec::new(), total_lines: *total_lines, exit: *exit })
            }
            Display::Line { .. }
            | Display::Diff { .. }
            | Display::Table { .. }
            | Display::Markdown { .. }
            | Display::Checklist { .. } => Some(display.clone()),
        };
        return serde_json::to_writer(out, &ToolAfter { display, ..after.clone() });
    }
    if let Some(ToolResultsAfter { run_id, turn_id, results, usage, .. }) = any.downcast_ref() {
        let ids: Vec<Value> = results.results().map(|result| json!(result.call_id)).collect();
        let data = json!({ "run_id": run_id, "turn_id": turn_id, "call_ids": ids, "usage": usage });
        return serde_json::to_writer(out, &data);
    }
    event.write_json(out)
}
