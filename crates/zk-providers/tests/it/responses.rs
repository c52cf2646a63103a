//! Outcome of a Responses stream, and what becomes of it in the next request.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, ProviderError, StopReason};
use zk_core::service::Provider;
use zk_providers::{Connection, Responses, ResponsesOptions};

use crate::collect::{Answer, collect, request};
use crate::server::{Reply, Server};

/// Events as a stream.
pub(crate) fn sse(events: &[Value]) -> String {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}

pub(crate) fn completed(response: &Value) -> Value {
    json!({"type": "response.completed", "response": response})
}

pub(crate) fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

pub(crate) fn openai(url: &str) -> Responses {
    let connection = Responses::connection().base_url(url).key("k-test");
    Responses::new(connection, ResponsesOptions::default()).expect("valid options")
}

fn local(url: &str) -> Responses {
    Responses::new(Connection::at(url), ResponsesOptions::compatible()).expect("valid options")
}

async fn ask(make: fn(&str) -> Responses, reply: Reply) -> Result<Answer, (ProviderError, Answer)> {
    let server = Server::start([reply]).await;
    let provider = make(&server.url);
    let request = request(&provider, "gpt-5.2", &[Message::user_text("hello").shared()]);
    collect(provider.stream(request, &Bus::new().cx())).await
}

async fn answer(events: &[Value]) -> Answer {
    ask(openai, Reply::sse(sse(events))).await.expect("an answer")
}

async fn failure(reply: Reply) -> ProviderError {
    ask(openai, reply).await.expect_err("an error").0
}

/// Items for sending the blocks of a response back.
pub(crate) async fn sent_back(provider: fn(&str) -> Responses, blocks: Vec<Block>) -> Vec<Value> {
    let server = Server::start([Reply::sse(sse(&[completed(&json!({}))]))]).await;
    let provider = provider(&server.url);
    let results = blocks.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(Block::result(call.id.clone(), "done", false)),
        _ => None,
    });
    let results: Vec<Block> = results.chain([Block::text("go on")]).collect();
    let history: Vec<Arc<Message>> =
        [Message::user_text("hello"), Message::assistant(blocks), Message::user(results)]
            .map(Arc::new)
            .into();
    let request = request(&provider, "gpt-5.2", &history);
    collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
    let body = server.received().remove(0).json();
    let items = body["input"].as_array().expect("items").clone();
    let is_mine = |item: &Value| item["role"] != "user" && item["type"] != "function_call_output";
    items.into_iter().filter(is_mine).collect()
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn reasoning(id: &str, seal: Option<&str>) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": seal})
}

fn call(id: &str, call_id: &str, args: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": "add", "arguments": args})
}

#[tokio::test]
async fn sealed_reasoning_goes_back_with_what_it_led_to() {
    let output =
        [reasoning("rs_1", Some("seal1")), call("fc_1", "call_1", "{}"), call("fc_2", "call_2", "{\"a\":1}")];
    let events: Vec<Value> = (0..).zip(&output).map(|(at, item)| done(at, item)).collect();
    let answer = answer(&[events, vec![completed(&json!({}))]].concat()).await;
    assert_eq!(answer.stop, Some(StopReason::ToolUse));
    let back = sent_back(openai, answer.blocks.clone()).await;
    assert_eq!(back, output);
    let without_calls: Vec<Block> = answer.blocks.into_iter().take(1).collect();
    assert!(sent_back(openai, without_calls).await.is_empty(), "reasoning never goes back alone");
}

#[tokio::test]
async fn without_its_reasoning_an_item_goes_back_without_its_id() {
    let answer =
        answer(&[done(0, &reasoning("rs_1", None)), done(1, &message("msg_1", "hi")), completed(&json!({}))])
            .await;
    let back = sent_back(openai, answer.blocks).await;
    assert_eq!(back.len(), 1);
    assert_eq!(back[0].get("id"), None, "{}", back[0]);
}

