//! Formatting of an event as one line with its most important fields.

use serde_json::{Map, Value};

use super::Recorded;

/// Fields that differ from run to run, or that every event repeats.
const LEFT_OUT: &[&str] = &[
    "run_id",
    "turn_id",
    "session_id",
    "request_id",
    "entry_id",
    "elapsed",
    "elapsed_ms",
    "duration_ms",
    "first_token_ms",
    "timestamp",
    "run_tool_counts",
    "tool_counts",
    "limits",
    "turn_usage",
    "origin",
    "schema",
    "wire",
];

const MAX_LINE_CHARS: usize = 72;

pub(super) fn render_transcript(events: &[Recorded]) -> String {
    let mut ids = Ids::default();
    let mut lines: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(event) = events.get(at) {
        let run = 1 + events.iter().skip(at + 1).take_while(|next| is_next_delta(event, next)).count();
        let joined;
        let event = if run > 1 {
            joined = join_deltas(events.iter().skip(at).take(run));
            joined.as_ref().unwrap_or(event)
        } else {
            event
        };
        lines.push(event_line(event, &mut ids));
        at += run;
    }
    lines.join("\n")
}

/// Whether `next` is the next delta of the same stream as `event`.
fn is_next_delta(event: &Recorded, next: &Recorded) -> bool {
    event.name == next.name
        && event.depth == next.depth
        && event.agent == next.agent
        && event.data.get("delta").is_some()
        && event.data.get("call_id") == next.data.get("call_id")
}

fn join_deltas<'a>(events: impl Iterator<Item = &'a Recorded>) -> Option<Recorded> {
    let mut joined: Option<Recorded> = None;
    let mut text = String::new();
    for event in events {
        text.push_str(event.data.get("delta").and_then(Value::as_str).unwrap_or_default());
        joined.get_or_insert_with(|| event.clone());
    }
    let mut joined = joined?;
    if let Some(delta) = joined.data.get_mut("delta") {
        *delta = Value::String(text);
    }
    Some(joined)
}

fn event_line(event: &Recorded, ids: &mut Ids) -> String {
    let mut out = "  ".repeat(event.depth as usize);
    if event.depth > 0 {
        out.push_str(&format!("[{}] ", event.agent));
    }
    out.push_str(event.name);
    let told = match &event.data {
        Value::Object(fields) => fields_of(fields, ids),
        other => value(other, ids),
    };
    if !told.is_empty() {
        out.push_str("  ");
        out.push_str(&told);
    }
    out
}

fn fields_of(fields: &Map<String, Value>, ids: &mut Ids) -> String {
    let mut parts = Vec::new();
    // The call comes first in the line.
    if let Some(Value::Object(call)) = fields.get("call") {
        parts.push(call_name(call, ids));
    }
    for (key, field) in fields {
        if key == "call" || LEFT_OUT.contains(&key.as_str()) || is_empty_value(field) {
            continue;
        }
        match (key.as_str(), field) {
            ("call_id", Value::String(id)) => parts.push(ids.short_id(id)),
            (_, Value::Bool(true)) => parts.push(key.clone()),
            _ => parts.push(format!("{key}={}", value(field, ids))),
        }
    }
    parts.join(" ")
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            fields.iter().all(|(key, field)| LEFT_OUT.contains(&key.as_str()) || is_empty_value(field))
        }
        Value::Bool(true) => false,
    }
}

fn call_name(call: &Map<String, Value>, ids: &mut Ids) -> String {
    let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, shown) = (text("name"), text("display_name"));
    let id = ids.short_id(text("call_id"));
    if shown.is_empty() || shown == name { format!("{name}{id}") } else { format!("{name}{id} as {shown}") }
}

fn value(value: &Value, ids: &mut Ids) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| self::value(item, ids)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => object(fields, ids),
    }
}

fn object(fields: &Map<String, Value>, ids: &mut Ids) -> String {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    if let (Some(role), Some(Value::Array(blocks))) = (text("role"), fields.get("content")) {
        let blocks: Vec<String> = blocks.iter().map(|block| value(block, ids)).collect();
        return format!("{role}({})", blocks.join(", "));
    }
    if let (Some(provider), Some(model), 2) = (text("provider"), text("model"), fields.len()) {
        return format!("{provider}/{model}");
    }
    match text("type") {
        Some("text") => return quoted(text("text").unwrap_or_default()),
        Some("thinking") => return format!("thinking {}", quoted(text("text").unwrap_or_default())),
        Some("tool_call") => {
            let args = fields.get("args").map(ToString::to_string).unwrap_or_default();
            let id = ids.short_id(text("id").unwrap_or_default());
            return format!("{}{id} {}", text("name").unwrap_or_default(), shortened(&args));
        }
        Some("tool_result") => {
            let id = ids.short_id(text("call_id").unwrap_or_default());
            let content = fields.get("content").map(|content| value(content, ids)).unwrap_or_default();
            let failed = fields.get("is_error") == Some(&Value::Bool(true));
            return format!("result{id}{} {content}", if failed { " error" } else { "" });
        }
        Some(_) | None => {}
    }
    format!("{{{}}}", fields_of(fields, ids))
}

fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// Short names of ids, in order of appearance.
#[derive(Default)]
struct Ids {
    seen: Vec<String>,
}

impl Ids {
    fn short_id(&mut self, id: &str) -> String {
        if id.is_empty() {
            return String::new();
        }
        let at = self.seen.iter().position(|seen| seen == id).unwrap_or_else(|| {
            self.seen.push(id.to_owned());
            self.seen.len() - 1
        });
        format!("#{}", at + 1)
    }
}
