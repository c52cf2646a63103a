//! A second, independent reading of a stream: slow, simple, over whole JSON values.

pub(crate) mod gemini;
pub(crate) mod messages;
mod ollama;
pub(crate) mod responses;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::model::{StopReason, Usage};

use crate::collect::Answer;

pub(crate) use ollama::read as ollama;

/// The data of every event, read line by line.
pub(crate) fn events(body: &str) -> Vec<(String, String)> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let mut all = Vec::new();
    for event in body.trim_start_matches('\u{feff}').split("\n\n") {
        let field = |name: &str| -> Vec<&str> {
            let lines = event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect()
        };
        let data = field("data");
        if !data.is_empty() {
            all.push((field("event").concat(), data.join("\n")));
        }
    }
    all
}

fn values(body: &str) -> Vec<Value> {
    events(body)
        .into_iter()
        .filter(|(_, data)| data.trim() != "[DONE]")
        .map(|(_, data)| serde_json::from_str(&data).expect("recorded events are JSON"))
        .collect()
}

fn args(text: &str) -> Option<Value> {
    // Groq's word for a call without arguments is `null`.
    if text.is_empty() || text == "null" {
        return Some(json!({}));
    }
    serde_json::from_str::<Value>(text).ok().filter(Value::is_object)
}

/// Reason for which a recorded stream must fail, if any.
pub(crate) fn failure(url: &str, body: &str) -> Option<&'static str> {
    let values = values(body);
    let has_error = values
        .iter()
        .any(|value| value.get("error").is_some_and(|error| !error.is_null()) || value["type"] == "error");
    let ended = if url.contains("/messages") {
        values.iter().any(|value| value["type"] == "message_stop")
    } else {
        // The most tolerant profile takes `[DONE]` for an end: recordings without a reason exist.
        body.contains("data: [DONE]")
            || values
                .iter()
                .any(|value| value.pointer("/choices/0/finish_reason").is_some_and(Value::is_string))
    };
    match (has_error, ended) {
        (true, _) => Some("error event"),
        (false, false) => Some("no terminal event"),
        (false, true) => None,
    }
}

/// Total usage of all iterations, since the top level contains only the answer's.
fn iterations(parts: &[Value], answer: Usage) -> Usage {
    let fell_back = parts.iter().any(|part| part["type"] == "fallback_message");
    let mut all = Usage { reasoning: answer.reasoning, ..Usage::default() };
    for part in parts {
        let count = |key: &str| part[key].as_u64().unwrap_or_default();
        if fell_back && part["type"] == "message" && count("output_tokens") == 0 {
            continue;
        }
        let (input, output) = (count("input_tokens"), count("output_tokens"));
        let (read, write) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        all.input += input;
        all.output += output;
        all.cache_read += read;
        all.cache_write += write;
        if matches!(part["type"].as_str(), Some("message" | "fallback_message")) {
            all.last_read = Some(input + read + write);
        }
    }
    all
}

pub(crate) fn anthropic(body: &str) -> Answer {
    let mut answer = Answer::default();
    let mut blocks = BTreeMap::<u64, Value>::new();
    let mut order = Vec::new();
    let mut usage = serde_json::Map::new();
    let mut stop = (None, Value::Null, Value::Null);
    let mut started = false;
    for event in values(body) {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" if !started => {
                started = true;
                answer.model = event["message"]["model"].as_str().map(str::to_owned);
                usage.extend(event["message"]["usage"].as_object().cloned().unwrap_or_default());
                order.extend(event["message"]["content"].as_array().cloned().unwrap_or_default());
                stop.0 = event["message"]["stop_reason"].as_str().map(str::to_owned);
            }
            "content_block_start" => {
                let mut block = event["content_block"].clone();
                block["json"] = json!("");
                blocks.insert(index, block);
            }
            "content_block_delta" => {
                let block = blocks.get_mut(&index).expect("deltas follow a start");
                for (key, target) in [
                    ("text", "text"),
                    ("thinking", "thinking"),
                    ("signature", "signature"),
                    ("partial_json", "json"),
                ] {
                    if let Some(more) = event["delta"][key].as_str() {
                        let whole = format!("{}{more}", block[target].as_str().unwrap_or_default());
                        block[target] = json!(whole);
                    }
                }
            }
            "content_block_stop" => order.extend(blocks.remove(&index)),
            "message_delta" => {
                for (key, value) in event["usage"].as_object().into_iter().flatten() {
                    if !value.is_null() {
                        usage.insert(key.clone(), value.clone());
                    }
                }
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    let delta = &event["delta"];
                    stop = (
                        Some(reason.to_owned()),
                        delta["stop_sequence"].clone(),
                        delta["stop_details"].clone(),
                    );
                }
            }
            _ => {}
        }
    }
    let is_cut = stop.0.as_deref() == Some("max_tokens");
    let last = order.len().saturating_sub(1);
    for (at, block) in order.iter().enumerate() {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => answer.text.push_str(&text("text")),
            "thinking" => {
                answer.thinking.push_str(&text("thinking"));
                answer.signatures.extend(Some(text("signature")).filter(|signature| !signature.is_empty()));
            }
            "redacted_thinking" => answer.redacted.push(text("data")),
            "tool_use" => {
                let given = block["input"].as_object().is_some_and(|input| !input.is_empty());
                let args = match text("json") {
                    json if json.is_empty() && given => Some(block["input"].clone()),
                    json if json.is_empty() && is_cut && at == last => None,
                    json => args(&json),
                };
                answer.calls.push((text("id"), text("name"), args));
            }
            _ => {}
        }
    }
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let details = usage.get("output_tokens_details").cloned().unwrap_or_default();
    answer.usage = Usage {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        cache_write_1h: usage
            .get("cache_creation")
            .and_then(|kinds| kinds.get("ephemeral_1h_input_tokens"))
            .and_then(Value::as_u64)
            .unwrap_or_default(),
        reasoning: details["thinking_tokens"].as_u64().unwrap_or_default(),
        ..Usage::default()
    };
    if let Some(parts) = usage.get("iterations").and_then(Value::as_array).filter(|parts| parts.len() > 1) {
        answer.usage = iterations(parts, answer.usage);
    }
    answer.stop = stop.0.as_deref().map(|reason| match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence(stop.1.as_str().map(str::to_owned)),
        "pause_turn" => StopReason::PauseTurn,
        "refusal" => StopReason::Refusal(stop.2["explanation"].as_str().map(|why| {
            let said = |name: &str| stop.2[name].as_str();
            let category = said("category").map(|category| format!(" (category: {category})"));
            let other =
                said("recommended_model").map(|model| format!("; the provider recommends {model} for this"));
            [why, &category.unwrap_or_default(), &other.unwrap_or_default()].concat()
        })),
        "compaction" => StopReason::Compaction,
        other => StopReason::Other(other.to_owned()),
    });
    answer
}

