//! The recorded histories, in the adapter's own requests to Ollama.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef, Thinking, ToolCall, ToolSpec};
use zk_core::service::Request;
use zk_providers::Clocks;

use super::{Dialect, exchanges_of};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

/// The history a request was made of.
fn rebuild(body: &Value, origin: &ModelRef) -> Vec<Arc<Message>> {
    let mut history = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut made = 0;
    for message in body["messages"].as_array().into_iter().flatten() {
        let text = message["content"].as_str().unwrap_or_default();
        match message["role"].as_str() {
            Some("assistant") => {
                let mut blocks = Vec::new();
                if let Some(thought) = message["thinking"].as_str() {
                    let origin = Some(origin.clone());
                    blocks.push(Block::Thinking(Thinking {
                        text: thought.into(),
                        origin,
                        ..Thinking::default()
                    }));
                }
                if !text.is_empty() {
                    blocks.push(Block::text(text));
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let id = format!("call_{made}");
                    made += 1;
                    open.push(id.clone());
                    let name = call["function"]["name"].as_str().expect("a name");
                    blocks.push(Block::ToolCall(ToolCall::new(
                        id,
                        name,
                        call["function"]["arguments"].clone(),
                    )));
                }
                history.push(Message::assistant(blocks).shared());
            }
            Some("tool") => {
                history.push(Message::user(vec![Block::result(open.remove(0), text, false)]).shared());
            }
            Some("user") => history.push(Message::user_text(text).shared()),
            _ => {}
        }
    }
    history
}

/// Messages and tools without what only one side writes: ids, types, editors' fields, schema details.
fn plain(body: &Value) -> Value {
    let mut messages = body["messages"].clone();
    for message in messages.as_array_mut().into_iter().flatten() {
        let fields = message.as_object_mut().expect("an object");
        fields.remove("tool_call_id");
        fields.retain(|_, value| !value.is_null() && *value != json!([]));
        for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            let function = &call["function"];
            *call = json!({"name": function["name"], "arguments": function["arguments"]});
        }
    }
    let tools: Vec<Value> = body["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tool| {
            json!({"type": tool["type"], "name": tool["function"]["name"],
            "properties": tool["function"]["parameters"]["properties"]})
        })
        .collect();
    json!({"model": body["model"], "messages": messages, "tools": tools})
}

#[tokio::test]
async fn a_recorded_ollama_history_is_written_as_it_was_recorded() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let server = Server::start([Reply::new(
        "200 OK",
        "content-type: application/x-ndjson\r\n",
        "{\"message\":{\"content\":\"ok\"},\"done\":true}\n",
    )])
    .await;
    let ollama = Dialect::Ollama.provider(&server.url, Clocks::local());
    for exchange in exchanges_of(Dialect::Ollama) {
        let recorded = exchange.request().expect("recorded requests are JSON");
        let id = recorded["model"].as_str().expect("a model");
        let system = recorded["messages"][0].clone();
        let system = if system["role"] == "system" { system["content"].as_str() } else { None };
        let tools = recorded["tools"].as_array().into_iter().flatten().map(|tool| {
            let text = |name: &str| tool["function"][name].as_str().unwrap_or_default();
            ToolSpec::new(text("name"), text("description"), tool["function"]["parameters"].clone())
        });
        let asked = Request {
            system: system.unwrap_or_default().into(),
            tools: tools.collect(),
            max_tokens: exchange.limit(),
            ..request(&*ollama, id, &rebuild(&recorded, &ollama.model(id).reference()))
        };
        collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let ours = server.received().pop().expect("a request").json();
        if plain(&ours) != plain(&recorded) {
            wrong.push(format!(
                "{}\n  ours     {}\n  recorded {}",
                exchange.place(),
                plain(&ours),
                plain(&recorded)
            ));
        }
        count += 1;
    }
    println!("{count} requests");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
