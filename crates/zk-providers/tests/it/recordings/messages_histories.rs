//! The recorded histories, in the adapter's own Messages requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::ToolSpec;
use zk_core::service::{Request, ToolChoice};
use zk_providers::Clocks;
use zk_providers::formats::Format;

use super::conversations::sendable;
use super::differences::{Differences, Explained};
use super::{Dialect, exchanges_of};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

const ANSWER: &str =
    "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

const EXPLAINED: &[Explained] = &[
    ("stream", "zk always streams"),
    ("temperature", "zk leaves sampling to the provider"),
    ("stop_sequences", "zk asks for none"),
    ("cache_control", "zk marks the prefixes themselves"),
    ("system[].cache_control.*", "zk marks the end of the system prompt"),
    ("tools[].cache_control.*", "zk marks the last tool"),
    ("messages[].content[].cache_control", "zk marks the last message"),
    ("thinking.*", "zk asks by level, and says so where none is wanted"),
    ("output_config", "zk asks by level, not by effort"),
    ("tool_choice", "what is the default is not sent"),
    ("tools[].strict", "zk checks arguments itself"),
    ("tools[].input_schema.anyOf", "what Anthropic refuses at the top of a schema is left out"),
    ("tools[].input_schema.$schema", "what names the schema's own language is left out"),
    ("tools[].input_schema.properties", "a schema says that it is an object, and of what"),
    ("tools[].input_schema.type", "a schema says that it is an object, and of what"),
];

/// Normal form of a body, with one spelling for equivalent forms.
pub(super) fn plain(body: &Value) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().expect("a body");
    fields.retain(|_, value| !value.is_null() && *value != json!([]));
    if let Some(Value::String(text)) = fields.get("system").cloned() {
        fields.insert("system".into(), json!([{"type": "text", "text": text}]));
    }
    let mut messages: Vec<Value> = Vec::new();
    for mut message in body["messages"].as_array().cloned().unwrap_or_default() {
        as_parts(&mut message["content"]);
        for part in message["content"].as_array_mut().into_iter().flatten() {
            if part["type"] == "tool_result" {
                as_parts(&mut part["content"]);
            }
        }
        match messages.last_mut().filter(|last| last["role"] == message["role"]) {
            Some(last) => {
                let more = message["content"].as_array().cloned().unwrap_or_default();
                last["content"].as_array_mut().expect("parts").extend(more);
            }
            None => messages.push(message),
        }
    }
    body["messages"] = messages.into();
    body
}

fn as_parts(content: &mut Value) {
    if let Value::String(text) = content {
        *content = json!([{"type": "text", "text": text}]);
    }
}

fn choice(body: &Value) -> ToolChoice {
    match body["tool_choice"]["type"].as_str() {
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => ToolChoice::Tool(body["tool_choice"]["name"].as_str().unwrap_or_default().to_owned()),
        _ => ToolChoice::Auto,
    }
}

#[tokio::test]
async fn the_recorded_messages_are_sent_as_they_were_recorded() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut differences = Differences::default();
    let server = Server::start([Reply::sse(ANSWER)]).await;
    let provider = Dialect::Anthropic.provider(&server.url, Clocks::remote());
    for exchange in exchanges_of(Dialect::Anthropic) {
        let mut count = |outcome: &str| *counts.entry(outcome.to_owned()).or_default() += 1;
        let Some(recorded) = exchange.request() else {
            count("left out: no request was recorded");
            continue;
        };
        let tools = || recorded["tools"].as_array().into_iter().flatten();
        let model = exchange.model();
        let origin = provider.model(&model).reference();
        let conversation = match sendable(Format::AnthropicMessages, &recorded, &origin) {
            Ok(_) if tools().any(|tool| tool["input_schema"].is_null()) => {
                Err("a tool of the provider's side".to_owned())
            }
            Ok(_) if tools().any(|tool| !tool["input_schema"].is_object()) => {
                Err("a schema that is refused".to_owned())
            }
            other => other,
        };
        let conversation = match conversation {
            Ok(conversation) => conversation,
            Err(why) => {
                println!("left out: {} ({why})", exchange.place());
                count(&format!("left out: {why}"));
                continue;
            }
        };
        let text = |tool: &Value, name: &str| tool[name].as_str().unwrap_or_default().to_owned();
        let spec =
            |tool| ToolSpec::new(text(tool, "name"), text(tool, "description"), tool["input_schema"].clone());
        let limit = recorded["max_tokens"].as_u64().and_then(|limit| u32::try_from(limit).ok());
        let asked = Request {
            system: conversation.system.into(),
            tools: tools().map(spec).collect(),
            tool_choice: choice(&recorded),
            max_tokens: limit.unwrap_or(4096),
            cache: recorded.to_string().contains("cache_control"),
            ..request(&*provider, &model, &conversation.messages)
        };
        collect(provider.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let ours = server.received().pop().expect("a request").json();
        differences.compare(&exchange.place(), &plain(&ours), &plain(&recorded), EXPLAINED);
        count("compared");
    }
    println!("{counts:#?}");
    differences.settle(EXPLAINED);
}