pub(crate) fn chat(body: &str) -> Answer {
    let mut answer = Answer::default();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    let mut by_index = BTreeMap::<u64, usize>::new();
    let mut usage = Value::Null;
    let mut finish = String::new();
    let mut refusal = String::new();
    for (at, chunk) in values(body).into_iter().enumerate() {
        if at == 0 {
            answer.model = chunk["model"].as_str().filter(|model| !model.is_empty()).map(str::to_owned);
        }
        // Of several answers the first is read.
        let choice = &chunk["choices"][0];
        let choice =
            if choice["index"].as_u64().is_some_and(|index| index > 0) { &Value::Null } else { choice };
        if let Some(counts) = [&choice["usage"], &chunk["usage"]].into_iter().rfind(|usage| usage.is_object())
        {
            usage = counts.clone();
        }
        // Some servers, and answers that were recorded whole, have the whole message.
        let delta = if choice["message"].is_object() { &choice["message"] } else { &choice["delta"] };
        match &delta["content"] {
            Value::String(text) => answer.text.push_str(text),
            Value::Array(parts) => {
                for part in parts {
                    answer.text.push_str(part["text"].as_str().unwrap_or_default());
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        answer.thinking.push_str(thought["text"].as_str().unwrap_or_default());
                    }
                }
            }
            _ => {}
        }
        let thought = delta["reasoning_content"].as_str().or(delta["reasoning"].as_str());
        answer.thinking.push_str(thought.unwrap_or_default());
        for detail in delta["reasoning_details"].as_array().into_iter().flatten() {
            if let Some(signature) = detail["signature"].as_str() {
                answer.signatures = vec![signature.to_owned()];
            }
        }
        refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let id = piece["id"].as_str().unwrap_or_default();
            let index = piece["index"].as_u64().unwrap_or(calls.len() as u64);
            let known = by_index.get(&index).copied().filter(|at| id.is_empty() || calls[*at].0 == id);
            let at = known.unwrap_or_else(|| {
                calls.push((id.to_owned(), String::new(), String::new()));
                by_index.insert(index, calls.len() - 1);
                calls.len() - 1
            });
            let call = &mut calls[at];
            if call.1.is_empty() {
                call.1 = piece["function"]["name"].as_str().unwrap_or_default().to_owned();
            }
            call.2.push_str(piece["function"]["arguments"].as_str().unwrap_or_default());
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            finish = reason.to_owned();
        }
    }
    // Thoughts without a separate field are between tags.
    if let Some(aloud) = answer.text.trim_start().strip_prefix("<think>") {
        let (thought, said) = aloud.split_once("</think>").unwrap_or((aloud, ""));
        answer.thinking.push_str(thought.trim_start_matches(['\r', '\n']));
        answer.text = said.trim_start().to_owned();
    }
    let last = calls.len().saturating_sub(1);
    for (at, (id, name, json)) in calls.into_iter().enumerate() {
        let parsed = if json.is_empty() && finish == "length" && at == last { None } else { args(&json) };
        answer.calls.push((id, name, parsed));
    }
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let cache_read = count("/prompt_tokens_details/cached_tokens").max(count("/prompt_cache_hit_tokens"));
    let cache_write = count("/prompt_tokens_details/cache_write_tokens");
    let reasoning = count("/completion_tokens_details/reasoning_tokens");
    let (prompt, completion) = (count("/prompt_tokens"), count("/completion_tokens"));
    let apart = reasoning > 0 && count("/total_tokens") == prompt + completion + reasoning;
    answer.usage = Usage {
        input: prompt - cache_read - cache_write,
        output: if apart { completion + reasoning } else { completion },
        cache_read,
        cache_write,
        reasoning,
        billed: usage.get("cost").and_then(Value::as_f64).map(|cost| (cost * 1e9).round() as u64),
        ..Usage::default()
    };
    answer.stop = Some(match finish.as_str() {
        "stop" | "tool_calls" | "content_filter" if !refusal.is_empty() => StopReason::Refusal(Some(refusal)),
        "" | "stop" | "tool_calls" if answer.calls.is_empty() => StopReason::EndTurn,
        "" | "stop" | "tool_calls" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal(None),
        other => StopReason::Other(other.to_owned()),
    });
    answer
}
