//! The adapter's own request against the recorded one, wherever the recorded one's history can be rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef, Text, ThinkingRequest, ToolCall, ToolSpec, WireData};
use zk_core::service::{Request, ToolChoice};
use zk_providers::Clocks;

use super::differences::{Differences, Explained};
use super::responses_histories::level;
use super::{Dialect, exchanges_of};
use crate::collect::{collect, request};
use crate::server::{Reply, Server};

/// Comparable form of a part: without empty fields, and results as text.
fn plain(part: &Value) -> Option<Value> {
    let mut fields: Map<String, Value> = part.as_object()?.clone();
    fields.retain(|name, value| !(value.is_null() || name == "thought" && *value == false));
    if let Some(response) = fields.get_mut("functionResponse") {
        // The recorders wrap tool results in different ways.
        let text = match response["response"]["output"].as_str() {
            Some(ours) => ours.to_owned(),
            None => response["response"].to_string(),
        };
        *response = json!({"name": response["name"], "text": text});
    }
    if let Some(call) = fields.get_mut("functionCall") {
        if !call["args"].is_object() {
            call["args"] = json!({});
        }
        if call["id"].is_null() {
            call.as_object_mut()?.remove("id");
        }
    }
    let blank = fields.get("text") == Some(&json!("")) && fields.len() == 1;
    (!blank && !fields.is_empty()).then_some(Value::Object(fields))
}

/// Contents with neighbours of one role joined, since separation has no meaning.
fn contents(body: &Value) -> Vec<(String, Vec<Value>)> {
    let mut all: Vec<(String, Vec<Value>)> = Vec::new();
    for content in body["contents"].as_array().into_iter().flatten() {
        let role = content["role"].as_str().unwrap_or("user");
        let role = if role == "function" { "user" } else { role };
        let parts = match &content["parts"] {
            Value::Array(parts) => parts.iter().filter_map(plain).collect(),
            one => plain(one).into_iter().collect(),
        };
        match all.last_mut() {
            Some((last, known)) if last == role => known.extend(parts),
            _ => all.push((role.to_owned(), parts)),
        }
    }
    all
}

/// History behind a request; the error tells if it cannot be expressed.
fn rebuild(body: &Value, origin: &ModelRef) -> Result<Vec<Arc<Message>>, &'static str> {
    let mut history = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut made = 0;
    for (role, parts) in contents(body) {
        let mut blocks = Vec::new();
        for part in parts {
            let wire = part["thoughtSignature"].as_str().map(|signature| WireData {
                origin: origin.clone(),
                data: match &part["text"] {
                    Value::String(text) => {
                        json!({"parts": [{"len": text.len(), "thoughtSignature": signature}]})
                    }
                    _ => json!({"thoughtSignature": signature}),
                },
            });
            if part["thought"] == true {
                return Err("thoughts sent back without a signature");
            } else if let Some(text) = part["text"].as_str() {
                blocks.push(Block::Text(Text { text: text.to_owned(), wire }));
            } else if part["functionCall"].is_object() {
                let (id, name) =
                    (format!("call_{made}"), part["functionCall"]["name"].as_str().expect("a text"));
                made += 1;
                open.push((id.clone(), name.to_owned()));
                let call = ToolCall::new(id, name, part["functionCall"]["args"].clone());
                blocks.push(Block::ToolCall(ToolCall { wire, ..call }));
            } else if let Some(result) = part.get("functionResponse") {
                let Some(at) = open.iter().position(|(_, name)| result["name"] == **name) else {
                    return Err("a result without its call");
                };
                let (id, _) = open.remove(at);
                blocks.push(Block::result(id, result["text"].as_str().expect("a text"), false));
            } else if part["inlineData"].is_object() {
                return Err("media");
            } else {
                return Err("a part that only carries a signature");
            }
        }
        let message = if role == "model" { Message::assistant(blocks) } else { Message::user(blocks) };
        history.push(message.shared());
    }
    Ok(history)
}

fn tools(body: &Value) -> Vec<Arc<ToolSpec>> {
    let declared = body["tools"].as_array().into_iter().flatten();
    let declared = declared.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    declared
        .map(|tool| {
            let text = |name: &str| tool[name].as_str().unwrap_or_default();
            ToolSpec::new(text("name"), text("description"), schema(tool).clone())
        })
        .collect()
}

/// A declaration's schema, under either of its names.
fn schema(tool: &Value) -> &Value {
    if tool["parameters"].is_null() { &tool["parametersJsonSchema"] } else { &tool["parameters"] }
}

