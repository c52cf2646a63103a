//! Every recorded interaction of Ollama's native API, through the real adapter and a real socket.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{
    Block, Message, ModelRef, ProviderError, StopReason, Thinking, ToolCall, ToolSpec, Usage,
};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_providers::{Ollama, OllamaOptions, Replay};

use crate::collect::{Answer, collect, question, request};
use crate::fixtures::{self, Recorded};
use crate::server::{Reply, Server};

fn load() -> Vec<Recorded> {
    let Some(folder) = fixtures::folder() else { return Vec::new() };
    let mut all = fixtures::load_about(&folder, &["/api/chat"]);
    all.retain(|item| item.url.ends_with("/api/chat"));
    all
}

fn provider(server: &Server) -> Ollama {
    Ollama::new(Ollama::connection().base_url(&server.url), OllamaOptions::default()).expect("valid options")
}

/// The most tokens the recorded request asked for; without a number, as many as there are.
fn limit(item: &Recorded) -> u32 {
    let asked: Value = serde_json::from_str(&item.request).unwrap_or_default();
    let limit = asked.pointer("/options/num_predict").and_then(Value::as_u64);
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(4096)
}

/// A slow, simple reading over whole JSON values.
fn naive(body: &str) -> Answer {
    let mut answer = Answer::default();
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let line: Value = serde_json::from_str(line).expect("recorded lines are JSON");
        answer.model = line["model"].as_str().map(str::to_owned).or(answer.model);
        let said = &line["message"];
        answer.text.push_str(said["content"].as_str().unwrap_or_default());
        answer.thinking.push_str(said["thinking"].as_str().unwrap_or_default());
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let function = &call["function"];
            answer.calls.push((
                text(&call["id"]),
                text(&function["name"]),
                Some(function["arguments"].clone()),
            ));
        }
        if line["done"] == true {
            let count = |name: &str| line[name].as_u64().unwrap_or_default();
            answer.usage =
                Usage { input: count("prompt_eval_count"), output: count("eval_count"), ..Usage::default() };
            answer.stop = Some(match line["done_reason"].as_str() {
                Some("length") => StopReason::MaxTokens,
                Some("stop") if !answer.calls.is_empty() => StopReason::ToolUse,
                Some("stop") => StopReason::EndTurn,
                other => panic!("no recording ends with {other:?}"),
            });
        }
    }
    answer
}

#[tokio::test]
async fn every_recorded_ollama_response_decodes_to_what_its_bytes_say() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut wrong = Vec::new();
    let all = load();
    for item in &all {
        assert_eq!(item.status, 200, "{}", item.file);
        let kind = format!("content-type: {}\r\n", item.content_type);
        let server = Server::start([Reply::new("200 OK", &kind, &item.body)]).await;
        let ollama = provider(&server);
        let asked = Request { max_tokens: limit(item), ..question(&ollama, "qwen3:4b") };
        let mut expected = naive(&item.body);
        match collect(ollama.stream(asked, &Bus::new().cx())).await {
            Ok(answer) => {
                let mut got = Answer { blocks: Vec::new(), ..answer };
                for (mine, theirs) in got.calls.iter_mut().zip(&mut expected.calls) {
                    if theirs.0.is_empty() {
                        mine.0 = String::new();
                    }
                }
                if got != expected {
                    wrong.push(format!("{}\n  got      {got:?}\n  expected {expected:?}", item.file));
                }
            }
            Err((error, _)) => wrong.push(format!("{}\n  failed: {error}", item.file)),
        }
        let form = if item.content_type.contains("ndjson") { "streamed" } else { "whole" };
        *counts.entry(form).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(all.is_empty() || all.len() >= 25, "the fixtures are smaller than they were");
}

/// What a stream comes to when it arrives in these pieces; ids that are made up are left out.
fn decode(pieces: &[&[u8]]) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut replay = Replay::ollama(ModelRef::new("ollama", "recorded"));
    let mut events = Vec::new();
    let mut take = |replay: &mut Replay| -> Result<(), ProviderError> {
        while let Some(mut event) = replay.next()? {
            if let StreamEvent::ToolCall { id, .. } = &mut event {
                *id = "".into();
            }
            if let StreamEvent::Block { content: Block::ToolCall(call), .. } = &mut event {
                call.id = "".into();
            }
            events.push(event);
        }
        Ok(())
    };
    for piece in pieces {
        replay.feed(piece);
        take(&mut replay)?;
    }
    replay.finish();
    take(&mut replay)?;
    Ok(events)
}

#[test]
fn where_a_recorded_ollama_response_is_cut_into_pieces_makes_no_difference() {
    let mut all = load();
    all.sort_by_key(|item| item.body.len());
    let mut random = fastrand::Rng::with_seed(7);
    let mut splits = 0;
    for (at, item) in all.iter().enumerate() {
        let bytes = item.body.as_bytes();
        let whole = decode(&[bytes]).expect("it is whole");
        let offsets: Vec<usize> = match at {
            0..10 => (1..bytes.len()).collect(),
            _ => (0..50).map(|_| random.usize(1..bytes.len())).collect(),
        };
        for offset in offsets {
            let (first, second) = bytes.split_at(offset);
            assert_eq!(decode(&[first, second]).expect("it is whole"), whole, "{} at {offset}", item.file);
            splits += 1;
        }
    }
    println!("{} responses, {splits} splits", all.len());
}

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
    let ollama = provider(&server);
    for item in load() {
        let recorded: Value = serde_json::from_str(&item.request).expect("recorded requests are JSON");
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
            max_tokens: limit(&item),
            ..request(&ollama, id, &rebuild(&recorded, &ollama.model(id).reference()))
        };
        collect(ollama.stream(asked, &Bus::new().cx())).await.expect("the server answers");
        let ours = server.received().pop().expect("a request").json();
        if plain(&ours) != plain(&recorded) {
            wrong.push(format!(
                "{}\n  ours     {}\n  recorded {}",
                item.file,
                plain(&ours),
                plain(&recorded)
            ));
        }
        count += 1;
    }
    println!("{count} requests");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
