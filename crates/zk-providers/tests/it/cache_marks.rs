//! Places where Anthropic is told to keep and to look for what it has read.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, StopReason, ToolCall, ToolSpec};
use zk_core::service::{Provider, Request};
use zk_providers::{Anthropic, AnthropicOptions};

use crate::collect::{collect, request};
use crate::server::{Reply, Server};

const MODEL: &str = "claude-opus-5";
const OK: &str = "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// A question, a turn of `calls` concurrent calls, and their results.
fn turn(history: &mut Vec<Arc<Message>>, calls: usize) {
    let id = |at: usize| format!("c{}_{at}", history.len());
    let made = (0..calls).map(|at| Block::ToolCall(ToolCall::new(id(at), "look", json!({}))));
    let stop = Some(StopReason::ToolUse);
    let asked = Message { stop, ..Message::assistant(made.collect()) };
    let answer = Message::user((0..calls).map(|at| Block::result(id(at), "seen", false)).collect());
    history.extend([asked.shared(), answer.shared()]);
}

async fn send(claude: &Anthropic, history: &[Arc<Message>]) {
    let tools = [ToolSpec::new("look", "Looks.", json!({"type": "object"}))].into();
    let asked = Request { system: "Be brief.".into(), tools, ..request(claude, MODEL, history) };
    collect(claude.stream(asked, &Bus::new().cx())).await.expect("an answer");
}

fn claude(server: &Server, extra: Map<String, Value>, options: AnthropicOptions) -> Anthropic {
    let mut connection = Anthropic::connection().base_url(&server.url).key("k-test");
    connection.extra_body = extra;
    Anthropic::new(connection, options).expect("valid options")
}

/// Counts the marks of a request, and finds the messages that have one.
fn marks(body: &[u8]) -> (usize, Vec<usize>) {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let messages = body["messages"].as_array().expect("messages");
    let is_marked = |message: &Value| message.to_string().contains("cache_control");
    let marked = messages.iter().enumerate().filter(|(_, message)| is_marked(message));
    (body.to_string().matches("cache_control").count(), marked.map(|(at, _)| at).collect())
}

#[tokio::test]
async fn the_mark_of_the_request_before_stays_where_a_turn_brings_too_many_blocks() {
    let server = Server::start([Reply::sse(OK)]).await;
    let claude = claude(&server, Map::new(), AnthropicOptions::default());
    let mut history = vec![Message::user_text("begin").shared()];
    send(&claude, &history).await;
    let mut expected = vec![(3, vec![0])];
    for (calls, marked) in
        [(1, vec![2]), (9, vec![4]), (10, vec![4, 6]), (40, vec![6, 8]), (2, vec![10]), (2, vec![12])]
    {
        turn(&mut history, calls);
        send(&claude, &history).await;
        expected.push((2 + marked.len(), marked));
    }
    let bodies: Vec<Vec<u8>> = server.received().into_iter().map(|received| received.body.to_vec()).collect();
    assert_eq!(bodies.iter().map(|body| marks(body)).collect::<Vec<_>>(), expected);
    let plain: Vec<String> =
        bodies.into_iter().map(|body| String::from_utf8(body).expect("text").replace(MARK, "")).collect();
    for pair in plain.windows(2) {
        let end = pair[0].rfind("],\"").expect("a tail");
        assert!(pair[1].starts_with(&pair[0][..end]), "{}\n{}", pair[0], pair[1]);
    }
}

#[tokio::test]
async fn a_slot_that_somebody_else_uses_is_not_taken() {
    let mark = json!({"type": "ephemeral"});
    let hosted = json!({"type": "web_search_20250305", "name": "web_search", "cache_control": mark});
    let with_tool = AnthropicOptions { hosted_tools: vec![hosted], ..AnthropicOptions::default() };
    let with_field = Map::from_iter([("cache_control".to_owned(), mark)]);
    for (extra, options) in [(Map::new(), with_tool), (with_field, AnthropicOptions::default())] {
        let server = Server::start([Reply::sse(OK)]).await;
        let claude = claude(&server, extra, options);
        let mut history = vec![Message::user_text("begin").shared()];
        turn(&mut history, 30);
        send(&claude, &history).await;
        assert_eq!(marks(&server.received()[0].body), (4, vec![2]), "no more than four are taken");
    }
}
