//! Every recorded interaction, through the real adapters and a real socket.

use std::collections::BTreeMap;

use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, ProviderError};
use zk_core::service::Provider;
use zk_providers::{Anthropic, AnthropicOptions, Compat, CompatProfile, Connection};

use crate::collect::{Answer, collect, question};
use crate::fixtures::{self, Recorded};
use crate::naive;
use crate::server::{Reply, Server};

fn is_messages(url: &str) -> bool {
    url.trim_end_matches('/').ends_with("/messages")
}

fn is_chat(url: &str) -> bool {
    url.ends_with("/chat/completions")
}

async fn replay(url: &str, reply: Reply) -> Result<Answer, (ProviderError, Answer)> {
    let server = Server::start([reply]).await;
    let provider: Box<dyn Provider> = if is_messages(url) {
        let connection = Anthropic::connection().base_url(&server.url).key("k-test");
        Box::new(Anthropic::new(connection, AnthropicOptions::default()).expect("valid options"))
    } else {
        let connection = Connection::at(&server.url).key("k-test");
        Box::new(Compat::new(connection, CompatProfile::default()).expect("valid options"))
    };
    let request = question(&*provider, "recorded");
    collect(provider.stream(request, &Bus::new().cx())).await
}

/// What the naive reading has to agree with.
fn comparable(answer: Answer) -> Answer {
    Answer { blocks: Vec::new(), ..answer }
}

fn is_stream(item: &Recorded) -> bool {
    item.status == 200
        && (item.content_type.contains("event-stream")
            || item.body.starts_with("event:")
            || item.body.starts_with("data:"))
}

#[tokio::test]
async fn every_recorded_stream_decodes_to_what_its_bytes_say() {
    let Some(folder) = fixtures::folder() else { return };
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for item in fixtures::load(&folder).into_iter().filter(is_stream) {
        let dialect = match (is_messages(&item.url), is_chat(&item.url)) {
            (true, _) => "anthropic",
            (_, true) => "chat",
            (false, false) => continue,
        };
        let source = item.file.split('/').next().unwrap_or_default();
        let place = format!("{} {}", item.file, item.url);
        let result = replay(&item.url, Reply::sse(&item.body)).await;
        let outcome = match (naive::failure(&item.url, &item.body), result) {
            (None, Ok(answer)) => {
                let expected = if dialect == "anthropic" {
                    naive::anthropic(&item.body)
                } else {
                    naive::chat(&item.body)
                };
                if comparable(answer.clone()) != expected {
                    wrong.push(format!(
                        "{place}\n  got      {:?}\n  expected {expected:?}",
                        comparable(answer)
                    ));
                }
                "decoded"
            }
            (Some(reason), Err(_)) => reason,
            (None, Err((error, _))) => {
                wrong.push(format!("{place}\n  failed: {error}"));
                "failed"
            }
            (Some(reason), Ok(_)) => {
                wrong.push(format!("{place}\n  succeeded in spite of: {reason}"));
                "succeeded"
            }
        };
        *counts.entry(format!("{dialect} {source}: {outcome}")).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts.values().sum::<usize>() > 400, "the fixtures are smaller than they were");
}

#[tokio::test]
async fn recorded_chunk_boundaries_make_no_difference() {
    let Some(folder) = fixtures::folder() else { return };
    let mut count = 0;
    for item in fixtures::load(&folder).into_iter().filter(|item| is_stream(item) && item.chunks.len() > 1) {
        let pieces = item.chunks.iter().fold(Reply::sse(""), |reply, chunk| reply.send(chunk));
        let split = replay(&item.url, pieces).await.map_err(|(error, _)| error.kind);
        let whole = replay(&item.url, Reply::sse(&item.body)).await.map_err(|(error, _)| error.kind);
        assert_eq!(split, whole, "{}", item.file);
        count += 1;
    }
    println!("{count} streams with their own chunk boundaries");
}

/// The class an error response has to get, by its status and what it says.
fn class(item: &Recorded) -> Vec<ErrorKind> {
    let text = item.body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["too long", "context length", "context window", "context size", "too large for model"]) {
        return vec![ErrorKind::ContextExceeded];
    }
    match item.status {
        400 if says(&["incorrect api key", "invalid api key"]) => vec![ErrorKind::Auth],
        401 | 403 => vec![ErrorKind::Auth],
        429 => vec![ErrorKind::Rate, ErrorKind::Quota],
        500 if item.url.contains("/v1/chat") => vec![ErrorKind::Overloaded, ErrorKind::Rejected],
        500.. => vec![ErrorKind::Overloaded],
        _ => vec![ErrorKind::Rejected],
    }
}

#[tokio::test]
async fn every_recorded_error_gets_its_class() {
    let Some(folder) = fixtures::folder() else { return };
    let mut counts = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for item in fixtures::load(&folder) {
        if item.status < 400 || !(is_messages(&item.url) || is_chat(&item.url)) {
            continue;
        }
        let reply = Reply::json(&format!("{} Recorded", item.status), &item.body);
        let (error, _) = replay(&item.url, reply).await.expect_err("an error status is an error");
        *counts.entry(format!("{} {:?}", item.status, error.kind)).or_default() += 1;
        let message_is_clean = !error.message.is_empty() && !error.message.contains('\n');
        if !class(&item).contains(&error.kind) || !message_is_clean || error.status != Some(item.status) {
            wrong.push(format!("{} {}\n  {error}\n  {}", item.file, item.url, item.body));
        }
    }
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
