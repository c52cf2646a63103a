//! From the text of a call's arguments to the call: parsed, lexically repaired, or marked as malformed. What
//! is missing at the end of a text is never guessed.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use zk_core::model::ToolCall;

/// Parses the raw text of a call's arguments: JSON is repaired where that is safe, and what is no object is kept in
/// [`ToolCall::malformed`]. `cut` says that the response ended before the call did, as far as that is known.
#[must_use]
pub fn tool_call(id: String, name: String, raw: &str, cut: bool) -> ToolCall {
    let mut call = ToolCall::new(id, name, Value::Object(Map::new()));
    if raw.trim().is_empty() {
        // A call without arguments sends no text; a call that was cut before its arguments sends none either.
        call.malformed = cut.then(String::new);
        return call;
    }
    match parse(raw) {
        Some(args) => call.args = Value::Object(args),
        None => call.malformed = Some(raw.to_owned()),
    }
    call
}

/// Whether a call has no arguments, so that it looks like one that was cut before them.
pub(crate) fn is_bare(call: &ToolCall) -> bool {
    call.malformed.is_none() && call.args.as_object().is_none_or(Map::is_empty)
}

/// The JSON object `raw` stands for, if it is complete.
pub(crate) fn parse(raw: &str) -> Option<Map<String, Value>> {
    let parsed = serde_json::from_str(raw).or_else(|error| match repair(raw) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    });
    match parsed.ok()? {
        Value::Object(args) => Some(args),
        // Some models encode the object twice.
        Value::String(inner) => serde_json::from_str(&inner).ok(),
        // `null` for "none" is what some servers send for calls without arguments.
        Value::Null => Some(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// `raw` with illegal escapes and raw control characters inside its strings made legal; nothing if there are
/// none. Structure is never touched.
fn repair(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len() + 8);
    let mut in_string = false;
    let mut changed = false;
    let mut chars = raw.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                let next = chars.peek().map(|(_, next)| *next);
                if legal_escape(raw.get(at + 1..).unwrap_or_default()) {
                    out.push(char);
                    // The escaped character must not be read as the end of the string.
                    if let Some(next) = next {
                        chars.next();
                        out.push(next);
                    }
                } else {
                    out.push_str("\\\\");
                    changed = true;
                }
                continue;
            }
            control if in_string && u32::from(control) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
                changed = true;
                continue;
            }
            _ => {}
        }
        out.push(char);
    }
    changed.then_some(out)
}

fn legal_escape(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => true,
        Some('u') => {
            let digits = after.get(1..5).unwrap_or_default();
            digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        Some(_) | None => false,
    }
}
