//! Rules for one item of the input.

use serde_json::Value;
use zk_core::model::IdRule;

use super::super::{Checked, Rule, is_blank, is_image, is_tool_name, reject, text_of};

const LONGEST_ID: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    System,
    User,
    Assistant,
    Reasoning,
    Call,
    Output,
    /// Items of hosted tools.
    Other,
}

pub(super) fn check_kind(item: &Value, at: usize) -> Checked<Kind> {
    match (text_of(item, "type"), text_of(item, "role")) {
        (None | Some("message"), Some("user")) => Ok(Kind::User),
        (None | Some("message"), Some("assistant")) => Ok(Kind::Assistant),
        (None | Some("message"), Some("system" | "developer")) => Ok(Kind::System),
        (None | Some("message"), Some(role)) => reject(
            Rule::Role,
            format!(
                "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            ),
        ),
        (Some("reasoning"), _) => Ok(Kind::Reasoning),
        (Some("function_call"), _) => Ok(Kind::Call),
        (Some("function_call_output"), _) => Ok(Kind::Output),
        (Some("compaction" | "item_reference"), _) => Ok(Kind::Other),
        (Some(kind), _) if kind.ends_with("_call") || kind.ends_with("_call_output") => Ok(Kind::Other),
        (Some(kind), _) => reject(Rule::Shape, format!("Invalid value: '{kind}' at 'input[{at}].type'.")),
        (None, None) => reject(Rule::Shape, format!("Missing required parameter: 'input[{at}].role'.")),
    }
}

/// Checks that an item's id has the prefix of its kind.
pub(super) fn check_id(kind: Kind, id: &str, at: usize) -> Checked {
    let start = match kind {
        Kind::Reasoning => "rs_",
        Kind::Assistant => "msg_",
        Kind::Call => "fc_",
        Kind::System | Kind::User | Kind::Output | Kind::Other => "",
    };
    if !id.starts_with(start) {
        return reject(
            Rule::IllegalId,
            format!(
                "Invalid 'input[{at}].id': '{id}'. Expected an ID that begins with '{}'.",
                start.trim_end_matches('_')
            ),
        );
    }
    if id.len() > LONGEST_ID {
        return reject(
            Rule::IllegalId,
            format!(
                "Invalid 'input[{at}].id': string too long. Expected a string with maximum length {LONGEST_ID}, but got \
                 a string with length {} instead.",
                id.len()
            ),
        );
    }
    Ok(())
}

/// Checks a message of the user or the assistant.
pub(super) fn check_message(item: &Value, at: usize, assistant: bool) -> Checked {
    match item.get("content") {
        Some(Value::String(text)) if is_blank(text) => reject_empty_text(at),
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if parts.is_empty() => {
            reject(Rule::EmptyMessage, format!("Invalid 'input[{at}].content': empty array."))
        }
        Some(Value::Array(parts)) => {
            parts.iter().enumerate().try_for_each(|(n, part)| check_part(part, at, n, assistant))
        }
        Some(_) | None => reject(Rule::Shape, format!("Missing required parameter: 'input[{at}].content'.")),
    }
}

fn check_part(part: &Value, at: usize, number: usize, assistant: bool) -> Checked {
    let place = format!("input[{at}].content[{number}]");
    match (text_of(part, "type"), assistant) {
        (Some("input_text"), false) | (Some("output_text"), true)
            if text_of(part, "text").is_none_or(is_blank) =>
        {
            reject_empty_text(at)
        }
        (Some("input_text"), false) | (Some("output_text" | "refusal"), true) => Ok(()),
        (Some("input_image"), false) => check_image(part, &place),
        (Some("input_file"), false) => Ok(()),
        (Some(kind), _) => reject(
            Rule::Shape,
            format!(
                "Invalid value: '{kind}' at '{place}'. Supported values are: {}.",
                if assistant {
                    "'output_text' and 'refusal'"
                } else {
                    "'input_text', 'input_image', and 'input_file'"
                }
            ),
        ),
        (None, _) => reject(Rule::Shape, format!("Missing required parameter: '{place}.type'.")),
    }
}

fn check_image(part: &Value, place: &str) -> Checked {
    let url = text_of(part, "image_url").unwrap_or_default();
    let data = url.strip_prefix("data:").map(|data| data.split_once(";base64,"));
    let is_bad = data.is_some_and(|data| !data.is_some_and(is_image));
    if (url.is_empty() && text_of(part, "file_id").is_none()) || is_bad {
        return reject(Rule::Media, format!("Invalid '{place}.image_url'."));
    }
    Ok(())
}

fn reject_empty_text<T>(at: usize) -> Checked<T> {
    reject(Rule::EmptyText, format!("Invalid 'input[{at}].content': text must be non-empty."))
}

/// Checks a call; returns its id.
pub(super) fn check_call(ids: IdRule, item: &Value, at: usize) -> Checked<&str> {
    let id = text_of(item, "call_id").unwrap_or_default();
    if id.len() > ids.max_len {
        return reject(
            Rule::IllegalId,
            format!(
                "Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length {}, but got a \
                 string with length {} instead.",
                ids.max_len,
                id.len()
            ),
        );
    }
    if !ids.allows(id) {
        return reject(Rule::IllegalId, format!("Invalid 'input[{at}].call_id': '{id}'."));
    }
    if !text_of(item, "name").is_some_and(is_tool_name) {
        return reject(
            Rule::ToolName,
            format!(
                "Invalid 'input[{at}].name': string does not match pattern. Expected a string that matches the pattern \
                 '^[a-zA-Z0-9_-]+$'."
            ),
        );
    }
    let parsed = text_of(item, "arguments").map(serde_json::from_str::<Value>);
    if !matches!(parsed, Some(Ok(Value::Object(_)))) {
        return reject(
            Rule::Arguments,
            format!("Invalid 'input[{at}].arguments': expected a string that is a JSON object."),
        );
    }
    Ok(id)
}

/// Checks an output; returns the id of its call.
pub(super) fn check_output(item: &Value, at: usize) -> Checked<&str> {
    let Some(id) = text_of(item, "call_id").filter(|id| !id.is_empty()) else {
        return reject(Rule::Shape, format!("Missing required parameter: 'input[{at}].call_id'."));
    };
    match item.get("output") {
        Some(Value::String(text)) if text.is_empty() => reject_empty_text(at),
        Some(Value::String(_)) => Ok(id),
        Some(Value::Array(parts)) if parts.is_empty() => {
            reject(Rule::EmptyMessage, format!("Invalid 'input[{at}].output': empty array."))
        }
        Some(Value::Array(parts)) => {
            parts.iter().enumerate().try_for_each(|(n, part)| check_part(part, at, n, false)).map(|()| id)
        }
        Some(_) | None => reject(Rule::Shape, format!("Missing required parameter: 'input[{at}].output'.")),
    }
}
