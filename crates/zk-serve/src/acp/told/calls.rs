use std::path::Path;

use serde_json::{Map, Value, json};
use zk_core::model::CallKind;
use zk_view::{Block, Body, Call, CallState, Form, Text};

use super::diff;

/// A tool call as an editor shows it: all its fields.
pub(in crate::acp) fn fields(block: &Block, call: &Call, cwd: &Path) -> Map<String, Value> {
    let mut title = call.headline().into_owned();
    if let Some(agent) = &block.agent {
        title = format!("{}: {title}", agent.name.as_str());
    }
    let all = json!({
        "toolCallId": block.id.as_str(),
        "name": call.tool.as_str(),
        "title": title,
        "kind": kind(call.kind),
        "status": status(call.state),
        "content": content(call, cwd),
        "locations": locations(call, cwd),
    });
    match all {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the changed fields with the call's id; `None` if nothing changed.
pub(in crate::acp) fn changes(
    before: &Map<String, Value>,
    now: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let changed = |(name, value): &(&String, &Value)| before.get(*name) != Some(*value);
    let mut changes: Map<String, Value> =
        now.iter().filter(changed).map(|(name, value)| (name.clone(), value.clone())).collect();
    if changes.is_empty() {
        return None;
    }
    changes.insert("toolCallId".into(), now.get("toolCallId").cloned().unwrap_or_default());
    Some(changes)
}

/// Returns the absolute path, which the protocol requires.
pub(in crate::acp) fn absolute(path: &str, cwd: &Path) -> String {
    cwd.join(path).display().to_string()
}

/// Returns a text as content of a tool call.
pub(in crate::acp) fn text_part(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns a text in a Markdown code fence that the text does not close.
pub(in crate::acp) fn fenced(text: &str, language: &str) -> String {
    let mut longest = 2;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn kind(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Read => "read",
        CallKind::Search => "search",
        CallKind::Edit => "edit",
        CallKind::Execute => "execute",
        CallKind::Fetch => "fetch",
        CallKind::Plan | CallKind::Delegate => "think",
        CallKind::Ask | CallKind::Other => "other",
    }
}

fn status(state: CallState) -> &'static str {
    match state {
        CallState::Writing | CallState::Waiting => "pending",
        CallState::Running => "in_progress",
        CallState::Done => "completed",
        CallState::Failed
        | CallState::Refused
        | CallState::Skipped
        | CallState::Parked
        | CallState::Invalid
        | CallState::Unknown
        | CallState::OutcomeUnknown
        | CallState::NotRun => "failed",
    }
}

fn locations(call: &Call, cwd: &Path) -> Vec<Value> {
    let at = |(index, path): (usize, &Text)| {
        let mut place = json!({ "path": absolute(path.as_str(), cwd) });
        if let (0, Some(line), Some(place)) = (index, call.line, place.as_object_mut()) {
            place.insert("line".into(), line.into());
        }
        place
    };
    call.locations.iter().enumerate().map(at).collect()
}

fn content(call: &Call, cwd: &Path) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(argument) = call.argument.as_ref().filter(|_| call.kind == CallKind::Execute) {
        parts.push(text_part(&fenced(argument.as_str(), "sh")));
    }
    if !call.progress.is_empty() {
        parts.push(text_part(&fenced(call.progress.as_str(), "console")));
    }
    let remarks = call.reason.iter().chain(&call.remarks).map(|remark| text_part(remark.as_str()));
    parts.extend(remarks);
    parts.extend(call.body.iter().flat_map(|body| body_parts(body, cwd)));
    parts
}

fn body_parts(body: &Body, cwd: &Path) -> Vec<Value> {
    let lines = || body.lines.iter().map(Text::as_str).collect::<Vec<_>>().join("\n");
    let mut parts = match &body.form {
        Form::Line | Form::Checklist { .. } => vec![text_part(&lines())],
        Form::Markdown { outcome } if body.lines.is_empty() => vec![text_part(outcome.as_str())],
        Form::Markdown { .. } => vec![text_part(&lines())],
        Form::Lines | Form::Table if body.lines.is_empty() => Vec::new(),
        Form::Lines | Form::Table => vec![text_part(&fenced(&lines(), ""))],
        Form::Command { exit } => vec![text_part(&format!("{}\n{exit}", fenced(&lines(), "console")))],
        Form::Diff { path, .. } => {
            diff::parts(&absolute(path.as_str(), cwd), body.lines.iter().map(Text::as_str))
        }
    };
    if body.expandable {
        let shown = u64::try_from(body.lines.len()).unwrap_or(u64::MAX);
        parts.push(text_part(&format!("{shown} of {} lines", body.total_lines.max(shown))));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_every_one_inside() {
        assert_eq!(fenced("a\n", "sh"), "```sh\na\n```");
        assert_eq!(fenced("````", ""), "`````\n````\n`````");
    }

    #[test]
    fn only_changed_fields_of_a_call_are_sent_again() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let before = map(json!({ "toolCallId": "b1", "title": "shell", "status": "pending" }));
        let now = map(json!({ "toolCallId": "b1", "title": "shell", "status": "completed" }));
        assert_eq!(changes(&before, &before), None);
        assert_eq!(changes(&before, &now), Some(map(json!({ "toolCallId": "b1", "status": "completed" }))));
    }
}