#[tokio::test]
async fn a_seal_that_comes_with_the_end_only_is_not_lost() {
    let end = completed(&json!({"output": [reasoning("rs_1", Some("late")), message("msg_1", "hi")]}));
    let answer = answer(&[done(0, &reasoning("rs_1", None)), done(1, &message("msg_1", "hi")), end]).await;
    assert_eq!(answer.signatures, ["late"]);
    assert_eq!(sent_back(openai, answer.blocks).await.len(), 2);
}

#[tokio::test]
async fn items_without_a_block_go_back_where_they_were() {
    let compaction = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let output = [compaction, reasoning("rs_1", Some("seal")), search, message("msg_1", "hi")];
    let events: Vec<Value> = (0..).zip(&output).map(|(at, item)| done(at, item)).collect();
    let answer = answer(&[events, vec![completed(&json!({}))]].concat()).await;
    assert_eq!(answer.text, "hi");
    let kinds =
        |items: &[Value]| -> Vec<String> { items.iter().map(|item| item["type"].to_string()).collect() };
    assert_eq!(kinds(&sent_back(openai, answer.blocks).await), kinds(&output));
}

#[tokio::test]
async fn a_comment_on_the_way_stays_one() {
    let mut comment = message("msg_1", "looking");
    comment["phase"] = json!("commentary");
    let answer = answer(&[done(0, &comment), completed(&json!({}))]).await;
    assert_eq!(sent_back(openai, answer.blocks).await, [comment]);
}

#[tokio::test]
async fn ids_that_change_between_events_are_told_apart_by_their_place() {
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "a"}}),
        json!({"type": "response.output_item.added", "output_index": 1,
            "item": {"type": "function_call", "id": "b", "call_id": "call_1", "name": "add"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "c", "delta": "hi"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "a", "delta": "{\"a\""}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "d", "delta": ":1}"}),
        done(0, &message("e", "hi")),
        done(1, &call(&"f".repeat(300), "call_1", "{\"a\":1}")),
        completed(&json!({"status": "completed"})),
    ];
    let answer = answer(&events).await;
    assert_eq!(answer.text, "hi");
    assert_eq!(answer.calls, [("call_1".into(), "add".into(), Some(json!({"a": 1})))]);
    let back = sent_back(openai, answer.blocks).await;
    assert_eq!((&back[0]["id"], back[1].get("id")), (&json!("e"), None), "too long an id is not taken back");
}

#[tokio::test]
async fn a_server_without_places_and_ids_is_understood() {
    let events = [
        json!({"type": "response.output_item.added", "item": {"type": "reasoning", "id": "rs"}}),
        json!({"type": "response.reasoning_text.delta", "item_id": "rs", "delta": "hm"}),
        json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs",
            "content": [{"type": "reasoning_text", "text": "hm"}]}}),
        json!({"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "c", "name": "add"}}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{}"}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "c",
            "name": "add", "arguments": "{}"}}),
        completed(&json!({"status": "completed", "usage": {"input_tokens": 5, "output_tokens": 2}})),
    ];
    let answer = ask(local, Reply::sse(sse(&events))).await.expect("an answer");
    assert_eq!((answer.thinking.as_str(), answer.calls.len()), ("hm", 1));
    assert_eq!((answer.usage.input, answer.usage.output), (5, 2));
    let back = sent_back(local, answer.blocks).await;
    assert_eq!(back.len(), 1, "such a server is told nothing it did not ask for");
}

#[tokio::test]
async fn what_used_up_its_limit_in_silence_was_cut() {
    let used = json!({"status": "completed", "usage": {"input_tokens": 5, "output_tokens": 4096}});
    let events = [done(0, &message("m", "on and on")), completed(&used)];
    let local = ask(local, Reply::sse(sse(&events))).await.expect("an answer");
    assert_eq!(local.stop, Some(StopReason::MaxTokens));
    assert_eq!(answer(&events).await.stop, Some(StopReason::EndTurn), "OpenAI says so itself");
}

#[tokio::test]
async fn a_call_cut_by_the_limit_is_marked_and_never_guessed() {
    for args in ["", "{\"a\": "] {
        let mut cut = call("fc_1", "call_1", args);
        cut["status"] = json!("incomplete");
        let end = json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"}}});
        let answer = answer(&[done(0, &cut), end]).await;
        assert_eq!(answer.stop, Some(StopReason::MaxTokens));
        assert_eq!(answer.calls, [("call_1".into(), "add".into(), None)], "{args:?}");
    }
}

