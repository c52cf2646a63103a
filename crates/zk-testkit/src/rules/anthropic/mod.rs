//! Rules of the Anthropic Messages API.

mod cache;
mod hosted;
mod messages;
mod params;

use serde_json::Value;

use super::{Checked, Rule, Strictness, reject, text_of};

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked {
    if !body.is_object() {
        return reject(Rule::Shape, "Input should be an object");
    }
    if text_of(body, "model").is_none_or(str::is_empty) {
        return reject(Rule::NoModel, "model: Field required");
    }
    params::check(body)?;
    let tools = params::check_tools(body)?;
    params::check_tool_choice(body, &tools)?;
    let seen = messages::check(strictness, body)?;
    if strictness.tools_for_history && seen.tool_blocks && tools.is_empty() {
        return reject(
            Rule::ToolsMissing,
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        );
    }
    cache::check(body)
}
