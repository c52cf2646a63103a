//! Every recorded interaction of the Gemini API, through the real adapter and a real socket.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, ModelRef, ProviderError};
use zk_core::service::{Provider, StreamEvent};
use zk_providers::{Clocks, Connection, Gemini, Replay};

use crate::collect::{Answer, collect, question, request};
use crate::fixtures::{self, Recorded};
use crate::gemini_naive as naive;
use crate::server::{Reply, Server};

pub(crate) fn load() -> Vec<Recorded> {
    let Some(folder) = fixtures::folder() else { return Vec::new() };
    let words = ["enerateContent", "\"candidates\"", "google.rpc."];
    let mut all = fixtures::load_about(&folder, &words);
    all.retain(|item| item.url.contains("enerateContent"));
    all
}

pub(crate) fn source(item: &Recorded) -> &str {
    item.file.split('/').next().unwrap_or_default()
}

/// The model a recording asks.
pub(crate) fn model(item: &Recorded) -> String {
    let path = item.url.split(':').rev().nth(1).unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

pub(crate) fn provider(server: &Server) -> Gemini {
    let connection = Connection {
        base_url: server.url.clone(),
        clocks: Some(Clocks::remote()),
        ..Gemini::connection().key("k-test")
    };
    Gemini::new(connection).expect("valid options")
}

async fn replay(model: &str, reply: Reply) -> Result<Answer, (ProviderError, Answer)> {
    let server = Server::start([reply]).await;
    let provider = provider(&server);
    let request = question(&provider, model);
    collect(provider.stream(request, &Bus::new().cx())).await
}

/// The stream of a recording; a whole response has the shape of a stream of one chunk.
fn stream(item: &Recorded) -> Option<(&'static str, String)> {
    if item.status != 200 {
        return None;
    }
    if item.body.starts_with("data:") {
        return Some(("streamed", item.body.clone()));
    }
    let response: Value = serde_json::from_str(&item.body).ok()?;
    response.get("candidates")?;
    Some(("whole", format!("data: {response}\n\n")))
}

/// What the naive reading can know: not the ids that are made up here.
fn comparable(mut answer: Answer, made_up: bool) -> Answer {
    if made_up {
        for call in &mut answer.calls {
            call.0 = String::new();
        }
    }
    Answer { blocks: Vec::new(), signatures: Vec::new(), ..answer }
}

#[tokio::test]
async fn every_recorded_gemini_response_decodes_to_what_its_bytes_say() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    let all = load();
    if all.is_empty() {
        return;
    }
    for item in all.iter().filter(|item| item.status == 200) {
        let Some((form, body)) = stream(item) else {
            println!("left out: {} ({} bytes of {})", item.file, item.body.len(), item.content_type);
            *counts.entry(format!("{}: left out", source(item))).or_default() += 1;
            continue;
        };
        let expected = naive::answer(&body);
        let made_up = expected.calls.iter().any(|(id, ..)| id.is_empty());
        match replay(&model(item), Reply::sse(&body)).await {
            Ok(answer) => {
                let got = comparable(answer, made_up);
                if got != comparable(expected.clone(), made_up) {
                    wrong.push(format!("{}\n  got      {got:?}\n  expected {expected:?}", item.file));
                }
            }
            Err((error, _)) => wrong.push(format!("{}\n  failed: {error}", item.file)),
        }
        *counts.entry(format!("{}: {form}", source(item))).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts.values().sum::<usize>() > 250, "the fixtures are smaller than they were");
}

