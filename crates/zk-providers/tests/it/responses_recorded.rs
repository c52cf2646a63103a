//! Every recorded interaction of the Responses API, through the real adapter and a real socket.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, ModelRef, ProviderError};
use zk_core::service::{Provider, StreamEvent};
use zk_providers::{Clocks, Connection, Replay, Responses, ResponsesOptions};

use crate::collect::{Answer, collect, question};
use crate::fixtures::{self, Recorded};
use crate::responses_naive as naive;
use crate::server::{Reply, Server};

pub(crate) fn load() -> Vec<Recorded> {
    let Some(folder) = fixtures::folder() else { return Vec::new() };
    let words = ["/responses", "response.created", "\"object\": \"response\""];
    let mut all = fixtures::load_about(&folder, &words);
    all.retain(|item| item.url.split('?').next().is_some_and(|path| path.ends_with("/responses")));
    all
}

async fn replay(reply: Reply) -> Result<Answer, (ProviderError, Answer)> {
    let server = Server::start([reply]).await;
    let connection = Connection {
        base_url: server.url.clone(),
        clocks: Some(Clocks::remote()),
        ..Responses::connection().key("k-test")
    };
    let provider = Responses::new(connection, ResponsesOptions::default()).expect("valid options");
    let request = question(&provider, "recorded");
    collect(provider.stream(request, &Bus::new().cx())).await
}

/// The stream of a recording; a whole response becomes a stream of its end alone.
pub(crate) fn stream(item: &Recorded) -> Option<(&'static str, String)> {
    if item.status != 200 {
        return None;
    }
    let is_stream = item.content_type.contains("event-stream")
        || item.body.starts_with("event:")
        || item.body.starts_with("data:");
    if is_stream {
        return Some(("streamed", item.body.clone()));
    }
    let response: Value = serde_json::from_str(&item.body).ok()?;
    if response["object"] != "response" {
        return None;
    }
    let event = json!({"type": "response.completed", "response": response});
    Some(("whole", format!("event: response.completed\ndata: {event}\n\n")))
}

fn source(item: &Recorded) -> String {
    item.file.split('/').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn every_recorded_response_decodes_to_what_its_bytes_say() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    let all = load();
    if all.is_empty() {
        return;
    }
    for item in &all {
        let count = |outcome: &str| format!("{}: {outcome}", source(item));
        let Some((form, body)) = stream(item) else {
            if item.status == 200 {
                println!("left out: {} ({} bytes of {})", item.file, item.body.len(), item.content_type);
                *counts.entry(count("left out")).or_default() += 1;
            }
            continue;
        };
        let outcome = match (naive::failure(&body), replay(Reply::sse(&body)).await) {
            (None, Ok(answer)) => {
                let (got, expected) = (Answer { blocks: Vec::new(), ..answer }, naive::read(&body));
                if got != expected {
                    wrong.push(format!("{}\n  got      {got:?}\n  expected {expected:?}", item.file));
                }
                "decoded"
            }
            (Some(reason), Err((error, _))) => {
                println!("{reason}: {}: {error}", item.file);
                reason
            }
            (None, Err((error, _))) => {
                wrong.push(format!("{}\n  failed: {error}", item.file));
                "failed"
            }
            (Some(reason), Ok(_)) => {
                wrong.push(format!("{}\n  succeeded in spite of: {reason}", item.file));
                "succeeded"
            }
        };
        *counts.entry(count(&format!("{form}, {outcome}"))).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts.values().sum::<usize>() > 250, "the fixtures are smaller than they were");
}

/// The class an error response has to get, by its status and what it says.
fn class(item: &Recorded) -> ErrorKind {
    let text = item.body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match item.status {
        400 if says(&["context_length_exceeded", "context window"]) => ErrorKind::ContextExceeded,
        400 if says(&["incorrect api key"]) => ErrorKind::Auth,
        401 | 403 => ErrorKind::Auth,
        429 => ErrorKind::Rate,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::Rejected,
    }
}

#[tokio::test]
async fn every_recorded_error_of_the_responses_api_gets_its_class() {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for item in load().into_iter().filter(|item| item.status >= 400) {
        let reply = Reply::json(&format!("{} Recorded", item.status), &item.body);
        let (error, _) = replay(reply).await.expect_err("an error status is an error");
        *counts.entry(format!("{} {} {:?}", source(&item), item.status, error.kind)).or_default() += 1;
        let message_is_clean = !error.message.is_empty() && !error.message.contains(['\n', '{']);
        if error.kind != class(&item) || !message_is_clean || error.status != Some(item.status) {
            wrong.push(format!("{}\n  {error}\n  {}", item.file, item.body));
        }
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a stream comes to when it arrives in these pieces.
pub(crate) fn decode(pieces: &[&[u8]]) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut replay = Replay::responses(ModelRef::new("openai", "gpt-5.2"));
    let mut events = Vec::new();
    for piece in pieces {
        replay.feed(piece);
        while let Some(event) = replay.next()? {
            events.push(event);
        }
    }
    replay.finish();
    while let Some(event) = replay.next()? {
        events.push(event);
    }
    Ok(events)
}

/// The recorded streams, the smallest first.
fn streams() -> Vec<(String, String)> {
    let mut streams: Vec<(String, String)> = load()
        .iter()
        .filter_map(|item| Some((item.file.clone(), stream(item).filter(|(form, _)| *form == "streamed")?.1)))
        .collect();
    streams.sort_by_key(|(_, body)| body.len());
    streams
}

#[test]
fn where_a_recorded_response_is_cut_into_pieces_makes_no_difference() {
    let mut random = fastrand::Rng::with_seed(7);
    let streams = streams();
    for (at, (file, body)) in streams.iter().enumerate() {
        let bytes = body.as_bytes();
        let mut cuts: Vec<usize> = match at {
            0..10 => (1..bytes.len()).collect(),
            _ => (0..50).map(|_| random.usize(1..bytes.len())).collect(),
        };
        cuts.sort_unstable();
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let pieces: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
        let (whole, cut) = (decode(&[bytes]), decode(&pieces));
        assert_eq!(cut.map_err(|error| error.kind), whole.map_err(|error| error.kind), "{file}");
    }
    println!("{} streams", streams.len());
}

#[test]
fn one_cut_at_any_place_of_a_recorded_response_makes_no_difference() {
    let mut count = 0;
    for (file, body) in streams().into_iter().take(1) {
        let whole = decode(&[body.as_bytes()]).map_err(|error| error.kind);
        for at in 1..body.len() {
            let (first, second) = body.as_bytes().split_at(at);
            assert_eq!(decode(&[first, second]).map_err(|error| error.kind), whole, "{file} at {at}");
            count += 1;
        }
    }
    println!("{count} cuts");
}
