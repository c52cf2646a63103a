//! Settings of a connection that Anthropic has to be told in its own way.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, StopReason, ThinkingLevel, ThinkingRequest, ToolSpec};
use zk_core::service::{Provider, Request, Ui};
use zk_providers::{Anthropic, AnthropicOptions, Connection, SetupError};

use crate::anthropic_hosted::{decode, sent_back};
use crate::collect::{collect, request};
use crate::server::{Received, Reply, Server};

const OK: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

fn at(url: &str) -> Connection {
    Anthropic::connection().base_url(url).key("k-test")
}

async fn sent(
    connection: impl FnOnce(&str) -> Connection,
    model: &str,
    change: impl FnOnce(&mut Request),
) -> Received {
    let server = Server::start([Reply::sse(OK)]).await;
    let provider = Anthropic::new(connection(&server.url), AnthropicOptions::default()).expect("valid");
    let mut request = request(&provider, model, &[Message::user_text("hi").shared()]);
    change(&mut request);
    collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
    server.received().remove(0)
}

#[tokio::test]
async fn the_token_of_a_sign_in_is_sent_as_one_although_it_was_given_as_a_key() {
    let token = "sk-ant-oat01-secret";
    let received = sent(|url| at(url).key(token), "claude-opus-5", |_| ()).await;
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {token}")));
    assert_eq!(
        (received.header("x-api-key"), received.header("anthropic-beta")),
        (None, Some("oauth-2025-04-20"))
    );
}

#[tokio::test]
async fn versions_and_betas_among_the_headers_join_those_of_zk() {
    let headers = [("Anthropic-Beta", "b-1, b-2"), ("anthropic-version", "2026-10-21"), ("x-own", "1")];
    let with = |url: &str| {
        let extra_headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Connection { extra_headers, ..at(url).key("sk-ant-oat01-x") }
    };
    let received = sent(with, "claude-opus-5", |_| ()).await;
    let lines = |name: &str| -> Vec<String> {
        received
            .head
            .lines()
            .filter(|line| line.to_lowercase().starts_with(name))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(lines("anthropic-beta"), ["anthropic-beta: b-1,b-2,oauth-2025-04-20"]);
    assert_eq!(lines("anthropic-version"), ["anthropic-version: 2026-10-21"]);
    assert_eq!(received.header("x-own"), Some("1"));
}

#[tokio::test]
async fn a_beta_that_is_refused_is_left_out_of_one_more_attempt() {
    let refusal = |beta: &str| {
        let message = format!("Unexpected value(s) `{beta}` for the `anthropic-beta` header");
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        Reply::json("400 Bad Request", error.to_string())
    };
    let betas = |server: &Server| -> Vec<String> {
        let received = server.received();
        received.iter().map(|one| one.header("anthropic-beta").unwrap_or_default().to_owned()).collect()
    };
    let ask = async |replies: [Reply; 2]| {
        let server = Server::start(replies).await;
        let extra_headers = [("anthropic-beta".to_owned(), "b-1,b-2".to_owned())].into();
        let connection = Connection { extra_headers, ..at(&server.url) };
        let provider = Anthropic::new(connection, AnthropicOptions::default()).expect("valid");
        let request = request(&provider, "claude-opus-5", &[Message::user_text("hi").shared()]);
        let answered = collect(provider.stream(request, &Bus::new().cx())).await;
        (answered, betas(&server))
    };
    let (answered, betas) = ask([refusal("b-1"), Reply::sse(OK)]).await;
    assert!(answered.is_ok(), "{answered:?}");
    assert_eq!(betas, ["b-1,b-2", "b-2"]);
    // Once only: a further refusal is reported.
    let (answered, betas) = ask([refusal("b-1"), refusal("b-2")]).await;
    assert!(answered.unwrap_err().0.to_string().contains("`b-2`"));
    assert_eq!(betas, ["b-1,b-2", "b-2"]);
    // Nothing is left out where another one is missing.
    let (answered, betas) = ask([refusal("b-3"), Reply::sse(OK)]).await;
    assert!(answered.unwrap_err().0.to_string().contains("`b-3`"));
    assert_eq!(betas, ["b-1,b-2"]);
}

/// User interface that keeps the notices it is given.
#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl Ui for Notices {
    fn notify(&self, text: &str) {
        self.0.lock().expect("not poisoned").push(text.to_owned());
    }
}

