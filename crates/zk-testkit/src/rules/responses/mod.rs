//! Rules of the OpenAI Responses API, and of the Codex back end with the same format.

mod input;
mod item;
mod params;

use serde_json::Value;

use super::{Checked, Dialect, Rule, Strictness, reject, text_of};

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked {
    if !body.is_object() {
        return reject(Rule::Shape, "We could not parse the JSON body of your request.");
    }
    if text_of(body, "model").is_none_or(str::is_empty) {
        return reject(Rule::NoModel, "you must provide a model parameter");
    }
    if strictness.dialect == Dialect::Codex {
        params::check_codex(body)?;
    }
    params::check(body)?;
    let tools = params::check_tools(body)?;
    params::check_tool_choice(body, &tools)?;
    let calls = input::check(strictness, body)?;
    if strictness.tools_for_history && calls && tools.is_empty() {
        return reject(
            Rule::ToolsMissing,
            "Requests with function calls in their input must specify 'tools'.",
        );
    }
    Ok(())
}
