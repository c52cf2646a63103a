//! Rules of Ollama's native API. The real server accepts most violations and answers nonsense or loses data;
//! here they are rejected.

use serde_json::Value;

use super::{Checked, Rule, Strictness, is_blank, is_tool_name, reject, text_of};

pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked {
    if !body.is_object() {
        return reject(Rule::Shape, "json: cannot unmarshal into Go value of type api.ChatRequest");
    }
    if text_of(body, "model").is_none_or(str::is_empty) {
        return reject(Rule::NoModel, "model is required");
    }
    check_params(body)?;
    check_tools(body)?;
    check_messages(strictness, body)
}

fn check_params(body: &Value) -> Checked {
    for name in ["max_tokens", "temperature", "num_ctx", "tool_choice", "reasoning_effort"] {
        if body.get(name).is_some() {
            return reject(Rule::Parameter, format!("{name} is no field of a request, and would be ignored"));
        }
    }
    match body.get("options") {
        None | Some(Value::Object(_)) => {}
        Some(_) => return reject(Rule::Parameter, "options must be an object"),
    }
    for name in ["num_ctx", "num_predict"] {
        let value = body.pointer(&format!("/options/{name}"));
        if value.is_some_and(|value| value.as_u64().is_none_or(|value| value == 0)) {
            return reject(Rule::Parameter, format!("option \"{name}\" must be of type integer"));
        }
    }
    match body.get("think") {
        None | Some(Value::Null | Value::Bool(_)) => {}
        Some(Value::String(word)) if ["low", "medium", "high"].contains(&&**word) => {}
        Some(other) => {
            return reject(
                Rule::ThinkingParams,
                format!(
                    "invalid think value: {other} (must be \"high\", \"medium\", \"low\", true, or false)"
                ),
            );
        }
    }
    match body.get("format") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(Value::String(word)) if word == "json" => Ok(()),
        Some(other) => reject(
            Rule::Parameter,
            format!("invalid format: {other}; expected \"json\" or a valid JSON Schema object"),
        ),
    }
}

fn check_tools(body: &Value) -> Checked {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return reject(Rule::Shape, "tools must be a list"),
    };
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        if text_of(tool, "type") != Some("function") || !is_tool_name(name) || names.contains(&name) {
            return reject(
                Rule::ToolName,
                format!("tools[{at}].function.name is missing, illegal or repeated"),
            );
        }
        names.push(name);
        let schema = tool.pointer("/function/parameters");
        if schema.is_some_and(|schema| text_of(schema, "type") != Some("object")) {
            return reject(
                Rule::ToolSchema,
                format!("tools[{at}].function.parameters must be of type object"),
            );
        }
    }
    Ok(())
}

/// Call without a result yet.
struct Open<'a> {
    id: Option<&'a str>,
    name: &'a str,
}

fn check_messages(strictness: &Strictness, body: &Value) -> Checked {
    let messages = match body.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        None | Some(Value::Array(_)) => return reject(Rule::NoMessages, "messages are required"),
        Some(_) => return reject(Rule::Shape, "messages must be a list"),
    };
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut before = None;
    for (at, message) in messages.iter().enumerate() {
        let role = text_of(message, "role").unwrap_or_default();
        if role != "tool"
            && let Some(call) = open.first()
        {
            return reject(
                Rule::UnansweredCall,
                format!("messages[{at}]: the call of {} has no result", call.name),
            );
        }
        check_content(message, role, at)?;
        match role {
            "system" => continue,
            "user" => {}
            "assistant" if before.is_none() => {
                return reject(Rule::FirstNotUser, format!("messages[{at}]: the user speaks first"));
            }
            "assistant" => open = check_calls(strictness, message, at)?,
            "tool" => check_result(&mut open, message, at)?,
            other => return reject(Rule::Role, format!("messages[{at}]: invalid role: {other}")),
        }
        before = Some(role);
    }
    if let Some(call) = open.first() {
        return reject(Rule::UnansweredCall, format!("the call of {} has no result", call.name));
    }
    match before {
        None => reject(Rule::NoMessages, "at least one message that is not a system message is required"),
        Some("assistant") if !strictness.prefill => {
            reject(Rule::LastNotUser, "the last message must not be the assistant's")
        }
        Some(_) => Ok(()),
    }
}

fn check_content(message: &Value, role: &str, at: usize) -> Checked {
    let images = match message.get("images") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(images)) => images,
        Some(_) => return reject(Rule::Shape, format!("messages[{at}].images must be a list")),
    };
    if !images.is_empty() && role != "user" {
        return reject(Rule::Media, format!("messages[{at}]: images are for messages of the user"));
    }
    if images.iter().any(|image| image.as_str().is_none_or(|data| !is_base64(data))) {
        return reject(Rule::Media, format!("messages[{at}]: illegal base64 data in an image"));
    }
    let has_calls =
        message.get("tool_calls").is_some_and(|calls| !calls.is_null() && *calls != Value::Array(Vec::new()));
    match message.get("content") {
        Some(Value::String(text)) if !is_blank(text) => Ok(()),
        None | Some(Value::String(_)) if has_calls || !images.is_empty() => Ok(()),
        Some(Value::String(_)) => reject(Rule::EmptyText, format!("messages[{at}] says nothing")),
        Some(_) | None => reject(
            Rule::Shape,
            format!(
                "json: cannot unmarshal into Go struct field ChatRequest.messages[{at}].content of type string"
            ),
        ),
    }
}

/// Whether the data is plain base64, without the prefix of a `data:` URL.
fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    !body.is_empty()
        && data.len().is_multiple_of(4)
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn check_calls<'a>(strictness: &Strictness, message: &'a Value, at: usize) -> Checked<Vec<Open<'a>>> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return reject(Rule::Shape, format!("messages[{at}].tool_calls must be a list")),
    };
    let mut open: Vec<Open<'_>> = Vec::new();
    for (part, call) in calls.iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{part}]");
        let Some(name) =
            call.pointer("/function/name").and_then(Value::as_str).filter(|name| is_tool_name(name))
        else {
            return reject(Rule::ToolName, format!("{place}.function.name is missing or illegal"));
        };
        // Chat Completions has a string in this place.
        if !call.pointer("/function/arguments").is_some_and(Value::is_object) {
            return reject(
                Rule::Arguments,
                "json: cannot unmarshal string into Go struct field \
                 ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
            );
        }
        let id = text_of(call, "id");
        if id.is_some_and(|id| !strictness.ids.allows(id)) {
            return reject(Rule::IllegalId, format!("{place}.id is not legal"));
        }
        if id.is_some() && open.iter().any(|other| other.id == id) {
            return reject(Rule::DuplicateId, format!("{place}.id is used twice"));
        }
        open.push(Open { id, name });
    }
    Ok(open)
}

fn check_result(open: &mut Vec<Open<'_>>, message: &Value, at: usize) -> Checked {
    let (id, name) = (text_of(message, "tool_call_id"), text_of(message, "tool_name"));
    if id.is_none() && name.is_none() {
        return reject(Rule::Shape, format!("messages[{at}]: a result names its call or its tool"));
    }
    let fits = |call: &Open<'_>| {
        (id.is_none() || call.id.is_none() || call.id == id) && name.is_none_or(|name| call.name == name)
    };
    let Some(place) = open.iter().position(fits) else {
        return reject(Rule::OrphanResult, format!("messages[{at}]: nothing waits for this result"));
    };
    open.remove(place);
    Ok(())
}
