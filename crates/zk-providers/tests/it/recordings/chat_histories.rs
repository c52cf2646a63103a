//! The recorded histories, in the adapter's own requests to Chat Completions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, ThinkingLevel, ThinkingRequest, ToolSpec};
use zk_core::service::{Request, ToolChoice};
use zk_providers::formats::{Conversation, Format};
use zk_providers::{CompatProfile, ReasoningEcho};

use super::conversations::{has_thoughts_in_parts, sendable};
use super::differences::{Differences, Explained};
use super::{Dialect, exchanges_of, print_table, vendors};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n";

const EXPLAINED: &[Explained] = &[
    ("*.stream", "zk always streams"),
    ("+*.stream_options", "zk always wants the counts of tokens"),
    ("-*.temperature", "zk leaves sampling to the provider"),
    ("-*.seed", "zk leaves sampling to the provider"),
    ("-*.n", "zk asks for one answer"),
    ("-*.stop", "zk asks for no stop sequences"),
    ("-*.logprobs", "zk has no use for them"),
    ("-*.top_logprobs", "zk has no use for them"),
    ("-*.parallel_tool_calls", "zk leaves parallel calls to the provider"),
    ("-*.response_format", "a format is asked for by a request of its own"),
    ("+*.max_tokens", "without a limit zk sends its own"),
    ("+groq.max_completion_tokens", "without a limit zk sends its own, by the name that is not deprecated"),
    ("-groq.max_tokens", "the limit has the name that is not deprecated"),
    ("+openai.max_completion_tokens", "without a limit zk sends its own, by the name all models take"),
    ("-openai.max_tokens", "the limit has the name all models take"),
    ("+openai.store", "zk leaves nothing with the provider"),
    ("openai.messages[].role", "models that reason know the system prompt as the developer's"),
    ("openrouter.messages[].role", "the gateway's word is `system`, for every model"),
    ("-openrouter.reasoning.exclude", "zk wants what is thought"),
    ("-openrouter.include_reasoning", "an older word for what `reasoning` says"),
    ("-openrouter.provider", "a routing wish of one vendor goes into the extra body"),
    ("-openrouter.stream_options", "the gateway counts without being asked"),
    ("+openrouter.tools[].cache_control", "zk marks what the cache is to keep"),
    ("+openrouter.messages[].content[].cache_control", "zk marks what the cache is to keep"),
    ("+deepseek.thinking", "zk says whether the model is to think"),
    ("+deepseek.reasoning_effort", "who asks zk for thinking says how much"),
    ("deepseek.thinking.type", "a model that thinks cannot be forced to call, and a call was asked for"),
    ("+deepseek.messages[].reasoning_content", "all messages have it, as the server wants"),
    ("-deepseek.messages[].reasoning", "the same stands in the field the server knows"),
    ("-llamacpp.grammar", "a format is asked for by a request of its own"),
    ("-llamacpp.json_schema", "a format is asked for by a request of its own"),
    ("-mistral.messages[].prefix", "Mistral's own word for what is the default"),
    ("-gpustack.enable_thinking", "what is not asked for is not mentioned to servers nothing is known of"),
    ("-gpustack.reasoning_effort", "what is not asked for is not mentioned to servers nothing is known of"),
    ("-gpustack.messages[].reasoning", "thoughts go back where it is known that they are wanted"),
    ("-gpustack.messages[].reasoning_content", "thoughts go back where it is known that they are wanted"),
    ("-ollama.enable_thinking", "what is not asked for is not mentioned to servers nothing is known of"),
    ("-ollama.messages[].reasoning", "thoughts go back where it is known that they are wanted"),
    ("-ollama.messages[].reasoning_content", "thoughts go back where it is known that they are wanted"),
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

/// Conversation, if the vendor's profile sends all of it.
fn plainly(
    conversation: Conversation,
    recorded: &Value,
    profile: &CompatProfile,
) -> Result<Conversation, String> {
    let blocks = || conversation.messages.iter().flat_map(|message| &message.content);
    if !profile.documents && blocks().any(|block| matches!(block, Block::Document(_))) {
        return Err("a document, which few servers take".into());
    }
    if profile.echo != ReasoningEcho::Parts && has_thoughts_in_parts(recorded) {
        return Err("thoughts in parts, which one vendor has".into());
    }
    Ok(conversation)
}

/// Normal form of a body, with one spelling for equivalent forms.
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
        // A tool's name is redundant with the id of its call.
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
    if body["tool_choice"] == "auto" || body["tools"].is_null() {
        body.as_object_mut().expect("a body").remove("tool_choice");
    }
    body
}

