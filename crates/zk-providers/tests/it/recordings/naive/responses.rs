//! A second, independent reading of a Responses stream: by its whole items, where the adapter reads the pieces.

use serde_json::{Value, json};
use zk_core::model::{StopReason, Usage};

use super::events;
use crate::collect::Answer;

fn values(body: &str) -> Vec<Value> {
    let parse = |(_, data): (String, String)| serde_json::from_str(&data).ok();
    events(body).into_iter().filter_map(parse).collect()
}

fn is_end(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    matches!(kind, "response.completed" | "response.incomplete" | "response.failed" | "response.done")
}

/// Reason for which a recorded stream must fail, if any.
pub(crate) fn failure(body: &str) -> Option<&'static str> {
    let values = values(body);
    if values.iter().any(|event| event["type"] == "error" || event["type"] == "response.failed") {
        return Some("error event");
    }
    match values.iter().find(|event| is_end(event)) {
        None => Some("no terminal event"),
        Some(end) if end["response"]["status"] == "failed" => Some("failed response"),
        Some(_) => None,
    }
}

/// Whole items in the order of their ends, or else those of the final event.
pub(crate) fn items(body: &str) -> Vec<Value> {
    let values = values(body);
    let ended = values.iter().filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<Value> = ended.map(|event| event["item"].clone()).collect();
    if !items.is_empty() {
        return items;
    }
    let end = values.iter().find(|event| is_end(event));
    end.and_then(|end| end["response"]["output"].as_array().cloned()).unwrap_or_default()
}

fn texts<'a>(item: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    item[list].as_array().into_iter().flatten().filter_map(|part| part[field].as_str()).collect()
}

pub(crate) fn read(body: &str) -> Answer {
    let values = values(body);
    let end = values.iter().find(|event| is_end(event)).expect("a terminal event");
    let response = &end["response"];
    let first = values.iter().find(|event| event["response"].is_object()).expect("a first event");
    let mut answer =
        Answer { model: first["response"]["model"].as_str().map(str::to_owned), ..Answer::default() };
    let mut refusal = String::new();
    for item in items(body) {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                answer.text.push_str(&texts(&item, "content", "text").concat());
                refusal.push_str(&texts(&item, "content", "refusal").concat());
            }
            "reasoning" => {
                let summary = texts(&item, "summary", "text").join("\n\n");
                let raw = texts(&item, "content", "text").concat();
                answer.thinking.push_str(if summary.is_empty() { &raw } else { &summary });
                answer.signatures.extend(item["encrypted_content"].as_str().map(str::to_owned));
            }
            "function_call" => {
                let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
                let args = match text("arguments") {
                    empty if empty.is_empty() => (item["status"] != "incomplete").then(|| json!({})),
                    args => serde_json::from_str(&args).ok().filter(Value::is_object),
                };
                answer.calls.push((text("call_id"), text("name"), args));
            }
            _ => {}
        }
    }
    let count = |path: &str| response["usage"].pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let (input, output) = (count("/input_tokens"), count("/output_tokens"));
    let cache_read = count("/input_tokens_details/cached_tokens");
    let cache_write = count("/input_tokens_details/cache_write_tokens");
    answer.usage = Usage {
        input: input - cache_read - cache_write,
        output,
        cache_read,
        cache_write,
        reasoning: count("/output_tokens_details/reasoning_tokens"),
        ..Usage::default()
    };
    let total = count("/total_tokens");
    assert!(total == 0 || total == input + output, "the counts add up: {}", response["usage"]);
    let reason = response["incomplete_details"]["reason"].as_str();
    answer.stop = Some(match (response["status"].as_str(), reason) {
        (Some("incomplete"), Some("max_output_tokens")) => StopReason::MaxTokens,
        (Some("incomplete"), Some("content_filter")) => StopReason::Refusal(None),
        (Some("incomplete"), other) => StopReason::Other(other.unwrap_or("incomplete").to_owned()),
        _ if !refusal.is_empty() => StopReason::Refusal(Some(refusal)),
        _ if !answer.calls.is_empty() => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    });
    answer
}
