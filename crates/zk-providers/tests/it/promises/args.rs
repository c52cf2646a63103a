use serde_json::{Map, Value};
use zk_core::model::{Block, ModelRef, ToolCall};
use zk_core::service::StreamEvent;
use zk_providers::Replay;

use super::Cuts;
use super::stream::Reading;

/// The bytes are the text of a call's arguments.
pub(super) fn check(bytes: &[u8], cuts: Cuts) {
    let raw = String::from_utf8_lossy(bytes);
    let call = call(&raw, cuts);
    let given: Option<Value> = serde_json::from_str(&raw).ok();
    match &call.malformed {
        Some(kept) => {
            assert_eq!(*kept, raw, "malformed ones are kept as they came");
            assert_eq!(call.args, Value::Object(Map::new()), "and nothing is made of them");
            assert!(!given.is_some_and(|given| given.is_object()), "an object is never malformed: {raw}");
        }
        None => {
            let Value::Object(args) = &call.args else { panic!("not an object: {call:?}") };
            match given {
                Some(Value::Object(given)) => assert_eq!(*args, given, "what parses is not repaired"),
                Some(Value::Null) | None if args.is_empty() => {}
                Some(Value::String(_)) | None => {}
                Some(other) => panic!("{args:?} made of {other}"),
            }
            let end = raw.trim().chars().last();
            assert!(
                end.is_none_or(|end| matches!(end, '}' | '"' | 'l')),
                "the end of the text is the end of the arguments: {raw}"
            );
        }
    }
}

/// The call that arrives as these pieces of text.
fn call(raw: &str, cuts: Cuts) -> ToolCall {
    let mut body = String::from(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
         {\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}}\n\n",
    );
    let (mut rest, mut lengths) = (raw, cuts);
    while !rest.is_empty() {
        let at = (lengths.next()..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(at);
        let piece = serde_json::to_string(piece).expect("text is JSON");
        body.push_str(&format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
             {{\"type\":\"input_json_delta\",\"partial_json\":{piece}}}}}\n\n"
        ));
        rest = tail;
    }
    body.push_str(
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
         data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n\
         data: {\"type\":\"message_stop\"}\n\n",
    );
    let replay = Replay::anthropic(ModelRef::new("fuzzed", "m"));
    let reading = Reading::of(replay, std::iter::once(body.as_bytes()));
    let mut calls = reading.events.into_iter().filter_map(|event| match event {
        StreamEvent::Block { content: Block::ToolCall(call), .. } => Some(call),
        _ => None,
    });
    calls.next().expect("the call is handed out")
}