const EXPLAINED: &[Explained] = &[
    ("generationConfig.maxOutputTokens", "without a limit zk sends its own"),
    ("generationConfig.temperature", "zk leaves sampling to the provider"),
    ("generationConfig.candidateCount", "zk asks for one answer"),
    ("generationConfig.responseMimeType", "a format is asked for by a request of its own"),
    ("generationConfig.responseJsonSchema", "a format is asked for by a request of its own"),
    ("generationConfig.thinkingConfig", "zk says so where no thinking is wanted"),
    ("generationConfig.thinkingConfig.thinkingBudget", "zk asks by level, and knows a budget for each"),
    ("generationConfig.thinkingConfig.includeThoughts", "zk wants the thoughts of whatever thinks"),
    ("tools[].schema.type", "a schema says in lower case that it is an object"),
];

/// Normal form of a body, with one spelling for equivalent forms.
fn whole(body: &Value) -> Value {
    let mut whole = body.clone();
    let contents: Vec<Value> =
        contents(body).into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect();
    whole["contents"] = contents.into();
    whole["systemInstruction"] = system(body).into();
    let tools = tools(body);
    let tool = |tool: &Arc<ToolSpec>| json!({"name": tool.name, "description": tool.description, "schema": tool.schema});
    whole["tools"] = tools.iter().map(tool).collect::<Vec<_>>().into();
    if let Some(config) =
        whole.pointer_mut("/toolConfig/functionCallingConfig").and_then(Value::as_object_mut)
    {
        if let Some(names) = config.remove("allowed_function_names") {
            config.insert("allowedFunctionNames".into(), names);
        }
        let mode = config.get("mode").and_then(Value::as_str).map(str::to_uppercase);
        config.insert("mode".into(), json!(mode));
    }
    if whole["generationConfig"].is_null() {
        whole["generationConfig"] = json!({});
    }
    whole
        .as_object_mut()
        .expect("a body")
        .retain(|_, value| !value.is_null() && *value != "" && *value != json!([]));
    whole
}

fn choice(body: &Value) -> ToolChoice {
    let config = &body["toolConfig"]["functionCallingConfig"];
    let names = if config["allowed_function_names"].is_null() {
        &config["allowedFunctionNames"]
    } else {
        &config["allowed_function_names"]
    };
    let mode = config["mode"].as_str().map(str::to_uppercase);
    match (mode.as_deref(), names[0].as_str()) {
        (Some("ANY"), Some(name)) => ToolChoice::Tool(name.to_owned()),
        (Some("ANY"), None) => ToolChoice::Required,
        (Some("NONE"), _) => ToolChoice::None,
        _ => ToolChoice::Auto,
    }
}

fn system(body: &Value) -> String {
    let parts = body["systemInstruction"]["parts"].as_array();
    let texts: Vec<&str> = parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n\n")
}

#[tokio::test]
async fn a_recorded_history_is_written_as_it_was_recorded() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut differences = Differences::default();
    let server = Server::start([Reply::sse(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    )])
    .await;
    let provider = Dialect::Gemini.provider(&server.url, Clocks::remote());
    for exchange in exchanges_of(Dialect::Gemini) {
        let count = |outcome: &str| format!("{}: {outcome}", exchange.provider());
        let Some(recorded) = exchange.request() else {
            *counts.entry(count("without a request")).or_default() += 1;
            continue;
        };
        let model = exchange.model();
        let history = match rebuild(&recorded, &provider.model(&model).reference()) {
            Ok(history) => history,
            Err(reason) => {
                println!("left out ({reason}): {}", exchange.place());
                *counts.entry(count(reason)).or_default() += 1;
                continue;
            }
        };
        let limit = recorded["generationConfig"]["maxOutputTokens"].as_u64();
        let asked = Request {
            system: system(&recorded).into(),
            tools: tools(&recorded).into(),
            tool_choice: choice(&recorded),
            thinking: ThinkingRequest {
                level: level(&recorded["generationConfig"]["thinkingConfig"]["thinkingLevel"]),
                ..ThinkingRequest::default()
            },
            max_tokens: limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(4096),
            ..request(&*provider, &model, &history)
        };
        collect(provider.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let ours = server.received().pop().expect("a request").json();
        differences.compare(&exchange.place(), &whole(&ours), &whole(&recorded), EXPLAINED);
        *counts.entry(count("compared")).or_default() += 1;
    }
    println!("{counts:#?}");
    differences.settle(EXPLAINED);
}
