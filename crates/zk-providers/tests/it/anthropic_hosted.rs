//! Blocks that only Anthropic understands: what was received is what goes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef, StopReason, ToolSpec};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_providers::{Anthropic, AnthropicOptions, Replay};

use crate::collect::{collect, question, request};
use crate::server::{Reply, Server};

const MODEL: &str = "claude-opus-5";
const OK: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

fn claude(url: &str) -> Anthropic {
    let connection = Anthropic::connection().base_url(url).key("k-test");
    Anthropic::new(connection, AnthropicOptions::default()).expect("valid options")
}

/// Decodes a recorded body.
pub(crate) fn decode(body: &str) -> Result<Message, zk_core::model::ProviderError> {
    let origin = ModelRef::new("anthropic", MODEL);
    let mut replay = Replay::anthropic(origin.clone());
    replay.feed(body.as_bytes());
    replay.finish();
    let mut blocks = BTreeMap::new();
    let mut stop = None;
    while let Some(event) = replay.next()? {
        match event {
            StreamEvent::Block { block, content } => drop(blocks.insert(block, content)),
            StreamEvent::Done { stop: reason, .. } => stop = Some(reason),
            _ => {}
        }
    }
    let content = blocks.into_values().collect();
    Ok(Message { origin: Some(origin), stop, ..Message::assistant(content) })
}

/// The whole request that carries `history`.
async fn body(history: &[Arc<Message>]) -> Value {
    let server = Server::start([Reply::sse(OK)]).await;
    let provider = claude(&server.url);
    let request: Request = request(&provider, MODEL, history);
    collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
    server.received().remove(0).json()
}

/// Blocks and request body that send a response back, with its calls answered.
pub(crate) async fn sent_back(message: Message) -> (Vec<Value>, Value) {
    let results = message.calls().map(|call| Block::result(call.id.clone(), "done", false));
    let answer: Vec<Block> = results.chain([Block::text("go on")]).collect();
    let history = [Message::user_text("hello"), message, Message::user(answer)].map(Arc::new);
    let body = body(&history).await;
    let mut said = Vec::new();
    for message in body["messages"].as_array().expect("messages") {
        if message["role"] == "assistant" {
            said.extend(message["content"].as_array().expect("content").clone());
        }
    }
    (said, body)
}

/// Stream of these blocks, each complete at its start.
fn stream(blocks: &[Value], delta: &Value) -> String {
    let start = json!({"type": "message_start", "message": {"model": MODEL}});
    let mut events = vec![start];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": delta}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn search(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "zk"}})
}

fn found(id: &str) -> Value {
    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []})
}

