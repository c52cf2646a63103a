//! The recorded histories, in the adapter's own requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::{
    Block, Document, Image, Message, ModelRef, Role, Text, Thinking, ThinkingLevel, ThinkingRequest,
    ToolCall, ToolContent, ToolSpec, WireData,
};
use zk_core::service::{Request, StreamEvent, ToolChoice};
use zk_providers::{Replay, Responses};

use super::differences::{Differences, Explained};
use super::{Dialect, Form, exchanges_of, naive};
use crate::collect::request;
use crate::responses::{openai, sent_back};
use crate::responses_requests::sent;

/// History behind a recorded request: the inverse of the adapter. The error tells if it cannot be expressed.
fn history(input: &Value, origin: &ModelRef) -> Result<(String, Vec<Arc<Message>>), String> {
    let items = match input {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        Value::Array(items) => items.clone(),
        _ => return Err("no input".into()),
    };
    let mut system = String::new();
    let mut messages: Vec<Message> = Vec::new();
    let mut reasoning: Option<String> = None;
    for item in items {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let mut data = json!({});
        if let Some(id) = item["id"].as_str() {
            data["id"] = json!(id);
        }
        if let Some(id) = &reasoning {
            data["needs"] = json!(id);
        }
        let wire = |data: Value| (data != json!({})).then(|| WireData { origin: origin.clone(), data });
        let (role, blocks) = match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
            ("message", Some("system" | "developer")) => {
                system.push_str(
                    &parts(&item["content"])?.iter().filter_map(Block::as_text).collect::<String>(),
                );
                continue;
            }
            ("message", Some("assistant")) => {
                let said: String = parts(&item["content"])?.iter().filter_map(Block::as_text).collect();
                (Role::Assistant, vec![Block::Text(Text { text: said, wire: wire(data) })])
            }
            ("message", _) => (Role::User, parts(&item["content"])?),
            ("function_call", _) => {
                let args = serde_json::from_str(&text("arguments")).map_err(|error| error.to_string())?;
                let call = ToolCall::new(text("call_id"), text("name"), args);
                (Role::Assistant, vec![Block::ToolCall(ToolCall { wire: wire(data), ..call })])
            }
            ("function_call_output", _) => {
                let content = match &item["output"] {
                    Value::String(text) => text.as_str().into(),
                    parts => ToolContent::Blocks(self::parts(parts)?),
                };
                (Role::User, vec![Block::result(text("call_id"), content, false)])
            }
            ("reasoning", _) => {
                let signature = item["encrypted_content"].as_str().ok_or("reasoning without a seal")?;
                let summary = item["summary"].as_array().cloned().unwrap_or_default();
                let texts: Vec<&str> = summary.iter().filter_map(|part| part["text"].as_str()).collect();
                if summary.len() > 1 {
                    data["summary"] = json!(summary);
                }
                reasoning = Some(text("id"));
                let thinking = Thinking {
                    text: texts.join("\n\n"),
                    signature: Some(signature.into()),
                    origin: Some(origin.clone()),
                    wire: wire(data),
                    ..Thinking::default()
                };
                (Role::Assistant, vec![Block::Thinking(thinking)])
            }
            (other, _) => return Err(format!("an item of type {other}")),
        };
        if role == Role::User {
            reasoning = None;
        }
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => messages.push(Message { role, ..Message::user(blocks) }),
        }
    }
    let is_user = |message: Option<&Message>| message.is_some_and(|message| message.role == Role::User);
    match (is_user(messages.first()), is_user(messages.last())) {
        (true, true) => Ok((system, messages.into_iter().map(Arc::new).collect())),
        (false, _) => Err("it continues what the provider has stored".into()),
        (_, false) => Err("it does not end with the user".into()),
    }
}

fn parts(content: &Value) -> Result<Vec<Block>, String> {
    let Some(parts) = content.as_array() else {
        return Ok(content.as_str().map(Block::text).into_iter().collect());
    };
    let data = |url: &Value| {
        let (head, data) = url.as_str()?.strip_prefix("data:")?.split_once(";base64,")?;
        Some((head.to_owned(), data.to_owned()))
    };
    let part = |part: &Value| match part["type"].as_str().unwrap_or_default() {
        "input_text" | "output_text" | "text" => Ok(Block::text(part["text"].as_str().unwrap_or_default())),
        "input_image" => match data(&part["image_url"]) {
            Some((media_type, data)) => Ok(Block::Image(Image::new(media_type, data))),
            None => Err("an image by its address".to_owned()),
        },
        "input_file" => match data(&part["file_data"]) {
            Some((media_type, data)) => {
                let name = part["filename"].as_str().map(str::to_owned);
                Ok(Block::Document(Document { media_type, name, data }))
            }
            None => Err("a file by its address or id".to_owned()),
        },
        other => Err(format!("a part of type {other}")),
    };
    parts.iter().map(part).collect()
}

