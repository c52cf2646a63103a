//! A second, independent reading of what Gemini sends: slow, simple, over whole JSON values.

use serde_json::{Map, Value, json};
use zk_core::model::{StopReason, Usage};

use super::events;
use crate::collect::Answer;

pub(crate) fn chunks(body: &str) -> Vec<Value> {
    let parse = |data: String| serde_json::from_str(&data).expect("recorded events are JSON");
    events(body).into_iter().map(|(_, data)| parse(data)).collect()
}

/// Fields of parts that the provider ran itself.
const HOSTED: [&str; 4] = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"];

/// The parts of a response that mean something to a client, with pieces of arguments put together.
pub(crate) fn parts(body: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for chunk in chunks(body) {
        for part in chunk["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
            let call = &part["functionCall"];
            if call.is_object() && call["name"].is_null() {
                let Some(open) = all.last_mut().filter(|last| last["open"] == true) else { continue };
                grow(open, call);
            } else if call.is_object() {
                let mut made = part.clone();
                made["functionCall"] = json!({"name": call["name"], "args": {}});
                if call["id"].is_string() {
                    made["functionCall"]["id"] = call["id"].clone();
                }
                grow(&mut made, call);
                all.push(made);
            } else if part["text"].is_string() || HOSTED.iter().any(|name| part[name].is_object()) {
                all.push(part.clone());
            } else {
                // Another part between two texts keeps them separate.
                all.push(json!({"unknown": true}));
            }
        }
    }
    all
}

fn grow(made: &mut Value, call: &Value) {
    made["open"] = (call["willContinue"] == true).into();
    let args = &mut made["functionCall"]["args"];
    for (name, value) in call["args"].as_object().into_iter().flatten() {
        args[name] = value.clone();
    }
    for piece in call["partialArgs"].as_array().into_iter().flatten() {
        let path = piece["jsonPath"].as_str().expect("a path").replace('[', ".").replace(']', "");
        let mut place = &mut *args;
        for step in path.split('.').skip(1) {
            place = match step.parse::<usize>() {
                Ok(at) => {
                    if !place.is_array() {
                        *place = json!([]);
                    }
                    let items = place.as_array_mut().expect("a list");
                    while items.len() <= at {
                        items.push(Value::Null);
                    }
                    &mut items[at]
                }
                Err(_) => &mut place[step],
            };
        }
        *place = match piece["stringValue"].as_str() {
            Some(more) => format!("{}{more}", place.as_str().unwrap_or_default()).into(),
            None => piece["numberValue"].clone(),
        };
    }
}

pub(crate) fn answer(body: &str) -> Answer {
    let mut answer = Answer::default();
    let mut counts = Map::new();
    let mut reason = None;
    for chunk in chunks(body) {
        answer.model = answer.model.or(chunk["modelVersion"].as_str().map(str::to_owned));
        counts.extend(chunk["usageMetadata"].as_object().cloned().unwrap_or_default());
        reason = chunk["candidates"][0]["finishReason"].as_str().map(str::to_owned).or(reason);
    }
    for part in parts(body) {
        let text = part["text"].as_str().unwrap_or_default();
        if let Some(call) = part["functionCall"].as_object() {
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
            let name = call["name"].as_str().unwrap_or_default();
            answer.calls.push((id.to_owned(), name.to_owned(), Some(call["args"].clone())));
        } else if part["thought"] == true {
            answer.thinking.push_str(text);
        } else {
            answer.text.push_str(text);
        }
    }
    let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (cached, thoughts) = (count("cachedContentTokenCount"), count("thoughtsTokenCount"));
    answer.usage = Usage {
        input: count("promptTokenCount") - cached + count("toolUsePromptTokenCount"),
        output: count("candidatesTokenCount") + thoughts,
        cache_read: cached,
        reasoning: thoughts,
        ..Usage::default()
    };
    answer.stop = match reason.as_deref() {
        Some("STOP") if !answer.calls.is_empty() => Some(StopReason::ToolUse),
        Some("STOP") => Some(StopReason::EndTurn),
        Some("MAX_TOKENS") => Some(StopReason::MaxTokens),
        other => panic!("no recording ends with {other:?}"),
    };
    answer
}

/// Parts of a response that the next request must contain: every signed part unchanged, unsigned neighbours
/// joined, and no thoughts without a signature.
pub(crate) fn echo(body: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for mut part in parts(body) {
        if let Some(fields) = part.as_object_mut() {
            fields.remove("open");
            fields.retain(|_, value| *value != false && !value.is_null());
        }
        let joins = |last: &Value| {
            let plain = |part: &Value| part["text"].is_string() && part["thoughtSignature"].is_null();
            plain(last) && plain(&part) && last["thought"] == part["thought"]
        };
        if part["text"] == "" && part["thoughtSignature"].is_null() {
            continue;
        }
        match all.last_mut().filter(|last| joins(last)) {
            Some(last) => {
                let whole = format!(
                    "{}{}",
                    last["text"].as_str().expect("a text"),
                    part["text"].as_str().expect("a text")
                );
                last["text"] = whole.into();
            }
            None => all.push(part),
        }
    }
    all
}
