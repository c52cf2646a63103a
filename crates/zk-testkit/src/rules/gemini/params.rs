use serde_json::Value;

use super::super::{Checked, Rule, reject, text_of};
use super::SIGNED;

/// All accepted fields; others are an error.
const FIELDS: &[&str] = &[
    "model",
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
];

/// Schema keywords that the older field `parameters` rejects.
const NOT_IN_PARAMETERS: &[&str] = &["$schema", "$defs", "$ref", "additionalProperties", "const"];

const LEVELS: &[&str] = &["MINIMAL", "LOW", "MEDIUM", "HIGH"];
const LONGEST_NAME: usize = 128;

pub(super) fn check(body: &Value, generation: u32) -> Checked {
    let fields = body.as_object().into_iter().flatten();
    if let Some((name, _)) = fields.into_iter().find(|(name, _)| !FIELDS.contains(&name.as_str())) {
        return reject(
            Rule::Parameter,
            format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."),
        );
    }
    if let Some(limit) = body.pointer("/generationConfig/maxOutputTokens")
        && limit.as_u64().is_none_or(|limit| limit == 0)
    {
        return reject(Rule::Parameter, "max_output_tokens must be positive.");
    }
    if let Some(system) = body.get("systemInstruction") {
        let parts = system.get("parts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if parts.iter().all(|part| text_of(part, "text").is_none_or(str::is_empty)) {
            return reject(Rule::EmptyText, "* GenerateContentRequest.system_instruction.parts: not set");
        }
    }
    check_thinking(body, generation)?;
    let names = check_tools(body)?;
    check_output(body, generation, &names)?;
    check_tool_choice(body, &names)
}

fn check_thinking(body: &Value, generation: u32) -> Checked {
    let Some(config) = body.pointer("/generationConfig/thinkingConfig") else { return Ok(()) };
    let budget = config.get("thinkingBudget");
    match (text_of(config, "thinkingLevel"), budget) {
        (Some(_), Some(_)) => {
            reject(Rule::ThinkingParams, "You can only set only one of thinking budget and thinking level.")
        }
        (Some(_), None) if generation < SIGNED => {
            reject(Rule::ThinkingParams, "Thinking level is not supported for this model.")
        }
        (Some(level), None) if !LEVELS.contains(&level.to_uppercase().as_str()) => {
            reject(Rule::ThinkingParams, format!("Invalid value at 'thinking_level': \"{level}\""))
        }
        (None, Some(budget)) if budget.as_i64().is_none_or(|budget| budget < -1) => {
            reject(Rule::ThinkingParams, "The thinking budget is invalid.")
        }
        _ => Ok(()),
    }
}

fn check_output(body: &Value, generation: u32, names: &[&str]) -> Checked {
    let Some(config) = body.get("generationConfig") else { return Ok(()) };
    let is_json = text_of(config, "responseMimeType") == Some("application/json");
    match config.get("responseJsonSchema") {
        Some(_) if !is_json => reject(
            Rule::Output,
            "* GenerateContentRequest.generation_config.response_json_schema: only allowed when response_mime_type \
             is application/json",
        ),
        Some(schema) if !schema.is_object() => reject(Rule::Output, "response_json_schema must be a schema."),
        _ if is_json && generation < SIGNED && !names.is_empty() => reject(
            Rule::Output,
            "Function calling with a response mime type: 'application/json' is unsupported",
        ),
        _ => Ok(()),
    }
}

fn check_tools(body: &Value) -> Checked<Vec<&str>> {
    let list = |value: Option<&'_ Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    if body.get("tools").is_some_and(|tools| !tools.is_array()) {
        return reject(Rule::Shape, "Invalid value at 'tools'");
    }
    let mut names: Vec<&str> = Vec::new();
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let declared = tool.get("functionDeclarations").and_then(Value::as_array);
        for function in declared.into_iter().flatten() {
            let name = text_of(function, "name").unwrap_or_default();
            if !is_name(name) {
                return reject(
                    Rule::ToolName,
                    format!(
                        "* GenerateContentRequest.tools[0].function_declarations[{}].name: Invalid function name. Must \
                         start with a letter or an underscore.",
                        names.len()
                    ),
                );
            }
            if names.contains(&name) {
                return reject(Rule::ToolName, format!("Duplicate function declaration found: {name}"));
            }
            names.push(name);
            check_declaration(function, name)?;
        }
    }
    let is_empty = names.is_empty()
        && list(body.get("tools")).iter().any(|tool| tool.as_object().is_none_or(serde_json::Map::is_empty));
    if is_empty {
        return reject(
            Rule::Shape,
            "* GenerateContentRequest.tools[0].tool_type: required one_of 'tool_type'",
        );
    }
    Ok(names)
}

fn check_declaration(function: &Value, name: &str) -> Checked {
    let schema = match (function.get("parameters"), function.get("parametersJsonSchema")) {
        (Some(_), Some(_)) => {
            return reject(
                Rule::ToolSchema,
                format!("Function {name}: only one of parameters and parameters_json_schema can be set."),
            );
        }
        (Some(schema), None) => {
            if let Some(word) = forbidden_keyword(schema) {
                return reject(
                    Rule::ToolSchema,
                    format!(
                        "Invalid JSON payload received. Unknown name \"{word}\" at \
                         'tools[0].function_declarations[0].parameters': Cannot find field."
                    ),
                );
            }
            schema
        }
        (None, Some(schema)) => schema,
        (None, None) => return Ok(()),
    };
    match text_of(schema, "type") {
        Some(kind) if kind.eq_ignore_ascii_case("object") => Ok(()),
        Some(_) | None => {
            reject(Rule::ToolSchema, format!("Function {name}: parameters schema should be of type OBJECT."))
        }
    }
}

fn forbidden_keyword(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Object(fields) => {
            let here = NOT_IN_PARAMETERS.iter().find(|word| fields.contains_key(**word)).copied();
            here.or_else(|| fields.values().find_map(forbidden_keyword))
        }
        Value::Array(items) => items.iter().find_map(forbidden_keyword),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let is_in = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    starts && name.len() <= LONGEST_NAME && name.bytes().all(is_in)
}

fn check_tool_choice(body: &Value, names: &[&str]) -> Checked {
    let Some(config) = body.pointer("/toolConfig/functionCallingConfig") else { return Ok(()) };
    let mode = text_of(config, "mode").unwrap_or("AUTO");
    if !["AUTO", "ANY", "NONE", "VALIDATED"].contains(&mode) {
        return reject(Rule::ToolChoice, format!("Invalid value at 'mode': \"{mode}\""));
    }
    if mode == "ANY" && names.is_empty() {
        return reject(Rule::ToolChoice, "Function calling mode ANY needs function declarations.");
    }
    let Some(allowed) = config.get("allowedFunctionNames").and_then(Value::as_array) else { return Ok(()) };
    if !matches!(mode, "ANY" | "VALIDATED") {
        return reject(
            Rule::ToolChoice,
            "Allowed function names can only be set with mode ANY or VALIDATED.",
        );
    }
    match allowed.iter().find(|name| name.as_str().is_none_or(|name| !names.contains(&name))) {
        Some(name) => reject(Rule::ToolChoice, format!("Allowed function name {name} is not declared.")),
        None => Ok(()),
    }
}
