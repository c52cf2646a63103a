//! The recorded histories, in the adapter's own requests to Chat Completions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ToolSpec};
use zk_core::service::{Request, ToolChoice};
use zk_providers::Clocks;
use zk_providers::formats::{Conversation, Format};

use super::conversations::{has_thoughts_in_parts, sendable};
use super::differences::{Differences, Explained};
use super::{Dialect, exchanges_of};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n";

const EXPLAINED: &[Explained] = &[
    ("stream", "zk always streams"),
    ("stream_options", "zk always wants the counts of tokens"),
    ("temperature", "zk leaves sampling to the provider"),
    ("seed", "zk leaves sampling to the provider"),
    ("n", "zk asks for one answer"),
    ("stop", "zk asks for no stop sequences"),
    ("logprobs", "zk has no use for them"),
    ("top_logprobs", "zk has no use for them"),
    ("max_tokens", "without a limit zk sends its own"),
    ("max_completion_tokens", "the tolerant profile knows the older name, which these servers take too"),
    ("parallel_tool_calls", "zk leaves parallel calls to the provider"),
    ("provider", "a routing wish of one vendor goes into the extra body"),
    ("thinking", "how thinking is asked for is for a vendor's profile to say"),
    ("reasoning", "how thinking is asked for is for a vendor's profile to say"),
    ("reasoning_effort", "how thinking is asked for is for a vendor's profile to say"),
    ("enable_thinking", "how thinking is asked for is for a vendor's profile to say"),
    ("include_reasoning", "how thinking is asked for is for a vendor's profile to say"),
    ("response_format", "a format is asked for by a request of its own"),
    ("grammar", "a format is asked for by a request of its own"),
    ("json_schema", "a format is asked for by a request of its own"),
    ("tool_choice", "what is the default is not sent, and what no tool is there for"),
    ("messages[].prefix", "Mistral's own word for what is the default"),
    ("messages[].role", "the tolerant profile says `system`, which all these servers take"),
    ("messages[].reasoning", "whether thoughts go back is for a vendor's profile to say"),
    ("messages[].reasoning_content", "whether thoughts go back is for a vendor's profile to say"),
    ("messages[].reasoning_details", "whether thoughts go back is for a vendor's profile to say"),
];

fn text(content: &Value) -> Option<String> {
    match content {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
            texts.map(|texts| texts.join("\n\n"))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The same, if it has nothing that the tolerant profile does not send.
fn plainly(conversation: Conversation, recorded: &Value) -> Result<Conversation, String> {
    let blocks = || conversation.messages.iter().flat_map(|message| &message.content);
    if blocks().any(|block| matches!(block, Block::Document(_))) {
        return Err("a document, which few servers take".into());
    }
    if has_thoughts_in_parts(recorded) {
        return Err("thoughts in parts, which one vendor has".into());
    }
    Ok(conversation)
}

/// The body with everything said one way that may be said in two.
pub(super) fn plain(body: &Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().expect("a body").retain(|_, value| !value.is_null() && *value != json!([]));
    let mut messages: Vec<Value> = Vec::new();
    for mut message in body["messages"].as_array().cloned().unwrap_or_default() {
        if let Some(text) = text(&message["content"]) {
            message["content"] = text.into();
        }
        for part in message["content"].as_array_mut().into_iter().flatten() {
            if let Some(image) = part["image_url"].as_object_mut() {
                image.remove("detail");
            }
        }
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            let fields = call.as_object_mut().expect("a call");
            fields.remove("index");
            let args =
                fields["function"]["arguments"].as_str().and_then(|args| serde_json::from_str(args).ok());
            // No arguments are an object without any.
            let args = args.map(|args: Value| if args.is_null() { json!({}) } else { args });
            fields["function"]["arguments"] = args.unwrap_or_default();
        }
        let fields = message.as_object_mut().expect("a message");
        // A tool's name says nothing that the id of its call does not.
        fields.remove("name");
        fields.retain(|name, value| {
            let is_empty = value.is_null() || *value == json!([]) || name == "content" && *value == "";
            !is_empty
        });
        if message["role"] == "assistant" && message.as_object().is_some_and(|fields| fields.len() == 1) {
            continue;
        }
        let texts = |message: &Value| message["role"] == "user" && message["content"].is_string();
        match messages.last_mut().filter(|last| texts(last) && texts(&message)) {
            Some(last) => {
                let both =
                    [&last["content"], &message["content"]].map(|text| text.as_str().unwrap_or_default());
                last["content"] = both.join("\n\n").into();
            }
            None => messages.push(message),
        }
    }
    body["messages"] = messages.into();
    body
}

fn choice(body: &Value) -> ToolChoice {
    match &body["tool_choice"] {
        Value::String(word) if word == "required" || word == "any" => ToolChoice::Required,
        Value::String(word) if word == "none" => ToolChoice::None,
        Value::Object(choice) => {
            let name = choice.get("function").and_then(|function| function["name"].as_str());
            ToolChoice::Tool(name.unwrap_or_default().to_owned())
        }
        _ => ToolChoice::Auto,
    }
}

#[tokio::test]
async fn the_recorded_chats_are_sent_as_they_were_recorded() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut differences = Differences::default();
    let server = Server::start([Reply::sse(ANSWER)]).await;
    let provider = Dialect::Chat.provider(&server.url, Clocks::remote());
    for exchange in exchanges_of(Dialect::Chat) {
        let mut count = |outcome: &str| *counts.entry(outcome.to_owned()).or_default() += 1;
        let Some(recorded) = exchange.request() else {
            count("left out: no request was recorded");
            continue;
        };
        let model = exchange.model();
        let origin = provider.model(&model).reference();
        let conversation = sendable(Format::OpenAiChat, &recorded, &origin);
        let conversation = match conversation.and_then(|conversation| plainly(conversation, &recorded)) {
            Ok(conversation) => conversation,
            Err(why) => {
                println!("left out: {} ({why})", exchange.place());
                count(&format!("left out: {why}"));
                continue;
            }
        };
        let text = |tool: &Value, name: &str| tool["function"][name].as_str().unwrap_or_default().to_owned();
        let schema = |tool: &Value| tool["function"]["parameters"].clone();
        let spec = |tool| ToolSpec::new(text(tool, "name"), text(tool, "description"), schema(tool));
        let limit = recorded["max_tokens"].as_u64().and_then(|limit| u32::try_from(limit).ok());
        let asked = Request {
            system: conversation.system.into(),
            tools: recorded["tools"].as_array().into_iter().flatten().map(spec).collect(),
            tool_choice: choice(&recorded),
            max_tokens: limit.unwrap_or(4096),
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
