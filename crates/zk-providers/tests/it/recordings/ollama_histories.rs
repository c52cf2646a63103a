//! The recorded histories, in the adapter's own requests to Ollama.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Message, ModelRef, Thinking, ThinkingLevel, ThinkingRequest, ToolCall, ToolSpec,
};
use zk_core::service::Request;
use zk_providers::Clocks;

use super::differences::{Differences, Explained};
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

const EXPLAINED: &[Explained] = &[
    ("stream", "zk always streams"),
    ("+options.num_ctx", "without it the server has little room"),
    ("+options.num_predict", "without a limit zk sends its own"),
    ("+truncate", "what does not fit is to be an error"),
    ("+shift", "what does not fit is to be an error"),
    ("-tools[].function.parameters.$schema", "what names the schema's own language is left out"),
    ("-format", "a format is asked for by a request of its own"),
];

/// Normal form of a body, with one spelling for equivalent forms, and without ids, which only some servers
/// read.
fn plain(body: &Value) -> Value {
    let mut body = body.clone();
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        let fields = message.as_object_mut().expect("an object");
        fields.remove("tool_call_id");
        fields.retain(|_, value| !value.is_null() && *value != json!([]));
        for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            let function = &call["function"];
            *call = json!({"name": function["name"], "arguments": function["arguments"]});
        }
    }
    body.as_object_mut().expect("an object").retain(|_, value| *value != json!([]));
    body
}

/// Thinking level for this value.
fn level(think: &Value) -> ThinkingLevel {
    match think {
        Value::Bool(true) => ThinkingLevel::High,
        Value::Bool(false) | Value::Null => ThinkingLevel::Off,
        word => serde_json::from_value(word.clone()).expect("a level"),
    }
}

#[tokio::test]
async fn a_recorded_ollama_history_is_written_as_it_was_recorded() {
    let mut differences = Differences::default();
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
            thinking: ThinkingRequest { level: level(&recorded["think"]), budget: None },
            ..request(&*ollama, id, &rebuild(&recorded, &ollama.model(id).reference()))
        };
        collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let ours = server.received().pop().expect("a request").json();
        differences.compare(&exchange.place(), &plain(&ours), &plain(&recorded), EXPLAINED);
    }
    differences.settle(EXPLAINED);
}
