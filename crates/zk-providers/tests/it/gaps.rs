//! Streams that lost a part on their way: an answer with a gap is an error, and half a call is none.

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, ModelRef, ProviderError, StopReason, ToolCall};
use zk_core::service::{Provider, StreamEvent};
use zk_providers::{Compat, CompatProfile, Connection, Replay};

use crate::collect::{collect, question};
use crate::server::{Reply, Server};

type Outcome = Result<Vec<StreamEvent>, ProviderError>;

fn read(mut replay: Replay, events: &[Value], lines: bool) -> Outcome {
    for event in events {
        replay.feed(if lines { format!("{event}\n") } else { format!("data: {event}\n\n") }.as_bytes());
    }
    replay.finish();
    let mut out = Vec::new();
    while let Some(event) = replay.next()? {
        out.push(event);
    }
    Ok(out)
}

fn model() -> ModelRef {
    ModelRef::new("p", "m")
}

fn anthropic(events: &[Value]) -> Outcome {
    read(Replay::anthropic(model()), events, false)
}

fn responses(events: &[Value]) -> Outcome {
    read(Replay::responses(model()), events, false)
}

fn assert_gap(outcome: Outcome, what: &str) {
    let error = outcome.expect_err(what);
    assert_eq!(error.kind, ErrorKind::Malformed, "{what}: {error}");
    assert!(error.hint.is_some(), "{what}");
}

fn call(events: &[StreamEvent]) -> &ToolCall {
    let mut blocks = events.iter().filter_map(|event| match event {
        StreamEvent::Block { content: Block::ToolCall(call), .. } => Some(call),
        _ => None,
    });
    blocks.next().expect("a call")
}

#[test]
fn text_whose_block_never_began_is_an_error() {
    let start = json!({"type": "message_start", "message": {}});
    let text =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lost"}});
    let stop = json!({"type": "message_stop"});
    assert_gap(anthropic(&[start.clone(), text.clone(), stop.clone()]), "no beginning");
    let begin =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let end = json!({"type": "content_block_stop", "index": 0});
    let late = [start.clone(), begin, text.clone(), end, text, stop.clone()];
    assert_gap(anthropic(&late), "after its end");
    let empty =
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": ""}});
    assert!(anthropic(&[start, empty, stop]).is_ok(), "nothing is lost");

    let created = json!({"type": "response.created", "response": {}});
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "lost"});
    let done = |output: Value| {
        let response = json!({"status": "completed", "output": output});
        json!({"type": "response.completed", "response": response})
    };
    assert_gap(responses(&[created.clone(), text.clone(), done(json!([]))]), "no item");
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": "lost"}]});
    let whole = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    assert!(responses(&[created, text, whole, done(json!([item]))]).is_ok(), "it came whole after all");
}

#[test]
fn an_end_without_a_beginning_is_an_error_in_every_dialect() {
    assert_gap(anthropic(&[json!({"type": "message_stop"})]), "message_stop");
    assert_gap(responses(&[json!({"type": "response.completed"})]), "response.completed");
    let done = [json!({"done": true, "done_reason": "stop"})];
    assert_gap(read(Replay::ollama(model()), &done, true), "done");
    assert_gap(read(Replay::chat(model()), &[], false), "chat");
    let mut replay = Replay::chat(model());
    replay.feed(b"data: [DONE]\n\n");
    assert_gap(replay.next().map(|event| event.into_iter().collect()), "[DONE]");
    assert_gap(read(Replay::gemini(model()), &[json!({"candidates": []})], false), "gemini");
}

#[test]
fn a_call_whose_block_never_ended_is_not_executed_however_whole_it_looks() {
    let start = json!({"type": "message_start", "message": {}});
    let begin = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "c", "name": "rm", "input": {}}});
    let args = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\"/\"}"}});
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    let stop = json!({"type": "message_stop"});
    let end = json!({"type": "content_block_stop", "index": 0});
    let open = anthropic(&[start.clone(), begin.clone(), args.clone(), delta.clone(), stop.clone()]);
    let open = open.expect("the response has its end");
    assert_eq!(call(&open).malformed.as_deref(), Some("{\"path\":\"/\"}"));
    let whole = anthropic(&[start, begin, args, end, delta, stop]).expect("it is whole");
    assert_eq!(call(&whole).malformed, None);
    assert!(matches!(whole.last(), Some(StreamEvent::Done { stop: StopReason::ToolUse, .. })));

    let item = json!({"type": "function_call", "id": "i", "call_id": "c", "name": "rm"});
    let begin = json!({"type": "response.output_item.added", "output_index": 0, "item": item});
    let args = json!({"type": "response.function_call_arguments.delta", "output_index": 0,
        "delta": "{\"path\":\"/\"}"});
    let ended = json!({"type": "response.function_call_arguments.done", "output_index": 0,
        "arguments": "{\"path\":\"/\"}"});
    let done = json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let open = responses(&[begin.clone(), args.clone(), done.clone()]).expect("the response has its end");
    assert!(call(&open).malformed.is_some());
    let whole = responses(&[begin, args, ended, done]).expect("it is whole");
    assert_eq!(call(&whole).malformed, None, "the arguments had their end");
}

#[test]
fn what_a_failed_response_used_is_told_before_its_error() {
    let usage = json!({"input_tokens": 6500, "output_tokens": 3});
    let response = json!({"status": "failed", "error": {"message": "sorry"}, "usage": usage});
    let mut replay = Replay::responses(model());
    replay.feed(format!("data: {}\n\n", json!({"type": "response.failed", "response": response})).as_bytes());
    let mut told = None;
    loop {
        match replay.next() {
            Ok(Some(StreamEvent::Usage(usage))) => told = Some(usage.input),
            Ok(Some(_)) => {}
            Ok(None) => panic!("it failed"),
            Err(_) => break,
        }
    }
    assert_eq!(told, Some(6500));
}

#[tokio::test]
async fn a_bad_request_whose_body_breaks_off_is_not_taken_for_an_overflow() {
    let part = Reply::new("400 Bad Request", "content-type: application/json\r\ncontent-length: 500\r\n", "");
    let said = part.clone().send("{\"error\":{\"message\":\"prompt is too long: 9 tok");
    for (reply, kind) in [(part, ErrorKind::Rejected), (said, ErrorKind::ContextExceeded)] {
        let server = Server::start([reply]).await;
        let provider = Compat::new(Connection::at(&server.url), CompatProfile::default()).expect("valid");
        let answer = collect(provider.stream(question(&provider, "m"), &Bus::new().cx())).await;
        let (error, _) = answer.expect_err("a bad request");
        assert_eq!((error.kind, error.status), (kind, Some(400)), "{error}");
    }
}