/// Normal form of the items, with neighbours of one role joined.
pub(crate) fn plain(input: &Value) -> Vec<Value> {
    let items = match input {
        Value::String(text) => vec![json!({"role": "user", "content": text})],
        other => other.as_array().cloned().unwrap_or_default(),
    };
    let mut out: Vec<Value> = Vec::new();
    for mut item in items {
        let role = item["role"].as_str().unwrap_or_default().to_owned();
        if matches!(role.as_str(), "system" | "developer") {
            continue;
        }
        let fields = item.as_object_mut().expect("an item");
        fields.remove("status");
        fields.retain(|_, value| !value.is_null());
        if !role.is_empty() {
            fields.insert("type".into(), "message".into());
        }
        if fields["type"] == "function_call_output" {
            fields.remove("id");
        }
        if fields["type"] == "function_call" {
            let args = fields["arguments"].as_str().and_then(|args| serde_json::from_str(args).ok());
            fields.insert("arguments".into(), args.unwrap_or_default());
        }
        if fields["type"] == "reasoning" {
            fields.remove("content");
        }
        for list in ["content", "output"] {
            if let Some(Value::String(text)) = fields.get(list).cloned() {
                fields.insert(list.into(), json!([{"text": text}]));
            }
            for part in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let part = part.as_object_mut().expect("a part");
                part.retain(|key, _| !matches!(key.as_str(), "annotations" | "logprobs" | "detail"));
                if part.contains_key("text") {
                    part.remove("type");
                }
            }
        }
        match out.last_mut() {
            Some(last) if role == "user" && last["role"] == "user" => {
                let more = item["content"].as_array().cloned().unwrap_or_default();
                last["content"].as_array_mut().expect("parts").extend(more);
            }
            _ => out.push(item),
        }
    }
    out
}

const EXPLAINED: &[Explained] = &[
    ("stream", "zk always streams"),
    ("store", "zk sends the history whole, and leaves nothing with the provider"),
    ("+include", "zk asks for the seals of what a model thinks"),
    ("-previous_response_id", "zk sends the history whole"),
    ("-temperature", "zk leaves sampling to the provider"),
    ("-parallel_tool_calls", "zk leaves parallel calls to the provider"),
    ("max_output_tokens", "without a limit zk sends its own, and never less than the API takes"),
    ("-text", "a format is asked for by a request of its own"),
    ("-tool_choice", "zk offers the tools that may be called, and no others"),
    ("tools[].strict", "zk checks arguments itself"),
    ("+reasoning", "zk says so where no thinking is wanted"),
    ("reasoning.summary", "zk asks for summaries in one way"),
    ("-reasoning.mode", "a wish of its own goes into the extra body"),
    ("-reasoning.context", "a wish of its own goes into the extra body"),
];

/// Joins the system prompt of a recorded request: the instructions, and those in the input.
fn instructions(recorded: &Value, system: &str) -> String {
    let instructions = recorded["instructions"].as_str().unwrap_or_default();
    [instructions, system].iter().filter(|text| !text.is_empty()).copied().collect::<Vec<_>>().join("\n\n")
}

/// The tools that run on this side.
fn functions(body: &Value) -> Vec<Value> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter(|tool| tool["type"] == "function").cloned().collect()
}

/// Normal form of a body, with one spelling for equivalent forms.
fn whole(body: &Value, system: &str) -> Value {
    let mut body = body.clone();
    let (input, instructions, tools) = (plain(&body["input"]), instructions(&body, system), functions(&body));
    body["input"] = input.into();
    body["instructions"] = instructions.into();
    body["tools"] = tools.into();
    body.as_object_mut()
        .expect("a body")
        .retain(|_, value| !value.is_null() && *value != "" && *value != json!([]));
    body
}

/// The level of thinking that a word asks for.
pub(super) fn level(word: &Value) -> ThinkingLevel {
    serde_json::from_value(json!(word.as_str().map(str::to_lowercase))).unwrap_or_default()
}

fn choice(body: &Value) -> ToolChoice {
    match &body["tool_choice"] {
        Value::String(word) if word == "required" => ToolChoice::Required,
        Value::String(word) if word == "none" => ToolChoice::None,
        Value::Object(choice) if choice.get("type").is_some_and(|kind| kind == "function") => {
            ToolChoice::Tool(choice["name"].as_str().unwrap_or_default().to_owned())
        }
        _ => ToolChoice::Auto,
    }
}

