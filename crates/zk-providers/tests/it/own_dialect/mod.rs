//! Services that a dialect from outside gets: HTTP, keys, redaction, classes of errors, one more attempt,
//! lists.

#[path = "../../../../../examples/own-provider/src/lib.rs"]
#[expect(unreachable_pub, reason = "the crate is public where it stands")]
mod dialect;

use std::sync::Arc;

use serde_json::json;
use zk_core::kernel::Bus;
use zk_core::model::{ErrorKind, ModelRef, ProviderError, StopReason};
use zk_core::service::{Provider, StreamEvent};
use zk_providers::{Connection, Replay};

use crate::collect::{Answer, collect, question};
use crate::server::{Reply, Server};
use dialect::{AVIARY, ParrotDecoder};

const ANSWER: &str = "{\"say\":\"Hel\"}\n{\"say\":\"lo\"}\n\
    {\"call\":{\"id\":\"c1\",\"name\":\"fly\",\"with\":\"{\\\"to\\\":\\\"tree\\\"}\"}}\n{\"done\":{\"in\":9,\"out\":4}}\n";

fn lines(body: &str) -> Reply {
    Reply::new("200 OK", "content-type: application/x-ndjson\r\n", body)
}

fn parrot(server: &Server) -> Arc<dyn Provider> {
    let connection = Connection::at(format!("{}/generate", server.url)).named("aviary").key("sk-parrot-1");
    AVIARY.provider(connection).expect("a provider")
}

async fn ask(server: &Server) -> Result<Answer, (ProviderError, Answer)> {
    let provider = parrot(server);
    let request = question(&*provider, "grey");
    collect(provider.stream(request, &Bus::new().cx())).await
}

#[test]
fn a_dialect_from_outside_takes_150_lines() {
    let lines = include_str!("../../../../../examples/own-provider/src/lib.rs").lines().count();
    assert!(lines <= 150, "{lines} lines");
}

#[tokio::test]
async fn a_dialect_from_outside_answers_and_lists() {
    let server = Server::answering(|_, request| match request.head.split(' ').nth(1) {
        Some("/generate") => lines(ANSWER),
        Some("/birds") => Reply::json("200 OK", r#"{"birds": [{"name": "grey", "window": 4096}]}"#),
        _ => Reply::json("404 Not Found", "{}"),
    })
    .await;
    let (provider, cx) = (parrot(&server), Bus::new().cx());
    let answer = collect(provider.stream(question(&*provider, "grey"), &cx)).await.expect("an answer");
    assert_eq!((answer.text.as_str(), answer.stop), ("Hello", Some(StopReason::ToolUse)));
    assert_eq!(answer.calls, [("c1".to_owned(), "fly".to_owned(), Some(json!({"to": "tree"})))]);
    assert_eq!((answer.usage.input, answer.usage.output), (9, 4));
    assert_eq!(provider.describe_model("grey", &cx).await.window, Some(4096));
    let first = &server.received()[0];
    assert_eq!(first.header("x-parrot-key"), Some("sk-parrot-1"));
    assert_eq!(first.json()["turns"], json!([{"who": "user", "says": "hello"}]));
}

#[tokio::test]
async fn errors_of_a_dialect_from_outside_are_classed_and_show_no_key() {
    let refusal = r#"{"error": {"message": "Incorrect API key: sk-parrot-1", "code": "invalid_api_key"}}"#;
    let cut = "{\"say\":\"Hel\"}\n";
    for (reply, kind) in [
        (Reply::json("401 Unauthorized", refusal), ErrorKind::Auth),
        (lines(&format!("{}\n", refusal.replace('\n', ""))), ErrorKind::Auth),
        (lines(cut), ErrorKind::Malformed),
        (lines("{\"done\":{}}\n"), ErrorKind::Overloaded),
    ] {
        let server = Server::start([reply]).await;
        let (error, _) = ask(&server).await.expect_err("an error");
        assert_eq!((error.kind, &*error.provider), (kind, "aviary"), "{error}");
        assert!(!error.to_string().contains("sk-parrot-1"), "{error}");
    }
}

#[tokio::test]
async fn a_dialect_from_outside_sends_a_request_once_more_and_not_twice() {
    let asleep = r#"{"error": {"message": "asleep", "code": "bird_asleep"}}"#;
    for (replies, requests) in [(vec![lines(asleep), lines(ANSWER)], 2), (vec![lines(asleep)], 2)] {
        let succeeds = replies.len() == 2;
        let server = Server::start(replies).await;
        assert_eq!(ask(&server).await.is_ok(), succeeds);
        assert_eq!(server.received().len(), requests);
    }
}

#[test]
fn recorded_bytes_of_a_dialect_from_outside_are_replayed() {
    let mut replay = Replay::decoding(&ModelRef::new("aviary", "grey"), ParrotDecoder::default());
    let mut events = Vec::new();
    for byte in ANSWER.bytes() {
        replay.feed(&[byte]);
        while let Some(event) = replay.next().expect("no error") {
            events.push(event);
        }
    }
    assert!(matches!(events.last(), Some(StreamEvent::Done { .. })), "{events:?}");
}