/// Replaces call ids by numbers: a recorder blanked some, which no vendor would accept.
fn with_numbered_calls(mut body: Value) -> Value {
    let mut ids: Vec<Value> = Vec::new();
    let mut number = |id: &mut Value| {
        let at = ids.iter().position(|known| known == id).unwrap_or(ids.len());
        ids.extend((at == ids.len()).then(|| id.clone()));
        *id = at.into();
    };
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            number(&mut call["id"]);
        }
        message.get_mut("tool_call_id").map(&mut number);
    }
    body
}

/// Body for a model without vision: placeholders in place of images.
fn without_images(mut body: Value) -> Value {
    for message in body["messages"].as_array_mut().into_iter().flatten() {
        for part in message["content"].as_array_mut().into_iter().flatten() {
            if part["type"] == "image_url" {
                *part = json!({"type": "text", "text": "[image omitted: this model cannot see images]"});
            }
        }
    }
    body
}

/// The most tokens an answer may have, by either of its names.
fn limit(body: &Value) -> &Value {
    body.get("max_completion_tokens").unwrap_or(&body["max_tokens"])
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

/// Requested thinking, in any vendor's fields.
fn thinking(body: &Value) -> ThinkingRequest {
    let (reasoning, kind) = (&body["reasoning"], &body["thinking"]["type"]);
    let word = body["reasoning_effort"].as_str().or(reasoning["effort"].as_str());
    let switch = [&body["enable_thinking"], &reasoning["enabled"]].into_iter().find_map(Value::as_bool);
    let level = match (word, switch, kind.as_str()) {
        (Some("none"), ..) | (None, Some(false), _) | (None, None, Some("disabled")) => ThinkingLevel::Off,
        (Some(word), ..) => serde_json::from_value(word.into()).expect("a level"),
        (None, Some(true), _) | (None, None, Some("enabled")) => ThinkingLevel::High,
        (None, ..) => ThinkingLevel::Adaptive,
    };
    let budget = reasoning["max_tokens"].as_u64().and_then(|budget| u32::try_from(budget).ok());
    // A budget is a wish for thinking.
    let level =
        if budget.is_some() && level == ThinkingLevel::Adaptive { ThinkingLevel::High } else { level };
    ThinkingRequest { level, budget }
}

#[tokio::test]
async fn the_recorded_chats_are_sent_as_they_were_recorded() {
    let mut counts = BTreeMap::new();
    let mut differences = Differences::default();
    let server = Server::start([Reply::sse(ANSWER)]).await;
    for exchange in exchanges_of(Dialect::Chat) {
        let vendor = exchange.provider().to_owned();
        let profile = vendors::profile(&exchange);
        let provider = vendors::provider(&exchange, &server.url);
        let mut count = |outcome: &str| *counts.entry((vendor.clone(), outcome.to_owned())).or_default() += 1;
        let Some(recorded) = exchange.request() else {
            count("left out: no request was recorded");
            continue;
        };
        let model = exchange.model();
        let origin = provider.model(&model).reference();
        let conversation = sendable(Format::OpenAiChat, &recorded, &origin);
        let conversation =
            match conversation.and_then(|conversation| plainly(conversation, &recorded, &profile)) {
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
        let most = limit(&recorded).as_u64().and_then(|limit| u32::try_from(limit).ok());
        let asked = Request {
            system: conversation.system.into(),
            tools: recorded["tools"].as_array().into_iter().flatten().map(spec).collect(),
            tool_choice: choice(&recorded),
            max_tokens: most.unwrap_or(4096),
            thinking: thinking(&recorded),
            ..request(&*provider, &model, &conversation.messages)
        };
        collect(provider.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let mut got = server.received().pop().expect("a request").json();
        let mut wanted = if profile.vision { recorded } else { without_images(recorded) };
        if most.is_some() {
            assert_eq!(limit(&got), limit(&wanted), "{}", exchange.place());
        }
        if exchange.recorded.request.contains("call_REDACTED") {
            (got, wanted) = (with_numbered_calls(got), with_numbered_calls(wanted));
        }
        let of = |body: &Value| json!({ vendor.clone(): plain(body) });
        differences.compare(&exchange.place(), &of(&got), &of(&wanted), EXPLAINED);
        count("compared");
    }
    print_table("requests", &counts);
    differences.settle(EXPLAINED);
}
