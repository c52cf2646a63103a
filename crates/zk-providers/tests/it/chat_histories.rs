//! The recorded histories of Chat Completions, in the requests of the profile they belong to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zk_core::model::{ThinkingLevel, ThinkingRequest, ToolSpec};
use zk_core::service::{Provider, Request, ToolChoice};
use zk_providers::CompatProfile;
use zk_providers::formats::Format;

use crate::collect::request;
use crate::fixtures;
use crate::recordings::conversations::sendable;
use crate::vendors::{provider, sent};

/// Vendors and the folders of their recordings.
const FOLDERS: [(&str, &str); 6] = [
    ("openai", "rig/tests/cassettes/openai"),
    ("openrouter", "rig/tests/cassettes/openrouter"),
    ("deepseek", "rig/tests/cassettes/deepseek"),
    ("groq", "rig/tests/cassettes/groq"),
    ("mistral", "rig/tests/cassettes/mistral"),
    ("llama.cpp", "rig/tests/cassettes/llamacpp"),
];
/// Marks the files that are worth parsing as YAML: a request after a call.
const RESULT: &str = "\"role\":\"tool\"";

/// Request that is equivalent to a recorded one.
fn same(recorded: &Value, provider: &dyn Provider) -> Result<Request, String> {
    let id = recorded["model"].as_str().ok_or("no model")?;
    let origin = provider.model(id).reference();
    let conversation = sendable(Format::OpenAiChat, recorded, &origin)?;
    let tool = |tool: &Value| {
        let function = &tool["function"];
        let text = |name: &str| function[name].as_str().unwrap_or_default();
        ToolSpec::new(text("name"), text("description"), function["parameters"].clone())
    };
    let tools = recorded["tools"].as_array().into_iter().flatten().map(tool);
    let tool_choice = match &recorded["tool_choice"] {
        Value::String(word) => match word.as_str() {
            "required" | "any" => ToolChoice::Required,
            "none" => ToolChoice::None,
            _ => ToolChoice::Auto,
        },
        Value::Object(named) => {
            ToolChoice::Tool(named["function"]["name"].as_str().unwrap_or_default().to_owned())
        }
        _ => ToolChoice::Auto,
    };
    let budget = recorded["reasoning"]["max_tokens"].as_u64().and_then(|budget| u32::try_from(budget).ok());
    let effort = recorded["reasoning"]["effort"].as_str().or(recorded["reasoning_effort"].as_str());
    let level = match (recorded["thinking"]["type"].as_str(), effort) {
        (_, Some("low")) => ThinkingLevel::Low,
        (_, Some("medium")) => ThinkingLevel::Medium,
        (_, Some("high")) => ThinkingLevel::High,
        (Some("enabled"), _) => ThinkingLevel::High,
        _ if budget.is_some() => ThinkingLevel::High,
        _ => ThinkingLevel::Off,
    };
    Ok(Request {
        system: conversation.system.into(),
        tools: tools.collect(),
        tool_choice,
        thinking: ThinkingRequest { level, budget },
        cache: false,
        ..request(provider, id, &conversation.messages)
    })
}