#[tokio::test]
async fn every_recorded_response_goes_back_part_by_part_with_its_signatures() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut wrong = Vec::new();
    let server = Server::start([Reply::sse(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    )])
    .await;
    for item in load() {
        let Some((_, body)) = stream(&item) else { continue };
        let model = model(&item);
        let Ok(answer) = replay(&model, Reply::sse(&body)).await else { continue };
        let results = answer.calls.iter().map(|(id, ..)| Block::result(id.as_str(), "done", false)).collect();
        let mut history = vec![Message::user_text("hello").shared()];
        history.push(Message::assistant(answer.blocks).shared());
        history.push(if answer.calls.is_empty() {
            Message::user_text("go on").shared()
        } else {
            Arc::new(Message::user(results))
        });
        let provider = provider(&server);
        let request = request(&provider, &model, &history);
        collect(provider.stream(request, &Bus::new().cx())).await.expect("the server answers");
        let sent = server.received().pop().expect("a request").json();
        let mut expected = naive::echo(&body);
        expected.retain(|part| {
            let is_thought = part["thought"] == true && part["thoughtSignature"].is_null();
            let is_blank = part["thoughtSignature"].is_null()
                && part["text"].as_str().is_some_and(|text| text.trim().is_empty());
            !is_thought && !is_blank && part["unknown"].is_null()
        });
        // A message of thoughts alone is no message.
        let says_something = expected.iter().any(|part| part["thought"] != true);
        let parts = match &sent["contents"][1]["role"] {
            role if role == "model" => sent["contents"][1]["parts"].as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_new = model.starts_with("gemini-3");
        let mut normal = parts.clone();
        for part in &mut normal {
            if is_new && part["thoughtSignature"] == "skip_thought_signature_validator" {
                part.as_object_mut().expect("a part").remove("thoughtSignature");
            }
        }
        if says_something && normal != expected {
            wrong.push(format!("{}\n  got      {normal:?}\n  expected {expected:?}", item.file));
        }
        let signed = expected.iter().any(|part| part["thoughtSignature"].is_string());
        *counts.entry(if signed { "with signatures" } else { "without" }).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The class an error response has to get, by its status and what it says.
fn class(item: &Recorded) -> ErrorKind {
    match item.status {
        400 if item.body.contains("API_KEY_INVALID") => ErrorKind::Auth,
        400 if item.body.contains("input token count") => ErrorKind::ContextExceeded,
        429 => ErrorKind::Rate,
        _ => ErrorKind::Rejected,
    }
}

#[tokio::test]
async fn every_recorded_error_of_gemini_gets_its_class() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for item in load().into_iter().filter(|item| item.status >= 400) {
        let reply = Reply::json(&format!("{} Recorded", item.status), &item.body);
        let (error, _) = replay(&model(&item), reply).await.expect_err("an error status is an error");
        *counts.entry(format!("{} {} {:?}", source(&item), item.status, error.kind)).or_default() += 1;
        let message_is_clean = !error.message.is_empty() && !error.message.contains(['\n', '{']);
        let waits = item.status != 429 || error.retry_after.is_some();
        if error.kind != class(&item) || !message_is_clean || !waits {
            wrong.push(format!("{}\n  {error}\n  {}", item.file, item.body));
        }
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a stream comes to when it arrives in these pieces; ids that are made up are left out.
fn decode(pieces: &[&[u8]]) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut replay = Replay::gemini(ModelRef::new("gemini", "recorded"));
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
fn where_a_recorded_gemini_response_is_cut_into_pieces_makes_no_difference() {
    let streamed = |item: &Recorded| stream(item).filter(|(form, _)| *form == "streamed");
    let mut bodies: Vec<(String, String)> =
        load().iter().filter_map(|item| Some((item.file.clone(), streamed(item)?.1))).collect();
    bodies.sort_by_key(|(_, body)| body.len());
    let mut random = fastrand::Rng::with_seed(7);
    let mut splits = 0;
    for (at, (file, body)) in bodies.iter().enumerate() {
        let bytes = body.as_bytes();
        let whole = decode(&[bytes]).map_err(|error| error.kind);
        let offsets: Vec<usize> = match at {
            0..10 => (1..bytes.len()).collect(),
            _ => (0..50).map(|_| random.usize(1..bytes.len())).collect(),
        };
        for offset in offsets {
            let (first, second) = bytes.split_at(offset);
            assert_eq!(decode(&[first, second]).map_err(|error| error.kind), whole, "{file} at {offset}");
            splits += 1;
        }
    }
    println!("{} streams, {splits} splits", bodies.len());
}
