//! Parts of a Messages answer that have to come back in the next request: all of them, as they were.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::naive::events;
use super::{Dialect, exchanges_of};
use crate::anthropic_hosted::{decode, sent_back};

/// The content of a stream, put together from whole JSON values, as far as it may go back.
fn received(body: &str) -> Vec<Value> {
    let mut content: BTreeMap<u64, Value> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    let mut whole = Vec::new();
    let mut started = false;
    for event in events(body).into_iter().filter_map(|(_, data)| serde_json::from_str::<Value>(&data).ok()) {
        let index = event["index"].as_u64().unwrap_or_default();
        let delta = &event["delta"];
        match (event["type"].as_str().unwrap_or_default(), delta["type"].as_str().unwrap_or_default()) {
            ("message_start", _) if !started => {
                started = true;
                whole.extend(event["message"]["content"].as_array().cloned().unwrap_or_default());
            }
            ("content_block_start", _) => {
                inputs.remove(&index);
                content.insert(index, event["content_block"].clone());
            }
            ("content_block_delta", "input_json_delta") => {
                inputs.entry(index).or_default().push_str(delta["partial_json"].as_str().expect("text"));
            }
            ("content_block_delta", "citations_delta") => {
                let block = content.get_mut(&index).expect("a block");
                if !block["citations"].is_array() {
                    block["citations"] = json!([]);
                }
                block["citations"].as_array_mut().expect("a list").push(delta["citation"].clone());
            }
            ("content_block_delta", "compaction_delta") => {
                let block = content.get_mut(&index).expect("a block");
                for (name, value) in
                    delta.as_object().expect("fields").iter().filter(|(name, _)| *name != "type")
                {
                    block[name] = value.clone();
                }
            }
            ("content_block_delta", _) => {
                let block = content.get_mut(&index).expect("a block");
                for name in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[name].as_str() {
                        block[name] = json!(format!("{}{more}", block[name].as_str().unwrap_or_default()));
                    }
                }
            }
            _ => {}
        }
    }
    for (index, text) in inputs.into_iter().filter(|(_, text)| !text.is_empty()) {
        content.get_mut(&index).expect("a block")["input"] =
            serde_json::from_str(&text).unwrap_or(Value::Null);
    }
    whole.extend(content.into_values());
    whole.into_iter().filter_map(sendable).collect()
}

/// Received block in the form to send back; `None` for one that must not be sent.
fn sendable(mut block: Value) -> Option<Value> {
    let is_empty = |value: &Value| value.as_str().is_none_or(|text| text.trim().is_empty());
    match block["type"].as_str()? {
        "text" if is_empty(&block["text"]) => return None,
        "thinking" if is_empty(&block["signature"]) => return None,
        _ => {}
    }
    for name in ["citations", "caller", "cache_control"] {
        let fields = block.as_object_mut()?;
        if fields.get(name).is_some_and(|value| value.is_null() || *value == json!([])) {
            fields.remove(name);
        }
    }
    for citation in block.get_mut("citations").and_then(Value::as_array_mut).into_iter().flatten() {
        citation.as_object_mut()?.remove("file_id");
    }
    Some(block)
}

#[tokio::test]
async fn every_recorded_message_goes_back_as_it_came() {
    let (mut wrong, mut count, mut kinds) = (Vec::new(), 0, BTreeSet::new());
    let all = exchanges_of(Dialect::Anthropic);
    if all.is_empty() {
        return;
    }
    for exchange in all {
        // The recorder gave results other ids than their calls; a proxy began one answer twice.
        let is_altered = exchange.body.contains(r#""tool_use_id":"toolu_REDACTED"#)
            || exchange.place().contains("spliced");
        if is_altered {
            continue;
        }
        let Ok(message) = decode(&exchange.body) else { continue };
        let mut wanted = received(&exchange.body);
        if wanted.iter().all(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"))) {
            continue;
        }
        let (mut got, _) = sent_back(message).await;
        for (mine, theirs) in got.iter_mut().zip(&mut wanted) {
            // Truncated arguments are sent back as text.
            if theirs["input"].is_null() && theirs["type"] == "tool_use" {
                (mine["input"], theirs["input"]) = (Value::Null, Value::Null);
            }
        }
        kinds.extend(wanted.iter().filter_map(|block| block["type"].as_str().map(str::to_owned)));
        if got != wanted {
            wrong.push(format!(
                "{}\n  got      {}\n  expected {}",
                exchange.place(),
                json!(got),
                json!(wanted)
            ));
        }
        count += 1;
    }
    println!("{count} messages of {kinds:?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 100, "the fixtures are smaller than they were");
    for kind in
        ["compaction", "mcp_tool_use", "fallback", "tool_search_tool_result", "web_search_tool_result"]
    {
        assert!(kinds.contains(kind), "{kind} is among them");
    }
}
