use serde_json::Value;

use super::super::{Checked, Rule, format, is_tool_name, reject, text_of};

const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const SUMMARIES: &[&str] = &["auto", "concise", "detailed"];
const LEAST_OUTPUT: u64 = 16;
const LONGEST_KEY: usize = 64;

/// Parameters that the back end for subscriptions rejects.
const NOT_IN_CODEX: &[&str] = &[
    "max_output_tokens",
    "temperature",
    "top_p",
    "previous_response_id",
    "prompt_cache_retention",
    "prompt_cache_options",
];

pub(super) fn check_codex(body: &Value) -> Checked {
    if body.get("store") != Some(&Value::Bool(false)) {
        return reject(Rule::Parameter, "Store must be set to false");
    }
    if body.get("stream") != Some(&Value::Bool(true)) {
        return reject(Rule::Parameter, "Stream must be set to true");
    }
    if !body.get("instructions").is_some_and(Value::is_string) {
        return reject(Rule::Parameter, "Instructions are required");
    }
    match NOT_IN_CODEX.iter().find(|name| has(body, name)) {
        Some(name) => reject(Rule::Parameter, format!("Unsupported parameter: {name}")),
        None => Ok(()),
    }
}

fn has(body: &Value, key: &str) -> bool {
    body.get(key).is_some_and(|value| !value.is_null())
}

pub(super) fn check(body: &Value) -> Checked {
    if let Some(limit) = body.get("max_output_tokens").filter(|limit| !limit.is_null())
        && limit.as_u64().is_none_or(|limit| limit < LEAST_OUTPUT)
    {
        return reject(
            Rule::Parameter,
            format!(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_OUTPUT}, but \
                 got {limit} instead."
            ),
        );
    }
    if text_of(body, "prompt_cache_key").is_some_and(|key| key.chars().count() > LONGEST_KEY) {
        return reject(
            Rule::Parameter,
            format!(
                "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length {LONGEST_KEY}."
            ),
        );
    }
    let temperature = body.get("temperature").and_then(Value::as_f64);
    if temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
        return reject(Rule::Parameter, "Invalid 'temperature': decimal above maximum value.");
    }
    if let Some(asked) = body.pointer("/text/format")
        && text_of(asked, "type") == Some("json_schema")
    {
        format::check_openai(asked)?;
    }
    // Fields of Chat Completions, which this API rejects as unknown.
    for foreign in ["messages", "max_tokens", "max_completion_tokens", "stream_options"] {
        let own = foreign == "stream_options" && body.pointer("/stream_options/include_usage").is_none();
        if has(body, foreign) && !own {
            return reject(Rule::Parameter, format!("Unsupported parameter: '{foreign}'."));
        }
    }
    check_word(body, "/reasoning/effort", EFFORTS)?;
    check_word(body, "/reasoning/summary", SUMMARIES)
}

fn check_word(body: &Value, place: &str, words: &[&str]) -> Checked {
    match body.pointer(place) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(word)) if words.contains(&&**word) => Ok(()),
        Some(other) => reject(
            Rule::ThinkingParams,
            format!("Invalid value: {other} at '{place}'. Supported values are: {}.", words.join(", ")),
        ),
    }
}

/// Checks the declared tools; returns their names.
pub(super) fn check_tools(body: &Value) -> Checked<Vec<&str>> {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return reject(Rule::Shape, "Invalid type for 'tools': expected an array of objects."),
    };
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        if text_of(tool, "type") != Some("function") {
            return reject(Rule::Shape, format!("Invalid value for 'tools[{at}].type'."));
        }
        // Chat Completions wraps a tool in an object, this API does not.
        let name = match text_of(tool, "name") {
            Some(name) => name,
            None => {
                return reject(Rule::ToolName, format!("Missing required parameter: 'tools[{at}].name'."));
            }
        };
        if !is_tool_name(name) || names.contains(&name) {
            return reject(
                Rule::ToolName,
                format!(
                    "Invalid 'tools[{at}].name': string does not match pattern. Expected a string that matches the \
                     pattern '^[a-zA-Z0-9_-]+$'."
                ),
            );
        }
        names.push(name);
        check_schema(tool, name)?;
    }
    Ok(names)
}

fn check_schema(tool: &Value, name: &str) -> Checked {
    let Some(schema) = tool.get("parameters").filter(|schema| !schema.is_null()) else { return Ok(()) };
    if text_of(schema, "type") != Some("object") {
        return reject(
            Rule::ToolSchema,
            format!(
                "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \
                 \"None\"'."
            ),
        );
    }
    let is_strict = tool.get("strict") == Some(&Value::Bool(true));
    if is_strict && schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return reject(
            Rule::ToolSchema,
            format!(
                "Invalid schema for function '{name}': In context=(), 'additionalProperties' is required to be supplied \
                 and to be false."
            ),
        );
    }
    Ok(())
}

pub(super) fn check_tool_choice(body: &Value, tools: &[&str]) -> Checked {
    let choice = match body.get("tool_choice") {
        None | Some(Value::Null) => return Ok(()),
        Some(choice) => choice,
    };
    match choice {
        // Without tools, `required` is invalid.
        Value::String(word) if matches!(&**word, "auto" | "none") => Ok(()),
        Value::String(word) if word == "required" && !tools.is_empty() => Ok(()),
        Value::Object(_) => match (text_of(choice, "type"), text_of(choice, "name")) {
            (Some("function"), Some(name)) if tools.contains(&name) => Ok(()),
            (Some("allowed_tools"), _) => Ok(()),
            (_, name) => reject(
                Rule::ToolChoice,
                format!("Tool choice '{}' not found in 'tools' parameter.", name.unwrap_or_default()),
            ),
        },
        other => reject(Rule::ToolChoice, format!("Invalid value for 'tool_choice': {other}.")),
    }
}
