//! The stream that a Messages answer recorded whole would have been.

use serde_json::{Value, json};

/// Events of the stream: each block starts empty and arrives in one piece, if its kind is streamed.
pub(crate) fn stream(whole: &Value) -> Vec<Value> {
    let mut start = whole.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in whole["content"].as_array().into_iter().flatten().enumerate() {
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        let mut delta = |field: &str, kind: &str, name: &str, empty: Value| {
            if let Some(value) = begun.get_mut(field).map(|value| std::mem::replace(value, empty)) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let mut delta = json!({"type": kind});
                delta[name] = text.into();
                deltas.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
        };
        match block["type"].as_str() {
            Some("text") => delta("text", "text_delta", "text", json!("")),
            Some("thinking") => {
                delta("thinking", "thinking_delta", "thinking", json!(""));
                delta("signature", "signature_delta", "signature", json!(""));
            }
            Some("tool_use") => delta("input", "input_json_delta", "partial_json", json!({})),
            _ => {}
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.append(&mut deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"],
        "stop_details": whole["stop_details"]});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": whole["usage"]}));
    events.push(json!({"type": "message_stop"}));
    events
}
