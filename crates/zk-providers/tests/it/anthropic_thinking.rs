//! Thinking that Anthropic does not take back is left out, once it has said so.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::{Value, json};
use zk_core::events::ProviderRetry;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{
    Block, ErrorKind, Message, ModelRef, StopReason, Thinking, ThinkingLevel, ThinkingRequest, ToolCall,
};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};
use zk_providers::{Anthropic, AnthropicOptions};

use crate::collect::{collect, request};
use crate::server::{Received, Reply, Server};

const MODEL: &str = "claude-opus-5";
const BUDGET: &str = "claude-sonnet-4-5";
const OK: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\n\
    data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\n\
    data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
    data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
    data: {\"type\":\"message_stop\"}\n\n";
const BOUND: &str = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a \
    different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \
    \"drop_block\".";

fn refusal(code: Option<&str>, message: &str) -> Reply {
    let details = code.map_or(Value::Null, |code| json!({"error_code": code}));
    let error = json!({"type": "invalid_request_error", "message": message, "details": details});
    Reply::json("400 Bad Request", json!({"type": "error", "error": error}).to_string())
}

fn claude(server: &Server) -> Anthropic {
    let connection = Anthropic::connection().base_url(&server.url).key("k-test");
    Anthropic::new(connection, AnthropicOptions::default()).expect("valid options")
}

fn thought(model: &str, signature: &str) -> Block {
    Block::Thinking(Thinking {
        text: "hm".to_owned(),
        signature: Some(signature.to_owned()),
        origin: Some(ModelRef::new("anthropic", model)),
        ..Thinking::default()
    })
}

fn redacted(model: &str) -> Block {
    let origin = Some(ModelRef::new("anthropic", model));
    Block::Thinking(Thinking { redacted: Some("r".to_owned()), origin, ..Thinking::default() })
}

/// A conversation in the middle of a call, with thinking in both answers.
fn history(model: &str) -> Vec<Arc<Message>> {
    let said = |content, stop| Message { stop: Some(stop), ..Message::assistant(content) };
    let call = Block::ToolCall(ToolCall::new("c1", "look", json!({})));
    [
        Message::user_text("hello"),
        said(vec![thought(model, "s1"), redacted(model), Block::text("hi")], StopReason::EndTurn),
        Message::user_text("look"),
        said(vec![thought(model, "s2"), call], StopReason::ToolUse),
        Message::user(vec![Block::result("c1", "seen", false)]),
    ]
    .map(Arc::new)
    .into()
}

fn asked(claude: &Anthropic, model: &str, history: &[Arc<Message>]) -> Request {
    let thinking = ThinkingRequest { level: ThinkingLevel::Medium, budget: None };
    Request { thinking, max_tokens: 8_000, ..request(claude, model, history) }
}

/// The kinds of the blocks that were sent.
fn kinds(received: &Received) -> Vec<String> {
    let body = received.json();
    let messages = body["messages"].as_array().expect("messages").iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().expect("content").clone());
    blocks.map(|block| block["type"].as_str().expect("a type").to_owned()).collect()
}

fn has_thinking(received: &Received) -> bool {
    kinds(received).iter().any(|kind| kind.contains("thinking"))
}

#[tokio::test]
async fn thinking_that_is_refused_is_left_out_of_one_more_attempt() {
    for (code, message) in [
        (None, BOUND),
        (Some("prefix_binding_mismatch"), "The request cannot be served."),
        (None, "messages.1.content.0: Invalid signature in thinking block"),
        (
            None,
            "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message \
            cannot be modified. These blocks must remain as they were in the original response.",
        ),
        (None, "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."),
    ] {
        let server = Server::start([refusal(code, message), Reply::sse(OK)]).await;
        let claude = claude(&server);
        let bus = Bus::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        let scope = bus.scope("test");
        scope.on_sync(move |event: &ProviderRetry, _: &Cx| {
            log.lock().expect("the log").push(event.retry.message.clone());
        });
        let mut seen = Vec::new();
        let stream = claude.stream(asked(&claude, MODEL, &history(MODEL)), &bus.cx());
        let mut events = stream.map(|event| event.expect("an answer"));
        while let Some(event) = events.next().await {
            seen.push(event);
        }
        let retries: Vec<_> = seen.iter().filter(|event| matches!(event, StreamEvent::Retry(_))).collect();
        assert!(matches!(seen.first(), Some(StreamEvent::Retry(_))), "before anything else: {seen:?}");
        assert_eq!(retries.len(), 1, "{message}");
        let told = told.lock().expect("the log").clone();
        assert!(matches!(&*told, [one] if one.contains("without the thinking")), "{told:?}");
        let [first, second] = &*server.received() else { panic!("two requests: {message}") };
        assert!(has_thinking(first));
        assert_eq!(kinds(second), ["text", "text", "text", "tool_use", "tool_result"], "{message}");
        assert_eq!(second.json()["thinking"]["type"], "adaptive");
    }
}

