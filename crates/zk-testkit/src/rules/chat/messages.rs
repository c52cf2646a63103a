use std::collections::HashSet;

use serde_json::Value;
use zk_core::model::IdRule;

use super::super::{Checked, Reasoning, Rule, Strictness, is_blank, is_image, is_tool_name, reject, text_of};
use super::reasoning;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

/// Checks all messages; returns whether any has calls or results.
pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked<bool> {
    let messages = match body.get("messages") {
        None => return reject(Rule::NoMessages, "Missing required parameter: 'messages'."),
        Some(Value::Array(messages)) if messages.is_empty() => {
            return reject(
                Rule::NoMessages,
                "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array \
                 instead.",
            );
        }
        Some(Value::Array(messages)) => messages,
        Some(_) => return reject(Rule::Shape, "Invalid type for 'messages': expected an array of objects."),
    };
    let mut calls = false;
    let mut ids: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut answered: Vec<&str> = Vec::new();
    let mut before: Option<Speaker> = None;
    for (at, message) in messages.iter().enumerate() {
        let speaker = check_speaker(message, at)?;
        if speaker != Speaker::Tool {
            check_all_answered(&open)?;
            open.clear();
            answered.clear();
        }
        match speaker {
            Speaker::System => {
                if !strictness.developer && text_of(message, "role") == Some("developer") {
                    return reject(Rule::Role, "Input should be 'system', 'user', 'assistant' or 'tool'");
                }
                check_plain_content(strictness, message, at)?;
            }
            Speaker::User => check_plain_content(strictness, message, at)?,
            Speaker::Assistant => {
                reasoning::check(strictness.reasoning, body, message, at)?;
                open = check_assistant(strictness, message, at, &mut ids)?;
                calls |= !open.is_empty();
            }
            Speaker::Tool => {
                calls = true;
                let id = text_of(message, "tool_call_id").unwrap_or_default();
                check_result(message, at)?;
                if answered.contains(&id) {
                    return reject(
                        Rule::DuplicateResult,
                        format!(
                            "Invalid parameter: 'messages[{at}]': duplicate value for 'tool_call_id' of '{id}'."
                        ),
                    );
                }
                let Some(place) = open.iter().position(|open| *open == id) else {
                    return reject(
                        Rule::OrphanResult,
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                         'tool_calls'.",
                    );
                };
                answered.push(open.remove(place));
            }
        }
        check_order(strictness, before, speaker)?;
        if speaker != Speaker::System {
            before = Some(speaker);
        }
    }
    check_all_answered(&open)?;
    match before {
        Some(Speaker::Assistant) if !strictness.prefill => reject(
            Rule::LastNotUser,
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        ),
        None => reject(Rule::NoMessages, "at least one message that is not a system message is required"),
        Some(_) => Ok(calls),
    }
}

fn check_speaker(message: &Value, at: usize) -> Checked<Speaker> {
    match text_of(message, "role") {
        Some("system" | "developer") => Ok(Speaker::System),
        Some("user") => Ok(Speaker::User),
        Some("assistant") => Ok(Speaker::Assistant),
        Some("tool") => Ok(Speaker::Tool),
        Some(other) => reject(
            Rule::Role,
            format!(
                "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
                 'developer'."
            ),
        ),
        None => reject(Rule::Role, format!("Missing required parameter: 'messages[{at}].role'.")),
    }
}

fn check_order(strictness: &Strictness, before: Option<Speaker>, now: Speaker) -> Checked {
    match (before, now) {
        (None, Speaker::Assistant) => reject(
            Rule::FirstNotUser,
            "Expected the first message after the system message to have the role user, but got assistant",
        ),
        (Some(before), now)
            if strictness.alternate && before == now && matches!(now, Speaker::User | Speaker::Assistant) =>
        {
            reject(Rule::SameRole, "Conversation roles must alternate user/assistant/user/assistant/...")
        }
        (Some(Speaker::Tool), Speaker::User) if strictness.assistant_after_tools => {
            reject(Rule::Role, "Unexpected role 'user' after role 'tool'")
        }
        _ => Ok(()),
    }
}

fn check_all_answered(open: &[&str]) -> Checked {
    if open.is_empty() {
        return Ok(());
    }
    reject(
        Rule::UnansweredCall,
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ),
    )
}

/// Checks the content of a system or user message.
fn check_plain_content(strictness: &Strictness, message: &Value, at: usize) -> Checked {
    let parts = match message.get("content") {
        Some(Value::String(text)) if is_blank(text) => return reject_empty_text(at),
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        Some(_) | None => {
            return reject(
                Rule::Shape,
                format!(
                    "Invalid value for 'content': expected a string, got null at 'messages[{at}].content'."
                ),
            );
        }
    };
    if parts.is_empty() {
        return reject(
            Rule::EmptyMessage,
            format!(
                "Invalid 'messages[{at}].content': empty array. Expected an array with minimum length 1, but got an \
                 empty array instead."
            ),
        );
    }
    for (part, content) in parts.iter().enumerate() {
        match text_of(content, "type") {
            Some("text") if text_of(content, "text").is_none_or(is_blank) => return reject_empty_text(at),
            Some(kind) if strictness.text_only && kind != "text" => {
                return reject(
                    Rule::Media,
                    format!("messages[{at}]: unknown variant `{kind}`, expected `text`"),
                );
            }
            Some("text" | "file" | "input_audio") => {}
            Some("image_url") => {
                let url = content.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
                let data = url.strip_prefix("data:").map(|data| data.split_once(";base64,"));
                if url.is_empty() || data.is_some_and(|data| !data.is_some_and(is_image)) {
                    return reject(
                        Rule::Media,
                        format!("Invalid 'messages[{at}].content[{part}].image_url': unsupported image."),
                    );
                }
            }
            Some(other) => {
                return reject(
                    Rule::Shape,
                    format!(
                        "Invalid value: '{other}'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', \
                         'audio', and 'file'."
                    ),
                );
            }
            None => {
                return reject(
                    Rule::Shape,
                    format!("Missing required parameter: 'messages[{at}].content[{part}].type'."),
                );
            }
        }
    }
    Ok(())
}

