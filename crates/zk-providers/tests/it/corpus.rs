//! The fuzzers' corpus, read as they read it, so that what they found is looked at on any toolchain.

use std::path::Path;

use serde_json::json;
use zk_core::model::ModelRef;
use zk_core::service::StreamEvent;
use zk_providers::Replay;

use crate::promises::{self, Cuts};

/// Subjects of fuzzing: each has a target, a corpus and a dictionary of its name.
const TARGETS: [&str; 7] = ["anthropic", "args", "chat", "gemini", "ollama", "responses", "sse"];

#[test]
fn every_input_of_the_corpus_keeps_the_promises_however_it_is_cut() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let inputs = std::fs::read_dir(corpus.join(target)).expect("every target has a corpus");
        let mut count = 0;
        for input in inputs {
            let bytes = std::fs::read(input.expect("a file").path()).expect("it can be read");
            for seed in 0..4 {
                promises::check(target, &bytes, Cuts::new(seed));
            }
            promises::check(target, &bytes, Cuts::drawn_from(&bytes));
            count += 1;
        }
        assert!(count >= 10, "{target} has {count} inputs");
    }
}

/// Returns the events of a call: its announcement and its pieces.
fn call(mut replay: Replay, body: &str) -> Vec<StreamEvent> {
    replay.feed(body.as_bytes());
    replay.finish();
    let mut events = Vec::new();
    while let Some(event) = replay.next().expect("it is a response") {
        if matches!(event, StreamEvent::ToolCall { .. } | StreamEvent::ToolArgs { .. }) {
            events.push(event);
        }
    }
    events
}

fn model() -> ModelRef {
    ModelRef::new("any", "m")
}

#[test]
fn arguments_that_come_before_the_name_wait_for_it() {
    let body = [
        json!({"type": "response.output_item.added", "item": {"type": "function_call", "id": "f"}}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{}"}),
        json!({"type": "response.output_item.done",
            "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "late", "arguments": "{}"}}),
        json!({"type": "response.completed", "response": {"output": []}}),
    ];
    let events = call(Replay::responses(model()), &body.map(|event| format!("data: {event}\n\n")).concat());
    let begun = StreamEvent::ToolCall { block: 0, id: "c".into(), name: "late".into() };
    assert_eq!(events, [begun, StreamEvent::ToolArgs { block: 0, delta: "{}".into() }]);
}

#[test]
fn arguments_of_no_text_are_no_piece() {
    let body = json!({"message": {"tool_calls": [{"id": "c", "function": {"name": "n", "arguments": ""}}]},
        "done": true});
    let events = call(Replay::ollama(model()), &format!("{body}\n"));
    assert_eq!(events, [StreamEvent::ToolCall { block: 0, id: "c".into(), name: "n".into() }]);
}
