//! Rules for one part of a content.

use serde_json::Value;

use super::super::{Checked, Rule, reject, text_of};
use super::SIGNED;
use super::params::is_name;

/// Documented placeholder for the signature of another model's call.
pub(super) const DUMMY: &str = "skip_thought_signature_validator";

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Media,
    Call,
    Answer,
}

const DATA: &[(&str, Kind)] = &[
    ("text", Kind::Text),
    ("inlineData", Kind::Media),
    ("fileData", Kind::Media),
    ("functionCall", Kind::Call),
    ("functionResponse", Kind::Answer),
];
/// Fields that a part may have besides its content.
const BESIDE: &[&str] = &["thought", "thoughtSignature", "videoMetadata"];

/// Checks a single part.
pub(super) fn check(part: &Value, is_model: bool, generation: u32, place: &str) -> Checked<Kind> {
    let Some(fields) = part.as_object() else {
        return reject(Rule::Shape, format!("Invalid value at '{place}'"));
    };
    let unknown = fields
        .keys()
        .find(|name| !BESIDE.contains(&name.as_str()) && !DATA.iter().any(|(known, _)| known == name));
    if let Some(name) = unknown {
        return reject(
            Rule::Shape,
            format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."
            ),
        );
    }
    let mut present = DATA.iter().filter(|(name, _)| fields.contains_key(*name));
    let (Some((name, kind)), None) = (present.next(), present.next()) else {
        return reject(
            Rule::Shape,
            format!("* {place}.data: required oneof field 'data' must have one initialized field"),
        );
    };
    match kind {
        Kind::Text if text_of(part, "text").is_none() => {
            return reject(Rule::Shape, format!("Invalid value at '{place}.text'"));
        }
        Kind::Text if text_of(part, "text") == Some("") && text_of(part, "thoughtSignature").is_none() => {
            return reject(Rule::EmptyText, format!("* {place}.text: must not be empty"));
        }
        Kind::Text => {}
        Kind::Media => check_media(part, name, place)?,
        Kind::Call | Kind::Answer if is_model != (*kind == Kind::Call) => {
            return reject(
                Rule::Role,
                format!("Please ensure that function call turn comes from the model: '{place}'."),
            );
        }
        Kind::Call => check_call(part, place)?,
        Kind::Answer => check_result(part, generation, place)?,
    }
    Ok(*kind)
}

fn check_media(part: &Value, name: &str, place: &str) -> Checked {
    let field = |key: &str| part.pointer(&format!("/{name}/{key}")).and_then(Value::as_str);
    let (kind, data) = (field("mimeType"), field("data").or(field("fileUri")));
    if data.is_none_or(|data| data.is_empty() || data.starts_with("data:")) {
        return reject(Rule::Media, format!("Unable to process input image: '{place}'."));
    }
    let is_known =
        |kind: &str| kind.contains('/') && !["image/gif", "image/svg+xml", "image/bmp"].contains(&kind);
    if !kind.is_some_and(is_known) {
        return reject(Rule::Media, format!("* {place}.inline_data.mime_type: Unsupported MIME type"));
    }
    Ok(())
}

fn check_call(part: &Value, place: &str) -> Checked {
    if !part.pointer("/functionCall/name").and_then(Value::as_str).is_some_and(is_name) {
        return reject(Rule::ToolName, format!("* {place}.function_call.name: Invalid function name."));
    }
    check_id(part, "functionCall", place)?;
    match part.pointer("/functionCall/args") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => reject(Rule::Arguments, format!("Invalid value at '{place}.function_call.args'")),
    }
}

fn check_result(part: &Value, generation: u32, place: &str) -> Checked {
    if !part.pointer("/functionResponse/name").and_then(Value::as_str).is_some_and(is_name) {
        return reject(Rule::ToolName, format!("* {place}.function_response.name: Invalid function name."));
    }
    check_id(part, "functionResponse", place)?;
    if !part.pointer("/functionResponse/response").is_some_and(Value::is_object) {
        return reject(Rule::Shape, format!("Invalid value at '{place}.function_response.response'"));
    }
    let Some(parts) = part.pointer("/functionResponse/parts") else { return Ok(()) };
    if generation < SIGNED {
        return reject(Rule::Media, "Multimodal function response is not supported for this model.");
    }
    for part in parts.as_array().into_iter().flatten() {
        if part.get("inlineData").is_none() {
            return reject(Rule::Media, format!("Invalid value at '{place}.function_response.parts'"));
        }
        check_media(part, "inlineData", place)?;
    }
    Ok(())
}

fn check_id(part: &Value, of: &str, place: &str) -> Checked {
    let Some(id) = part.pointer(&format!("/{of}/id")) else { return Ok(()) };
    match id.as_str() {
        Some(id) if zk_core::model::IdRule::UP_TO_64.allows(id) => Ok(()),
        Some(_) | None => reject(Rule::IllegalId, format!("Invalid function call id {id} at '{place}'.")),
    }
}