#[tokio::test]
async fn a_pause_is_resumed_without_a_word_of_the_user() {
    let message = decode(&stream(&[search("s1")], &json!({"stop_reason": "pause_turn"}))).expect("an answer");
    assert_eq!(message.stop, Some(StopReason::PauseTurn));
    let history = [Message::user_text("hello"), message.clone()].map(Arc::new);
    let sent = body(&history).await;
    let messages = sent["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1], json!({"role": "assistant", "content": [search("s1")]}));

    let rest = decode(&stream(&[found("s1")], &json!({"stop_reason": "end_turn"}))).expect("an answer");
    let history =
        [Message::user_text("hello"), message.clone(), rest, Message::user_text("more")].map(Arc::new);
    let sent = body(&history).await;
    assert_eq!(sent["messages"][1]["content"], json!([search("s1"), found("s1")]));

    let (said, _) = sent_back(message).await;
    assert!(said.is_empty(), "a call that was never let finish is not sent: {said:?}");
}

#[tokio::test]
async fn a_hosted_call_without_its_result_goes_back_only_while_it_can_be_answered() {
    let text = json!({"type": "text", "text": "so"});
    let blocks = [search("s1"), found("s1"), text.clone(), search("s2")];
    for (reason, kept) in [("max_tokens", &blocks[..3]), ("tool_use", &blocks[..])] {
        let message = decode(&stream(&blocks, &json!({"stop_reason": reason}))).expect("an answer");
        assert_eq!(sent_back(message).await.0, kept, "{reason}");
    }
    let message = decode(&stream(&blocks, &json!({"stop_reason": "refusal"}))).expect("an answer");
    assert!(sent_back(message).await.0.is_empty(), "what was refused is not sent again");
}

#[tokio::test]
async fn another_model_is_not_shown_what_the_provider_ran() {
    let blocks = [search("s1"), found("s1"), json!({"type": "text", "text": "so"})];
    let mut message = decode(&stream(&blocks, &json!({"stop_reason": "end_turn"}))).expect("an answer");
    for block in &mut message.content {
        if let Block::Provider(block) = block {
            block.wire.origin = ModelRef::new("anthropic", "claude-haiku-4-5");
        }
    }
    assert_eq!(sent_back(message).await.0, blocks[2..]);
}

#[tokio::test]
async fn a_container_is_named_while_it_is_there_and_while_code_waits_in_it() {
    let code =
        json!({"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "1"}});
    let call = json!({"type": "tool_use", "id": "t1", "name": "roll", "input": {},
        "caller": {"type": "code_execution_20250825", "tool_id": "s1"}});
    let ends = |year: u32| json!({"id": "box", "expires_at": format!("{year}-10-14T10:02:00.044495Z")});
    for (blocks, reason, year, named) in [
        (vec![code.clone(), call.clone()], "tool_use", 2025, Some("box")),
        (vec![code.clone(), call], "tool_use", 2999, Some("box")),
        (vec![json!({"type": "text", "text": "so"})], "end_turn", 2025, None),
        (vec![json!({"type": "text", "text": "so"})], "end_turn", 2999, Some("box")),
    ] {
        let delta = json!({"stop_reason": reason, "container": ends(year)});
        let message = decode(&stream(&blocks, &delta)).expect("an answer");
        let (said, body) = sent_back(message).await;
        assert_eq!(said, blocks);
        assert_eq!(body.get("container").and_then(Value::as_str), named, "{reason} {year}");
    }
}

#[tokio::test]
async fn a_refusal_says_its_reason_and_its_category() {
    for (details, said) in [
        (json!({"category": "cyber", "explanation": "No."}), Some("No. (category: cyber)")),
        (json!({"category": "bio", "explanation": null}), Some("bio")),
        (Value::Null, None),
    ] {
        let delta = json!({"stop_reason": "refusal", "stop_details": details});
        let message = decode(&stream(&[], &delta)).expect("an answer");
        assert_eq!(message.stop, Some(StopReason::Refusal(said.map(str::to_owned))));
    }
}

#[test]
fn what_the_provider_did_is_told_in_a_few_words() {
    let blocks = [
        search("s1"),
        json!({"type": "web_search_tool_result", "tool_use_id": "s1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}),
        json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
        json!({"type": "some_new_block", "data": 1}),
    ];
    let message = decode(&stream(&blocks, &json!({"stop_reason": "end_turn"}))).expect("an answer");
    let told: Vec<String> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Provider(block) => Some(block.text.clone()),
            _ => None,
        })
        .collect();
    let expected = [
        "web search: zk",
        "web search tool result: max_uses_exceeded",
        "b answers instead of a",
        "some new block",
    ];
    assert_eq!(told, expected);
}

async fn asked(options: AnthropicOptions, request: impl Fn(&Anthropic) -> Request) -> (Value, String) {
    let server = Server::start([Reply::sse(OK)]).await;
    let connection = Anthropic::connection().base_url(&server.url).key("k-test");
    let provider = Anthropic::new(connection, options).expect("valid options");
    let request = request(&provider);
    collect(provider.stream(request, &Bus::new().cx())).await.expect("an answer");
    let received = server.received().remove(0);
    let betas = received.header("anthropic-beta").unwrap_or_default().to_owned();
    (received.json(), betas)
}

#[tokio::test]
async fn edits_of_the_context_are_asked_for_with_the_betas_they_need() {
    let clear = json!({"type": "clear_tool_uses_20250919"});
    let compact = json!({"type": "compact_20260112"});
    for (edits, betas) in [
        (json!([clear]), "context-management-2025-06-27"),
        (json!([compact]), "compact-2026-01-12"),
        (json!([clear, compact]), "mine,context-management-2025-06-27,compact-2026-01-12"),
    ] {
        let named = if betas.starts_with("mine") { vec!["mine".to_owned()] } else { Vec::new() };
        let options = AnthropicOptions {
            context_management: Some(json!({ "edits": edits })),
            betas: named,
            ..AnthropicOptions::default()
        };
        let (body, sent) = asked(options, |provider| question(provider, MODEL)).await;
        assert_eq!((&body["context_management"]["edits"], &*sent), (&edits, betas));
    }
    for wrong in [json!([]), json!({"edits": {}}), json!({"edits": [{}]})] {
        let options =
            AnthropicOptions { context_management: Some(wrong.clone()), ..AnthropicOptions::default() };
        let error = Anthropic::new(Anthropic::connection().key("k"), options).expect_err("no such edits");
        assert!(error.to_string().contains("`edits`"), "{wrong}: {error}");
    }
}

#[tokio::test]
async fn hosted_tools_stand_before_the_others_and_no_tool_is_named_twice() {
    let hosted = json!({"type": "web_search_20250305", "name": "web_search"});
    let options = AnthropicOptions { hosted_tools: vec![hosted.clone()], ..AnthropicOptions::default() };
    let own = ToolSpec::new("read_file", "Reads a file.", json!({"type": "object", "properties": {}}));
    let (body, _) = asked(options.clone(), |provider| Request {
        tools: [own.clone()].into(),
        ..question(provider, MODEL)
    })
    .await;
    assert_eq!((&body["tools"][0], &body["tools"][1]["name"]), (&hosted, &json!("read_file")));
    assert!(body["tools"][1]["cache_control"].is_object(), "the mark stands at the end");
    let (body, _) = asked(options, |provider| question(provider, MODEL)).await;
    assert_eq!(body["tools"], json!([hosted]));
}

#[test]
fn what_the_provider_did_beside_answering_is_reported() {
    let iterations =
        json!([{"type": "compaction", "input_tokens": 9}, {"type": "message", "input_tokens": 2}]);
    let usage =
        json!({"input_tokens": 2, "server_tool_use": {"web_search_requests": 3}, "iterations": iterations});
    let edits = json!({"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 5}]});
    let quiet = json!({"input_tokens": 2, "server_tool_use": {"web_search_requests": 0},
        "iterations": [{"type": "message", "input_tokens": 2}]});
    for (usage, edits, expected) in [
        (
            usage,
            edits.clone(),
            Some(json!({"iterations": iterations, "context_management": edits,
            "server_tool_use": {"web_search_requests": 3}})),
        ),
        (quiet, json!({"applied_edits": []}), None),
    ] {
        let end = json!({"type": "message_delta", "delta": {}, "usage": usage, "context_management": edits});
        let mut replay = Replay::anthropic(ModelRef::new("anthropic", MODEL));
        replay.feed(format!("data: {end}\n\n{OK}").as_bytes());
        replay.finish();
        let mut reports = Vec::new();
        while let Some(event) = replay.next().expect("an answer") {
            if let StreamEvent::Report(report) = event {
                reports.push(report);
            }
        }
        assert_eq!(reports.pop(), expected);
        assert!(reports.is_empty(), "at most one");
    }
}

#[test]
fn thinking_that_was_left_out_is_reported_wherever_it_is_told() {
    let dropped = json!([{"type": "thinking_dropped", "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch"}]);
    let start = json!({"type": "message_start", "message": {"input_transformations": dropped}});
    let end = json!({"type": "message_delta", "delta": {}, "input_transformations": dropped});
    let stop = "data: {\"type\":\"message_stop\"}\n\n";
    for body in [format!("data: {start}\n\n{stop}"), format!("data: {end}\n\n{OK}")] {
        let mut replay = Replay::anthropic(ModelRef::new("anthropic", MODEL));
        replay.feed(body.as_bytes());
        replay.finish();
        let events: Vec<_> = std::iter::from_fn(|| replay.next().expect("an answer")).collect();
        let report = StreamEvent::Report(json!({"input_transformations": dropped}));
        assert!(events.contains(&report), "{events:?}");
    }
}
