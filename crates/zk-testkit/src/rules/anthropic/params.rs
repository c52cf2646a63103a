use serde_json::Value;

use super::super::{Checked, Rule, format, is_blank, is_tool_name, reject, text_of};

pub(super) fn check(body: &Value) -> Checked {
    let max_tokens = match body.get("max_tokens") {
        None => return reject(Rule::NoMaxTokens, "max_tokens: Field required"),
        Some(value) => match value.as_u64() {
            Some(limit) if limit > 0 => limit,
            Some(_) | None => {
                return reject(Rule::Parameter, "max_tokens: Input should be greater than or equal to 1");
            }
        },
    };
    let temperature = body.get("temperature").and_then(Value::as_f64);
    if temperature.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
        return reject(Rule::Parameter, "temperature: range: 0..1");
    }
    if let Some(asked) = body.pointer("/output_config/format") {
        if text_of(asked, "type") != Some("json_schema") {
            return reject(Rule::Output, "output_config.format.type: Input should be 'json_schema'");
        }
        format::check(asked.get("schema"), &format::ANTHROPIC)?;
    }
    check_thinking(body, max_tokens, temperature)?;
    check_system(body)
}

/// Whether thinking has a token budget.
pub(super) fn thinks_with_budget(body: &Value) -> bool {
    body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled")
}

fn check_thinking(body: &Value, max_tokens: u64, temperature: Option<f64>) -> Checked {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    match text_of(thinking, "type") {
        Some("enabled") => {}
        Some("adaptive" | "disabled" | "between_tools") => return Ok(()),
        Some(_) | None => {
            return reject(
                Rule::ThinkingParams,
                "thinking: Input tag found using 'type' does not match any of the expected tags: 'adaptive', \
                 'disabled', 'enabled'",
            );
        }
    }
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
    match budget {
        None => reject(Rule::ThinkingParams, "thinking.enabled.budget_tokens: Field required"),
        Some(budget) if budget < 1024 => reject(
            Rule::ThinkingParams,
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        Some(budget) if budget >= max_tokens => reject(
            Rule::ThinkingParams,
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
             https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
        ),
        Some(_) if temperature.is_some_and(|value| (value - 1.0).abs() > f64::EPSILON) => {
            reject(Rule::ThinkingParams, "`temperature` may only be set to 1 when thinking is enabled")
        }
        Some(_) => Ok(()),
    }
}

fn check_system(body: &Value) -> Checked {
    match body.get("system") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => {
            for (at, block) in blocks.iter().enumerate() {
                match (text_of(block, "type"), text_of(block, "text")) {
                    (Some("text"), Some(text)) if !is_blank(text) => {}
                    (Some("text"), Some(_)) => {
                        return reject(Rule::EmptyText, "system: text content blocks must be non-empty");
                    }
                    _ => return reject(Rule::Shape, format!("system.{at}.text: Field required")),
                }
            }
            Ok(())
        }
        Some(_) => reject(Rule::Shape, "system: Input should be a valid string or list"),
    }
}

/// Checks the declared tools; returns their names.
pub(super) fn check_tools(body: &Value) -> Checked<Vec<&str>> {
    let tools = match body.get("tools") {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return reject(Rule::Shape, "tools: Input should be a valid list"),
    };
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = text_of(tool, "name").unwrap_or_default();
        if !is_tool_name(name) {
            return reject(
                Rule::ToolName,
                format!("tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"),
            );
        }
        if names.contains(&name) {
            return reject(Rule::ToolName, "tools: Tool names must be unique.");
        }
        names.push(name);
        match tool.pointer("/input_schema/type").map(Value::as_str) {
            Some(Some("object")) => {}
            Some(_) => {
                return reject(
                    Rule::ToolSchema,
                    format!("tools.{at}.custom.input_schema.type: Input should be 'object'"),
                );
            }
            None => {
                return reject(
                    Rule::ToolSchema,
                    format!("tools.{at}.custom.input_schema.type: Field required"),
                );
            }
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if tool.pointer(&format!("/input_schema/{key}")).is_some() {
                return reject(
                    Rule::ToolSchema,
                    format!(
                        "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf \
                         at the top level"
                    ),
                );
            }
        }
    }
    Ok(names)
}

pub(super) fn check_tool_choice(body: &Value, tools: &[&str]) -> Checked {
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    if tools.is_empty() {
        return reject(Rule::ToolChoice, "tool_choice may only be specified while providing tools");
    }
    let forced = match text_of(choice, "type") {
        Some("auto" | "none") => false,
        Some("any") => true,
        Some("tool") => match text_of(choice, "name") {
            Some(name) if tools.contains(&name) => true,
            Some(name) => {
                return reject(
                    Rule::ToolChoice,
                    format!("tool_choice: Tool '{name}' not found in provided tools"),
                );
            }
            None => return reject(Rule::ToolChoice, "tool_choice.tool.name: Field required"),
        },
        Some(_) | None => {
            return reject(
                Rule::ToolChoice,
                "tool_choice: Input tag found using 'type' does not match any of the expected tags: 'auto', \
                 'any', 'tool', 'none'",
            );
        }
    };
    if forced && thinks_with_budget(body) {
        return reject(Rule::ToolChoice, "Thinking may not be enabled when tool_choice forces tool use.");
    }
    Ok(())
}