#[tokio::test]
async fn a_refused_beta_is_left_out_of_all_later_requests_too_and_told_once() {
    let message = "Unexpected value(s) `b-1` for the `anthropic-beta` header";
    let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    let refusal = || Reply::json("400 Bad Request", error.to_string());
    let other = Reply::json("400 Bad Request", error.to_string().replace("b-1", "b-2"));
    // The first refusal is followed by another one, so the cause is still unknown.
    let replies = [refusal(), other, refusal(), Reply::sse(OK), Reply::sse(OK), Reply::sse(OK)];
    let server = Server::start(replies).await;
    let extra_headers = [("anthropic-beta".to_owned(), "b-1,b-10,b-2".to_owned())].into();
    let connection = Connection { extra_headers, ..at(&server.url) };
    let provider = Anthropic::new(connection, AnthropicOptions::default()).expect("valid");
    let (bus, notices) = (Bus::new(), Arc::new(Notices::default()));
    bus.scope("terminal").provide_service::<dyn Ui>(notices.clone());
    for is_answered in [false, true, true, true] {
        let request = request(&provider, "claude-opus-5", &[Message::user_text("hi").shared()]);
        assert_eq!(collect(provider.stream(request, &bus.cx())).await.is_ok(), is_answered);
    }
    let received = server.received();
    let betas: Vec<&str> = received.iter().filter_map(|one| one.header("anthropic-beta")).collect();
    let (all, fewer) = ("b-1,b-10,b-2", "b-10,b-2");
    assert_eq!(betas, [all, fewer, all, fewer, fewer, fewer]);
    let told = notices.0.lock().unwrap();
    assert_eq!(*told, ["anthropic refused the beta feature `b-1`: it is left out from now on"]);
}

#[tokio::test]
async fn models_with_a_budget_are_told_that_they_may_think_between_calls() {
    let tools = || [ToolSpec::new("now", "The time.", json!({"type": "object"}))].into();
    for (model, level, with_tools, told) in [
        ("claude-haiku-4-5", ThinkingLevel::Low, true, true),
        ("claude-haiku-4-5", ThinkingLevel::Low, false, false),
        ("claude-haiku-4-5", ThinkingLevel::Off, true, false),
        ("claude-opus-5", ThinkingLevel::Low, true, false),
    ] {
        let received = sent(at, model, |request| {
            request.max_tokens = 8192;
            request.thinking = ThinkingRequest { level, budget: None };
            request.tools = if with_tools { tools() } else { [].into() };
        });
        let received = received.await;
        let betas = received.header("anthropic-beta").unwrap_or_default();
        assert_eq!(betas == INTERLEAVED, told, "{model} {level:?} {with_tools}: {betas}");
    }
}

#[tokio::test]
async fn a_budget_fits_into_the_limit_that_is_sent() {
    let received = sent(at, "claude-haiku-4-5", |request| {
        request.model.max_output = Some(8000);
        request.max_tokens = 64_000;
        request.thinking = ThinkingRequest { level: ThinkingLevel::High, budget: None };
    });
    let body = received.await.json();
    assert_eq!((&body["max_tokens"], &body["thinking"]["budget_tokens"]), (&json!(8000), &json!(6976)));
}

#[test]
fn sampling_parameters_are_refused_where_the_version_has_none() {
    let extra_body = json!({"temperature": 0.5}).as_object().cloned().expect("fields");
    let make = |version: &str| {
        let options = AnthropicOptions { version: version.to_owned(), ..AnthropicOptions::default() };
        Anthropic::new(Connection { extra_body: extra_body.clone(), ..at("http://127.0.0.1") }, options)
    };
    assert!(make("2023-06-01").is_ok());
    let error = make("2026-10-21").expect_err("no such parameter");
    assert!(
        matches!(error, SetupError::Options { .. }) && error.to_string().contains("`temperature`"),
        "{error}"
    );
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn ended(delta: &Value) -> StopReason {
    let events = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "message_delta", "delta": delta}),
        json!({"type": "message_stop"}),
    ];
    decode(&stream(&events)).expect("an answer").stop.expect("a reason")
}

#[test]
fn each_stop_reason_is_told_apart() {
    for (reason, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence(Some("END".to_owned()))),
        ("pause_turn", StopReason::PauseTurn),
        ("refusal", StopReason::Refusal(None)),
        ("sensitive", StopReason::Refusal(None)),
        ("model_context_window_exceeded", StopReason::ContextExceeded),
        ("compaction", StopReason::Compaction),
        ("of_tomorrow", StopReason::Other("of_tomorrow".to_owned())),
    ] {
        let delta = json!({"stop_reason": reason, "stop_sequence": "END"});
        assert_eq!(ended(&delta), expected, "{reason}");
    }
}

#[test]
fn a_refusal_says_why_and_who_might_answer() {
    let details = json!({"category": "cyber", "explanation": "No.", "recommended_model": "claude-opus-5"});
    let StopReason::Refusal(Some(why)) = ended(&json!({"stop_reason": "refusal", "stop_details": details}))
    else {
        panic!("no reason");
    };
    assert_eq!(why, "No. (category: cyber); the provider recommends claude-opus-5 for this");
}

#[test]
fn events_of_tomorrow_are_passed_over_whatever_their_fields_are() {
    let text = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "progress_delta", "index": "first", "delta": "half"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(decode(&stream(&text)).expect("an answer").content, [Block::text("hi")]);
    let mut broken = text;
    broken[2] = json!({"type": "content_block_delta", "index": 0, "delta": "half"});
    assert_eq!(decode(&stream(&broken)).expect_err("a known event").kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn a_message_of_nothing_but_an_unfinished_hosted_call_is_left_out() {
    let call = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let events = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "content_block_start", "index": 0, "content_block": call}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ];
    let message = decode(&stream(&events)).expect("an answer");
    assert!(!message.content.is_empty());
    let (_, body) = sent_back(message).await;
    let messages = body["messages"].as_array().expect("messages");
    assert!(messages.iter().all(|message| message["role"] == "user"), "{messages:?}");
}
