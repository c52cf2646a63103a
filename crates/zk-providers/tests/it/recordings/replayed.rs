//! Every recorded answer, through the real adapter as its vendor has it and a real socket, against an independent
//! reading of its bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zk_core::model::ProviderError;

use super::{Dialect, Exchange, Form, comparable, exchanges, print_table};
use crate::collect::{Answer, collect};
use crate::fixtures;
use crate::server::Reply;

/// Reads the recorded bytes with an unconfigured adapter.
async fn read(exchange: &Exchange) -> Result<Answer, (ProviderError, Answer)> {
    let mut replay = exchange.dialect.replay();
    replay.feed(exchange.body.as_bytes());
    replay.finish();
    let events: Vec<_> = std::iter::from_fn(|| replay.next().transpose()).collect();
    collect(Box::pin(futures_util::stream::iter(events))).await
}

/// Recorded streams that fail, with the reason.
const BROKEN: &[(&str, &str)] = &[
    // The provider failed in the middle of its answer.
    ("openai-error.1.chunks.txt", "error event"),
    // Broken where it was published: an event with an illegal escape.
    ("parallel-tool-call-wrapper.1.chunks.txt", "no terminal event"),
];

/// Recorded interactions with other endpoints, with their kinds.
const OTHERS: &[(&str, &str)] = &[
    ("/files", "files"),
    ("/count_tokens", "counts of tokens"),
    (":countTokens", "counts of tokens"),
    ("/token", "sign-ins"),
    ("/models", "lists of models"),
    ("/embeddings", "embeddings"),
    ("/props", "a server's properties"),
];

#[tokio::test]
async fn every_recorded_answer_decodes_to_what_its_bytes_say() {
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut broken = BTreeSet::new();
    let all = exchanges();
    if all.is_empty() {
        return;
    }
    for exchange in &all {
        let place = exchange.place();
        let form = match exchange.form {
            Form::Error => continue,
            Form::Blank => {
                wrong.push(format!("{place}: neither a stream nor an answer"));
                continue;
            }
            Form::Streamed => "streamed",
            Form::Whole => "whole",
        };
        if let (Dialect::Chat, Ok(expected)) = (exchange.dialect, exchange.dialect.naive(&exchange.body)) {
            let answer = read(exchange).await.expect("the tolerant profile takes what a vendor sends");
            let (got, expected) = comparable(exchange.dialect, answer, expected);
            if got != expected {
                wrong.push(format!("{place}\n  tolerant {got:?}\n  expected {expected:?}"));
            }
        }
        let outcome = match (exchange.dialect.naive(&exchange.body), exchange.ask(exchange.reply()).await) {
            (Ok(expected), Ok(answer)) => {
                let (got, expected) = comparable(exchange.dialect, answer, expected);
                if got != expected {
                    wrong.push(format!("{place}\n  got      {got:?}\n  expected {expected:?}"));
                }
                form
            }
            (Err(reason), Err((error, _))) => {
                println!("{reason}: {place}: {error}");
                if BROKEN.iter().any(|(file, why)| place.contains(file) && reason == *why) {
                    broken.insert(reason);
                } else {
                    wrong.push(format!("{place}\n  not known to be broken: {error}"));
                }
                "broken"
            }
            (Ok(_), Err((error, _))) => {
                wrong.push(format!("{place}\n  failed: {error}"));
                form
            }
            (Err(reason), Ok(_)) => {
                wrong.push(format!("{place}\n  succeeded in spite of: {reason}"));
                form
            }
        };
        let row = format!("{:?} {}", exchange.dialect, exchange.provider()).to_lowercase();
        *counts.entry((row, outcome.to_owned())).or_default() += 1;
    }
    print_table("decoded", &counts);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(broken.len(), BROKEN.len(), "each broken stream is refused");
    assert!(counts.values().sum::<usize>() > 1500, "the fixtures are smaller than they were");
}

#[test]
fn no_recorded_exchange_is_left_out() {
    let Some(folder) = fixtures::folder() else { return };
    let manifest =
        std::fs::read_to_string(folder.join("manifest.jsonl")).expect("the list of what was recorded");
    let known: BTreeMap<(&str, usize), &str> =
        fixtures::all().iter().map(|item| ((item.file.as_str(), item.index), item.url.as_str())).collect();
    let mut counts = BTreeMap::<String, usize>::new();
    let mut missing = Vec::new();
    for line in manifest.lines() {
        let line: Value = serde_json::from_str(line).expect("the list is JSON");
        let file = line["file"].as_str().unwrap_or_default();
        let index = line["i"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or_default();
        let url = known.get(&(file, index)).copied().unwrap_or_default();
        let reason = match Dialect::of(url) {
            Some(_) => "replayed",
            None => OTHERS.iter().find(|(part, _)| url.contains(part)).map_or("", |(_, reason)| reason),
        };
        if reason.is_empty() {
            missing.push(format!("{file}#{index} {url}"));
        }
        *counts.entry(reason.to_owned()).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(missing.is_empty(), "{} are not known:\n{}", missing.len(), missing.join("\n"));
}

#[tokio::test]
async fn recorded_chunk_boundaries_make_no_difference() {
    let mut count = 0;
    for exchange in exchanges().iter().filter(|exchange| exchange.recorded.chunks.len() > 1) {
        let chunks = exchange.recorded.chunks.iter();
        let pieces = chunks.fold(exchange.dialect.head(), |reply, chunk| reply.send(chunk));
        let split = exchange.ask(pieces).await.map_err(|(error, _)| error.kind);
        let whole = exchange.ask(exchange.reply()).await.map_err(|(error, _)| error.kind);
        assert_eq!(split, whole, "{}", exchange.place());
        count += 1;
    }
    println!("{count} streams with their own chunk boundaries");
    assert!(count >= 16 || fixtures::folder().is_none(), "the fixtures are smaller than they were");
}

#[tokio::test]
async fn a_stream_is_read_the_same_in_writes_of_any_size() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut all = exchanges();
    all.retain(|exchange| exchange.form == Form::Streamed && exchange.body.len() < 20_000);
    let mut count = 0;
    for exchange in all.iter().step_by(11) {
        let mut reply: Reply = exchange.dialect.head();
        let mut rest = exchange.body.as_bytes();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(random.usize(1..=rest.len().min(400)));
            reply = reply.send(piece).yielding();
            rest = more;
        }
        let split = exchange.ask(reply).await.map(without_ids).map_err(|(error, _)| error.kind);
        let whole = exchange.ask(exchange.reply()).await.map(without_ids).map_err(|(error, _)| error.kind);
        assert_eq!(split, whole, "{}", exchange.place());
        count += 1;
    }
    println!("{count} streams in writes of their own");
    assert!(count >= 50 || fixtures::folder().is_none(), "the fixtures are smaller than they were");
}

/// Some dialects use generated ids.
fn without_ids(mut answer: Answer) -> Answer {
    answer.blocks.clear();
    for call in &mut answer.calls {
        call.0 = String::new();
    }
    answer
}
