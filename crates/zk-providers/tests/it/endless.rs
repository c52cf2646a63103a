//! Answers without an end: each is cut by a cap that the error names, and not asked for again.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, ModelRef, ProviderError};
use zk_core::service::StreamEvent;
use zk_providers::Replay;

const PIECE: usize = 64 << 10;
/// More than any cap, in pieces.
const ENDLESS: usize = 2000;

fn sse(event: &Value) -> String {
    format!("data: {event}\n\n")
}

fn chat(delta: &Value) -> String {
    sse(&json!({"choices": [{"index": 0, "delta": delta}]}))
}

/// Error that ends an endless stream of `piece`, and the number of bytes emitted before.
fn cut(mut replay: Replay, begin: &str, piece: &str) -> (ProviderError, usize) {
    let mut seen = 0;
    for chunk in std::iter::once(begin).chain(std::iter::repeat_n(piece, ENDLESS)) {
        replay.feed(chunk.as_bytes());
        loop {
            match replay.next() {
                Ok(Some(
                    StreamEvent::Text { delta, .. }
                    | StreamEvent::Thinking { delta, .. }
                    | StreamEvent::ToolArgs { delta, .. },
                )) => seen += delta.len(),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return (error, seen),
            }
        }
    }
    panic!("it went on for {seen} bytes")
}

fn model() -> ModelRef {
    ModelRef::new("p", "m")
}

fn cases() -> Vec<(&'static str, &'static str, Replay, String, String)> {
    let x = "x".repeat(PIECE);
    let start = sse(&json!({"type": "message_start", "message": {}}));
    let begun = |block: Value| {
        format!("{start}{}", sse(&json!({"type": "content_block_start", "index": 0, "content_block": block})))
    };
    let delta = |delta: Value| sse(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let item =
        |item: Value| sse(&json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
    let call = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}});
    let chat_text = || Replay::chat(model());
    let line = |message: Value| format!("{}\n", json!({ "message": message }));
    let part = |part: Value| sse(&json!({"candidates": [{"content": {"parts": [part]}}]}));
    let (answer, arguments, unseen) = ("8 MiB", "4 MiB", "32 MiB");
    vec![
        (
            "anthropic text",
            answer,
            Replay::anthropic(model()),
            begun(json!({"type": "text", "text": ""})),
            delta(json!({"type": "text_delta", "text": x})),
        ),
        (
            "anthropic thinking",
            answer,
            Replay::anthropic(model()),
            begun(json!({"type": "thinking"})),
            delta(json!({"type": "thinking_delta", "thinking": x})),
        ),
        (
            "anthropic arguments",
            arguments,
            Replay::anthropic(model()),
            begun(json!({"type": "tool_use", "id": "c", "name": "f"})),
            delta(json!({"type": "input_json_delta", "partial_json": x})),
        ),
        (
            "anthropic signature",
            unseen,
            Replay::anthropic(model()),
            begun(json!({"type": "thinking"})),
            delta(json!({"type": "signature_delta", "signature": x})),
        ),
        (
            "anthropic hosted",
            unseen,
            Replay::anthropic(model()),
            begun(json!({"type": "server_tool_use", "id": "c", "name": "f"})),
            delta(json!({"type": "input_json_delta", "partial_json": x})),
        ),
        ("chat text", answer, chat_text(), chat(&json!({"content": "a"})), chat(&json!({"content": x}))),
        ("chat reasoning", answer, chat_text(), String::new(), chat(&json!({"reasoning_content": x}))),
        ("chat refusal", unseen, chat_text(), String::new(), chat(&json!({"refusal": x}))),
        (
            "chat arguments",
            arguments,
            chat_text(),
            chat(&json!({"tool_calls": [call]})),
            chat(&json!({"tool_calls": [{"index": 0, "function": {"arguments": x}}]})),
        ),
        (
            "responses text",
            answer,
            Replay::responses(model()),
            item(json!({"type": "message", "id": "m"})),
            sse(&json!({"type": "response.output_text.delta", "output_index": 0, "delta": x})),
        ),
        (
            "responses arguments",
            arguments,
            Replay::responses(model()),
            item(json!({"type": "function_call", "call_id": "c", "name": "f"})),
            sse(&json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": x})),
        ),
        ("gemini text", answer, Replay::gemini(model()), String::new(), part(json!({"text": x}))),
        ("ollama text", answer, Replay::ollama(model()), String::new(), line(json!({"content": x}))),
        ("ollama thinking", answer, Replay::ollama(model()), String::new(), line(json!({"thinking": x}))),
    ]
}

#[test]
fn an_answer_without_an_end_is_cut_by_a_cap_that_is_named_and_never_asked_for_again() {
    for (name, cap, replay, begin, piece) in cases() {
        let (error, seen) = cut(replay, &begin, &piece);
        assert_eq!(error.kind, ErrorKind::Malformed, "{name}: {error}");
        assert!(error.message.contains(&format!("than {cap}, the most zk takes")), "{name}: {error}");
        assert!(!error.is_retryable() && error.should_retry == Some(false), "{name}");
        assert!(seen <= 8 << 20, "{name}: {seen}");
    }
}

#[test]
fn calls_without_an_end_are_cut_and_ten_thousand_are_not() {
    let call = |at: usize| {
        let function = json!({"name": "f", "arguments": "{}"});
        chat(&json!({"tool_calls": [{"index": at, "id": format!("call_{at}"), "function": function}]}))
    };
    let mut replay = Replay::chat(model());
    let error = (0..200_000).find_map(|at| {
        replay.feed(call(at).as_bytes());
        loop {
            match replay.next() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some((at, error)),
            }
        }
    });
    let (at, error) = error.expect("there is a cap");
    assert!(at > 10_000, "{at}");
    assert!(error.message.contains("8 MiB"), "{error}");
}

#[test]
fn a_line_without_an_end_is_cut() {
    for (name, mut replay) in [
        ("sse", Replay::chat(model())),
        ("ndjson", Replay::ollama(model())),
        ("comment", Replay::anthropic(model())),
    ] {
        replay.feed(if name == "comment" { b": ".as_slice() } else { b"data: {\"x\": \"".as_slice() });
        let piece = vec![b'x'; PIECE];
        let error = (0..ENDLESS).find_map(|_| {
            replay.feed(&piece);
            replay.next().err()
        });
        let error = error.unwrap_or_else(|| panic!("{name} has no cap"));
        assert!(error.message.contains(&(16 << 20).to_string()), "{name}: {error}");
        assert!(!error.is_retryable());
    }
}