/// Normal form of a body: numbered ids, text as one string.
fn plain(body: &Value) -> Value {
    let mut ids = BTreeMap::<String, usize>::new();
    let mut number = |id: &Value| {
        let count = ids.len();
        json!(*ids.entry(id.as_str().unwrap_or_default().to_owned()).or_insert(count))
    };
    let mut messages: Vec<Value> = Vec::new();
    let mut system = String::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = flat(&message["content"]);
        if message["role"] == "system" || message["role"] == "developer" {
            system.push_str(content.as_str().unwrap_or_default());
            continue;
        }
        let mut fields = Map::new();
        fields.insert("role".into(), message["role"].clone());
        if content != json!("") {
            fields.insert("content".into(), content);
        }
        if let Some(text) = message["reasoning_content"].as_str().filter(|text| !text.is_empty()) {
            fields.insert("reasoning_content".into(), text.into());
        }
        if let Some(items) = message["reasoning_details"].as_array() {
            let items = items.iter().map(|item| {
                let fields = item.as_object().into_iter().flatten();
                fields
                    .filter(|(_, value)| !value.is_null())
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect::<Map<_, _>>()
            });
            fields.insert("reasoning_details".into(), items.map(Value::Object).collect());
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let args = call["function"]["arguments"].as_str().unwrap_or_default();
            let args = serde_json::from_str(args).unwrap_or(Value::Null);
            let args = if args.is_null() { json!({}) } else { args };
            json!({"id": number(&call["id"]), "name": call["function"]["name"], "args": args})
        });
        let calls: Vec<Value> = calls.collect();
        if !calls.is_empty() {
            fields.insert("tool_calls".into(), calls.into());
        }
        if message["role"] == "tool" {
            fields.insert("of".into(), number(&message["tool_call_id"]));
        }
        messages.push(Value::Object(fields));
    }
    let tools = body["tools"].as_array().into_iter().flatten().map(|tool| {
        let function = &tool["function"];
        json!([function["name"], function["description"], function["parameters"]])
    });
    // `auto` is the default.
    let choice = Some(&body["tool_choice"]).filter(|choice| **choice != "auto").cloned();
    json!({
        "model": body["model"], "system": system, "messages": messages, "tools": tools.collect::<Vec<_>>(),
        "tool_choice": choice, "reasoning": body["reasoning"], "thinking": body["thinking"],
        "reasoning_effort": body["reasoning_effort"],
    })
}

/// Text as one string; other parts unchanged.
fn flat(content: &Value) -> Value {
    let Some(parts) = content.as_array() else {
        return content.as_str().unwrap_or_default().into();
    };
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    texts.map_or_else(|| content.clone(), |texts| texts.join("\n\n").into())
}

#[tokio::test]
async fn every_recorded_request_is_sent_again_by_the_profile_of_its_vendor() {
    let (mut counts, mut left_out) = (BTreeMap::<&str, usize>::new(), BTreeMap::<String, usize>::new());
    let mut wrong = Vec::new();
    let mut all = Vec::new();
    for (name, place) in FOLDERS {
        let Some(items) = fixtures::below(place, RESULT) else { return };
        all.extend(items.into_iter().map(|item| (name, item)));
    }
    for (name, item) in all {
        if item.status != 200 || !item.url.ends_with("/chat/completions") {
            continue;
        }
        let recorded: Value = serde_json::from_str(&item.request).expect("a recorded body is JSON");
        let profile = CompatProfile::named(name).expect("it is in the table");
        let unused = provider("http://127.0.0.1:9", profile.clone());
        let request = match same(&recorded, &*unused) {
            Ok(request) => request,
            Err(reason) => {
                *left_out.entry(reason).or_default() += 1;
                continue;
            }
        };
        let body = sent(&profile, |_| request.clone()).await.json();
        let (mut body, mut recorded) = (plain(&body), plain(&recorded));
        if recorded["thinking"].is_null()
            && recorded["reasoning"].is_null()
            && recorded["reasoning_effort"].is_null()
        {
            // zk sends explicitly what others leave to the server's default.
            for body in [&mut body, &mut recorded] {
                for field in ["thinking", "reasoning", "reasoning_effort"] {
                    body[field].take();
                }
            }
        }
        if recorded["thinking"]["type"] == "enabled" && recorded["reasoning_effort"].is_null() {
            // A request for thinking in zk contains its amount.
            body["reasoning_effort"].take();
        }
        *counts.entry(name).or_default() += 1;
        if body != recorded {
            wrong.push(format!("{}\n  sent     {body}\n  recorded {recorded}", item.file));
        }
    }
    println!("{counts:#?}\nleft out: {left_out:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(FOLDERS.iter().all(|(name, _)| counts.get(name).is_some_and(|count| *count > 0)), "{counts:?}");
}