#[tokio::test]
async fn the_recorded_histories_are_sent_as_they_were_recorded() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut differences = Differences::default();
    for exchange in exchanges_of(Dialect::Responses) {
        let Some(recorded) = exchange.request() else {
            *counts.entry("left out: no request was recorded".into()).or_default() += 1;
            continue;
        };
        let model = recorded["model"].as_str().unwrap_or_default().to_owned();
        let origin = ModelRef::new("openai", &*model);
        let (system, history) = match history(&recorded["input"], &origin) {
            Ok(history) => history,
            Err(reason) => {
                println!("left out: {} ({reason})", exchange.place());
                *counts.entry(format!("left out: {reason}")).or_default() += 1;
                continue;
            }
        };
        let text = |tool: &Value, name: &str| tool[name].as_str().unwrap_or_default().to_owned();
        let spec = |tool: &Value| {
            ToolSpec::new(text(tool, "name"), text(tool, "description"), tool["parameters"].clone())
        };
        let limit = recorded["max_output_tokens"].as_u64().and_then(|limit| u32::try_from(limit).ok());
        let asked = |provider: &Responses| Request {
            system: instructions(&recorded, &system).into(),
            tools: functions(&recorded).iter().map(spec).collect(),
            tool_choice: choice(&recorded),
            max_tokens: limit.unwrap_or(4096),
            thinking: ThinkingRequest {
                level: level(&recorded["reasoning"]["effort"]),
                ..ThinkingRequest::default()
            },
            ..request(provider, &model, &history)
        };
        let ours = sent(openai, asked).await.json();
        differences.compare(&exchange.place(), &whole(&ours, ""), &whole(&recorded, &system), EXPLAINED);
        *counts.entry("compared".into()).or_default() += 1;
    }
    println!("{counts:#?}");
    differences.settle(EXPLAINED);
}

/// Kinds of items that need an answer by the client.
const UNANSWERED: &[&str] = &[
    "apply_patch_call",
    "custom_tool_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

/// Items of a response that the next request must contain, without fields that requests omit.
fn expected(body: &str) -> Vec<Value> {
    let mut items = naive::responses::items(body);
    items.retain(|item| {
        let kind = item["type"].as_str().unwrap_or_default();
        let has_text = |part: &Value| part["text"].as_str().is_some_and(|text| !text.is_empty());
        let says = |list: &str| item[list].as_array().is_some_and(|parts| parts.iter().any(has_text));
        !UNANSWERED.contains(&kind)
            && (kind != "reasoning" || item["encrypted_content"].is_string())
            && (kind != "message" || says("content"))
    });
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    plain(&json!(items))
}

#[tokio::test]
async fn every_recorded_response_goes_back_as_it_came() {
    let (mut wrong, mut count, mut seals, mut ids) = (Vec::new(), 0, 0, 0);
    for exchange in exchanges_of(Dialect::Responses) {
        let body = &exchange.body;
        if exchange.form == Form::Error || naive::responses::failure(body).is_some() {
            continue;
        }
        let mut replay = Replay::responses(ModelRef::new("openai", "gpt-5.2"));
        replay.feed(body.as_bytes());
        replay.finish();
        let blocks =
            std::iter::from_fn(|| replay.next().expect("an answer")).filter_map(|event| match event {
                StreamEvent::Block { content, .. } => Some(content),
                _ => None,
            });
        let mut got = plain(&json!(sent_back(openai, blocks.collect()).await));
        let mut wanted = expected(body);
        for item in &got {
            seals += usize::from(item["encrypted_content"].is_string());
            ids += usize::from(item["id"].is_string());
        }
        for (mine, theirs) in got.iter_mut().zip(&mut wanted) {
            // Ids may be omitted, but never changed.
            if mine["id"].is_null() {
                theirs.as_object_mut().expect("an item").remove("id");
            }
            // Truncated arguments are sent back as text.
            if theirs["type"] == "function_call" && theirs["arguments"].is_null() {
                mine["arguments"] = Value::Null;
            }
            for item in [mine, theirs] {
                if item["type"] == "message" {
                    item["content"] = text_of(&item["content"]);
                }
            }
        }
        if got != wanted {
            wrong.push(format!(
                "{}\n  got      {}\n  expected {}",
                exchange.place(),
                json!(got),
                json!(wanted)
            ));
        }
        count += 1;
    }
    println!("{count} responses, {seals} seals, {ids} ids");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn text_of(parts: &Value) -> Value {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect::<String>().into()
}