#[tokio::test]
async fn every_end_has_its_reason() {
    let incomplete = |reason: &str| {
        json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": reason}}})
    };
    let refused = json!({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]});
    for (end, stop) in [
        (incomplete("content_filter"), StopReason::Refusal(None)),
        (incomplete("new_reason"), StopReason::Other("new_reason".into())),
        (
            completed(&json!({"status": "completed", "output": [refused]})),
            StopReason::Refusal(Some("no".into())),
        ),
        (
            json!({"type": "response.done", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"}}}),
            StopReason::MaxTokens,
        ),
        (json!({"type": "response.done", "response": {"end_turn": false}}), StopReason::PauseTurn),
        (json!({"type": "response.done", "response": {}}), StopReason::EndTurn),
    ] {
        assert_eq!(answer(std::slice::from_ref(&end)).await.stop, Some(stop), "{end}");
    }
}

#[tokio::test]
async fn every_failure_of_a_stream_gets_its_class() {
    let failed =
        |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    for (event, kind) in [
        (json!({"type": "error", "code": "insufficient_quota", "message": "no money"}), ErrorKind::Quota),
        (
            json!({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
            ErrorKind::Rate,
        ),
        (
            failed(json!({"code": "context_length_exceeded", "message": "too big"})),
            ErrorKind::ContextExceeded,
        ),
        (failed(json!({"code": "server_error", "message": "oops"})), ErrorKind::Overloaded),
        (failed(json!({"code": "server_is_overloaded", "message": "busy"})), ErrorKind::Overloaded),
        (failed(json!({"code": "invalid_prompt", "message": "no"})), ErrorKind::Rejected),
        (failed(json!({"code": "image_content_policy_violation", "message": "no"})), ErrorKind::Refused),
        (failed(Value::Null), ErrorKind::Overloaded),
        (json!({"type": "response.cancelled", "response": {"status": "cancelled"}}), ErrorKind::Overloaded),
    ] {
        let error = failure(Reply::sse(sse(std::slice::from_ref(&event)))).await;
        assert_eq!(error.kind, kind, "{event}: {error}");
    }
}

#[tokio::test]
async fn a_response_without_its_end_is_an_error() {
    let error = failure(Reply::sse(sse(&[done(0, &message("m", "hi"))]))).await;
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.contains("response.completed") || error.message.contains("began"), "{error}");
}

#[tokio::test]
async fn a_used_up_subscription_says_when_it_is_refilled() {
    let resets = std::time::SystemTime::now() + std::time::Duration::from_secs(7200);
    let resets = resets.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    for body in [
        json!({"error": {"type": "usage_limit_reached", "message": "limit", "plan_type": "plus", "resets_at": resets}}),
        json!({"error": {"type": "usage_limit_reached", "message": "limit", "resets_in_seconds": 7200}}),
    ] {
        let error = failure(Reply::json("429 Too Many Requests", body.to_string())).await;
        assert_eq!(error.kind, ErrorKind::Quota);
        assert!(!error.is_retryable());
        let wait = error.retry_after.expect("a time to wait").as_secs();
        assert!((7100..=7200).contains(&wait), "{wait}");
        assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("h")), "{error}");
    }
}

#[tokio::test]
async fn codex_explains_itself_in_a_detail() {
    let body = json!({"detail": "Unsupported parameter: max_output_tokens"}).to_string();
    let error = failure(Reply::json("400 Bad Request", body)).await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::Rejected, "Unsupported parameter: max_output_tokens")
    );
}

#[tokio::test]
async fn a_server_that_sees_no_images_is_not_asked_again() {
    let body = json!({"error": {"code": 500, "type": "server_error",
        "message": "image input is not supported - hint: you may need to provide the mmproj"}});
    let error = failure(Reply::json("500 Internal Server Error", body.to_string())).await;
    assert_eq!((error.kind, error.is_retryable()), (ErrorKind::Rejected, false), "{error}");
}
