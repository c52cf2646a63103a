//! Rules of the OpenAI Chat Completions API.

mod messages;
mod reasoning;

use serde_json::Value;

use super::{Checked, Reasoning, Rule, Strictness, format, is_tool_name, reject, text_of};

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked {
    if !body.is_object() {
        return reject(Rule::Shape, "We could not parse the JSON body of your request.");
    }
    if text_of(body, "model").is_none_or(str::is_empty) {
        return reject(Rule::NoModel, "you must provide a model parameter");
    }
    check_params(strictness, body)?;
    let tools = check_tools(body)?;
    check_tool_choice(strictness, body, &tools)?;
    let calls = messages::check(strictness, body)?;
    if strictness.tools_for_history && calls && tools.is_empty() {
        return reject(
            Rule::ToolsMissing,
            "Requests with 'tool_calls' or 'tool' messages in their history must specify 'tools'.",
        );
    }
    Ok(())
}

/// Whether thinking is on, for vendors that think by default.
fn has_thinking(body: &Value) -> bool {
    body.pointer("/thinking/type").and_then(Value::as_str) != Some("disabled")
}

fn check_params(strictness: &Strictness, body: &Value) -> Checked {
    let has = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    if let Some(name) = strictness.unsupported.iter().find(|name| has(name)) {
        return reject(Rule::Parameter, format!("property '{name}' is unsupported"));
    }
    if has("max_tokens") && has("max_completion_tokens") {
        return reject(
            Rule::Parameter,
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        );
    }
    if has("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return reject(
            Rule::Parameter,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        );
    }
    let temperature = body.get("temperature").and_then(Value::as_f64);
    if temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
        return reject(
            Rule::Parameter,
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2.",
        );
    }
    match body.get("response_format") {
        Some(asked) if text_of(asked, "type") == Some("json_schema") => {
            format::check_openai(asked.get("json_schema").unwrap_or(&Value::Null))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_tools(body: &Value) -> Checked<Vec<&str>> {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return reject(Rule::Shape, "Invalid type for 'tools': expected an array of objects."),
    };
    if tools.is_empty() {
        return reject(
            Rule::Shape,
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        );
    }
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        if text_of(tool, "type") != Some("function") || !is_tool_name(name) || names.contains(&name) {
            return reject(
                Rule::ToolName,
                format!(
                    "Invalid 'tools[{at}].function.name': string does not match pattern. Expected a string that \
                     matches the pattern '^[a-zA-Z0-9_-]+$'."
                ),
            );
        }
        names.push(name);
        let schema = tool.pointer("/function/parameters");
        if schema.is_some_and(|schema| text_of(schema, "type") != Some("object")) {
            return reject(
                Rule::ToolSchema,
                format!(
                    "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got \
                     'type: \"None\"'."
                ),
            );
        }
    }
    Ok(names)
}

fn check_tool_choice(strictness: &Strictness, body: &Value, tools: &[&str]) -> Checked {
    let choice = match body.get("tool_choice") {
        None | Some(Value::Null) => return Ok(()),
        Some(choice) => choice,
    };
    if tools.is_empty() {
        return reject(Rule::ToolChoice, "'tool_choice' is only allowed when 'tools' are specified.");
    }
    let is_forced = !matches!(choice.as_str(), Some("auto" | "none"));
    if is_forced && strictness.reasoning == Reasoning::Owed && has_thinking(body) {
        return reject(Rule::ToolChoice, "Thinking mode does not support this tool_choice");
    }
    match choice {
        Value::String(word) if matches!(&**word, "auto" | "none" | "required" | "any") => Ok(()),
        Value::Object(_) => {
            let name = choice.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
            if tools.contains(&name) {
                return Ok(());
            }
            reject(Rule::ToolChoice, format!("Tool choice '{name}' not found in 'tools' parameter."))
        }
        _ => reject(
            Rule::ToolChoice,
            "Invalid value for 'tool_choice': expected 'none', 'auto' or 'required'.",
        ),
    }
}
