//! Parses the text of a call's arguments: repairs lexical errors, or marks the call as malformed. Missing
//! text at the end is never guessed.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use zk_core::model::ToolCall;

/// Creates a call from the raw text of its arguments. JSON is repaired if that is safe; text that is no
/// object is stored in [`ToolCall::malformed`]. `cut` says that the response is known to have ended before
/// the call did.
#[must_use]
pub fn tool_call(id: String, name: String, raw: &str, cut: bool) -> ToolCall {
    let mut call = ToolCall::new(id, name, Value::Object(Map::new()));
    if raw.trim().is_empty() {
        // A call without arguments has no text, and neither has a call that was cut before them.
        call.malformed = cut.then(String::new);
        return call;
    }
    match parse(raw) {
        Some(args) => call.args = Value::Object(args),
        None => call.malformed = Some(raw.to_owned()),
    }
    call
}

/// Whether a call has no arguments, so that it may have been cut before them.
pub(crate) fn is_bare(call: &ToolCall) -> bool {
    call.malformed.is_none() && call.args.as_object().is_none_or(Map::is_empty)
}

/// Parses `raw` as a complete JSON object.
pub(crate) fn parse(raw: &str) -> Option<Map<String, Value>> {
    let parsed = serde_json::from_str(raw).or_else(|error| match repair(raw) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    });
    match parsed.ok()? {
        Value::Object(args) => Some(args),
        // Some models encode the object twice.
        Value::String(inner) => serde_json::from_str(&inner).ok(),
        // Some servers send `null` for calls without arguments.
        Value::Null => Some(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// Returns `raw` with invalid escapes and control characters in its strings repaired; `None` if there are
/// none. The structure is never changed.
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
                    // Skipped so that the escaped character is not read as the end of the string.
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
