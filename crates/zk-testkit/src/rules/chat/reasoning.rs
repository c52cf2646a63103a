//! Rules for reasoning in requests, whose position differs by vendor.

use serde_json::Value;

use super::super::{Checked, Reasoning, Rule, is_blank, reject, text_of};
use super::has_thinking;

/// Checks the reasoning fields of an assistant message.
pub(super) fn check(reasoning: Reasoning, body: &Value, message: &Value, at: usize) -> Checked {
    match reasoning {
        Reasoning::Content | Reasoning::Parts => Ok(()),
        Reasoning::Owed if has_thinking(body) && text_of(message, "reasoning_content").is_none() => reject(
            Rule::Thinking,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        Reasoning::Owed => Ok(()),
        Reasoning::Details => check_details(message, at),
    }
}

fn check_details(message: &Value, at: usize) -> Checked {
    let items = match message.get("reasoning_details") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(items)) => items,
        Some(_) => return reject(Rule::Shape, format!("messages[{at}].reasoning_details: expected array")),
    };
    if message.get("reasoning").is_some_and(|text| !text.is_null()) {
        return reject(
            Rule::Thinking,
            format!("messages[{at}]: reasoning and reasoning_details say the same; send one of them"),
        );
    }
    for (number, item) in items.iter().enumerate() {
        let field = match text_of(item, "type") {
            Some("reasoning.text") => "text",
            Some("reasoning.summary") => "summary",
            Some("reasoning.encrypted") => "data",
            Some(_) | None => {
                return reject(
                    Rule::Shape,
                    format!("messages[{at}].reasoning_details[{number}].type: Invalid discriminator value"),
                );
            }
        };
        if text_of(item, field).is_none() {
            return reject(
                Rule::Shape,
                format!("messages[{at}].reasoning_details[{number}].{field}: Required"),
            );
        }
    }
    Ok(())
}

/// Checks the content of an assistant message in parts.
pub(super) fn check_parts(parts: &[Value], at: usize) -> Checked {
    let mut speaks = false;
    for part in parts {
        match text_of(part, "type") {
            Some("text") if text_of(part, "text").is_some_and(|text| !is_blank(text)) => speaks = true,
            Some("thinking") if part.get("thinking").is_some_and(Value::is_array) => speaks = true,
            Some("text" | "thinking") => {
                return reject(Rule::EmptyText, format!("messages[{at}].content: a part without content"));
            }
            Some(_) | None => {
                return reject(Rule::Shape, format!("messages[{at}].content: Input tag does not match"));
            }
        }
    }
    if speaks { Ok(()) } else { reject(Rule::EmptyMessage, format!("messages[{at}].content is empty")) }
}