#[tokio::test]
async fn what_was_refused_once_is_not_sent_again_and_what_came_since_is() {
    let server = Server::start([refusal(None, BOUND), Reply::sse(OK), Reply::sse(OK)]).await;
    let claude = claude(&server);
    let mut history = history(MODEL);
    collect(claude.stream(asked(&claude, MODEL, &history), &Bus::new().cx())).await.expect("an answer");
    let answer = vec![thought(MODEL, "s3"), Block::text("ok")];
    history.push(Message { stop: Some(StopReason::EndTurn), ..Message::assistant(answer) }.shared());
    history.push(Message::user_text("more").shared());
    collect(claude.stream(asked(&claude, MODEL, &history), &Bus::new().cx())).await.expect("an answer");
    let received = server.received();
    assert_eq!(received.len(), 3, "the second turn is not refused");
    let last = received[2].json();
    assert_eq!(
        last["messages"][5]["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": "s3"})
    );
    assert_eq!(kinds(&received[2]).iter().filter(|kind| kind.contains("thinking")).count(), 1);
}

#[tokio::test]
async fn a_model_that_must_think_before_its_calls_does_not_think_where_its_thinking_was_refused() {
    let server = Server::start([refusal(None, BOUND), Reply::sse(OK)]).await;
    let claude = claude(&server);
    collect(claude.stream(asked(&claude, BUDGET, &history(BUDGET)), &Bus::new().cx()))
        .await
        .expect("an answer");
    let received = server.received();
    assert_eq!(received[0].json()["thinking"]["type"], "enabled");
    assert_eq!(received[1].json()["thinking"], Value::Null);
}

#[tokio::test]
async fn a_request_is_sent_again_once_and_only_for_thinking_it_holds() {
    let unthought = [Message::user_text("hello").shared()];
    let other = "messages: text content blocks must be non-empty";
    for (replies, history, requests) in [
        (vec![refusal(None, BOUND), refusal(None, BOUND), Reply::sse(OK)], history(MODEL), 2),
        (vec![refusal(None, BOUND), Reply::sse(OK)], unthought.to_vec(), 1),
        (vec![refusal(None, other), Reply::sse(OK)], history(MODEL), 1),
    ] {
        let server = Server::start(replies).await;
        let claude = claude(&server);
        let events: EventStream = claude.stream(asked(&claude, MODEL, &history), &Bus::new().cx());
        let (error, _) = collect(events).await.expect_err("an error");
        assert_eq!((error.kind, error.status), (ErrorKind::Rejected, Some(400)));
        assert_eq!(server.received().len(), requests, "{error}");
    }
}

#[tokio::test]
async fn an_error_within_an_answer_is_not_answered_with_another_request() {
    let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": BOUND}});
    let body = format!(
        "{}event: error\ndata: {error}\n\n",
        OK.split("data: {\"type\":\"message_delta").next().expect("a start")
    );
    let server = Server::start([Reply::sse(body), Reply::sse(OK)]).await;
    let claude = claude(&server);
    let stream = claude.stream(asked(&claude, MODEL, &history(MODEL)), &Bus::new().cx());
    let (_, answer) = collect(stream).await.expect_err("an error");
    assert_eq!(answer.text, "ok", "what had come is kept");
    assert_eq!(server.received().len(), 1);
}