fn reject_empty_text<T>(at: usize) -> Checked<T> {
    reject(Rule::EmptyText, format!("Invalid 'messages[{at}].content': text content must be non-empty."))
}

/// Checks an assistant message; returns the ids of its calls.
fn check_assistant<'a>(
    strictness: &Strictness,
    message: &'a Value,
    at: usize,
    ids: &mut HashSet<&'a str>,
) -> Checked<Vec<&'a str>> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(calls)) if calls.is_empty() => {
            return reject(
                Rule::EmptyMessage,
                format!(
                    "Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1, but got \
                     an empty array instead."
                ),
            );
        }
        Some(Value::Array(calls)) => calls,
        Some(_) => return reject(Rule::Shape, format!("Invalid type for 'messages[{at}].tool_calls'.")),
    };
    match message.get("content") {
        Some(Value::String(text)) if !is_blank(text) => {}
        // Beside calls, some servers expect an empty string and others null.
        None | Some(Value::Null | Value::String(_)) if !calls.is_empty() => {}
        Some(Value::Array(parts)) if strictness.reasoning == Reasoning::Parts => {
            reasoning::check_parts(parts, at)?
        }
        Some(Value::Array(_)) => {
            return reject(
                Rule::Shape,
                format!("Invalid type for 'messages[{at}].content': assistant content must be a string."),
            );
        }
        Some(Value::String(_)) => return reject_empty_text(at),
        _ => {
            return reject(
                Rule::EmptyMessage,
                format!(
                    "Invalid value for 'content': expected a string, got null at 'messages[{at}].content'."
                ),
            );
        }
    }
    let mut open = Vec::new();
    for (part, call) in calls.iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{part}]");
        let id = text_of(call, "id").unwrap_or_default();
        if !(strictness.numbered_calls && is_numbered(id)) {
            check_call_id(strictness.ids, id, &place)?;
        }
        if !ids.insert(id) {
            return reject(
                Rule::DuplicateId,
                format!("Duplicate value for 'tool_call_id' of '{id}' at '{place}.id'."),
            );
        }
        if text_of(call, "type") != Some("function") {
            return reject(Rule::Shape, format!("Missing required parameter: '{place}.type'."));
        }
        if !call.pointer("/function/name").and_then(Value::as_str).is_some_and(is_tool_name) {
            return reject(
                Rule::ToolName,
                format!(
                    "Invalid '{place}.function.name': string does not match pattern. Expected a string that matches the \
                     pattern '^[a-zA-Z0-9_-]+$'."
                ),
            );
        }
        let args = call.pointer("/function/arguments").and_then(Value::as_str);
        let parsed = args.map(serde_json::from_str::<Value>);
        if !matches!(parsed, Some(Ok(Value::Object(_)))) {
            return reject(
                Rule::Arguments,
                format!("Invalid '{place}.function.arguments': expected a string that is a JSON object."),
            );
        }
        open.push(id);
    }
    Ok(open)
}

/// Whether an id has Kimi's form, such as `functions.read:0`.
fn is_numbered(id: &str) -> bool {
    let named = id.strip_prefix("functions.").and_then(|id| id.rsplit_once(':'));
    named.is_some_and(|(name, number)| !name.is_empty() && number.parse::<u64>().is_ok())
}

fn check_call_id(rule: IdRule, id: &str, place: &str) -> Checked {
    if rule.allows(id) {
        return Ok(());
    }
    let message = if rule.exact {
        format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of {}.", rule.max_len)
    } else if id.len() > rule.max_len {
        format!(
            "Invalid '{place}.id': string too long. Expected a string with maximum length {}, but got a string with \
             length {} instead.",
            rule.max_len,
            id.len()
        )
    } else {
        format!("Invalid '{place}.id': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
    };
    reject(Rule::IllegalId, message)
}

fn check_result(message: &Value, at: usize) -> Checked {
    if text_of(message, "tool_call_id").is_none_or(str::is_empty) {
        return reject(
            Rule::Shape,
            format!("Missing parameter 'tool_call_id': messages[{at}] with role 'tool'."),
        );
    }
    match message.get("content") {
        Some(Value::String(text)) if text.is_empty() => reject_empty_text(at),
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if parts.iter().all(|part| text_of(part, "type") == Some("text")) => Ok(()),
        Some(Value::Array(_)) => reject(
            Rule::Media,
            format!(
                "Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role 'user', but this message \
                 with role 'tool' contains an image URL."
            ),
        ),
        Some(_) | None => reject(
            Rule::Shape,
            format!("Invalid value for 'content': expected a string, got null at 'messages[{at}].content'."),
        ),
    }
}
