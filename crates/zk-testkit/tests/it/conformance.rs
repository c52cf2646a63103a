//! Providers with one fault each, which the conformance check has to find.

use std::sync::Arc;

use futures_util::stream;
use zk_core::kernel::Cx;
use zk_core::model::{Block, ErrorKind, Model, Phase, ProviderError, StopReason, ToolCall, Usage, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};
use zk_testkit::{Conformance, WireSamples, check_provider};

type Event = Result<StreamEvent, ProviderError>;

/// Provider that answers every request with the same events, without asking the server.
struct Deaf(Vec<Event>);

impl Provider for Deaf {
    fn name(&self) -> &str {
        "deaf"
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown("deaf", id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules::tolerant(model.reference())
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        Box::pin(stream::iter(self.0.clone()))
    }
}

fn start() -> Event {
    Ok(StreamEvent::Start { model: None, request_id: None })
}

fn text(block: u32, delta: &str) -> Event {
    Ok(StreamEvent::Text { block, delta: delta.to_owned() })
}

fn block(block: u32, content: Block) -> Event {
    Ok(StreamEvent::Block { block, content })
}

fn done(stop: StopReason) -> Event {
    Ok(StreamEvent::Done { stop, usage: Usage::default() })
}

async fn check(events: Vec<Event>) -> Conformance {
    let samples = WireSamples {
        content_type: "text/plain".to_owned(),
        text: b"hello".to_vec(),
        calls: b"calls".to_vec(),
        error: b"{key}".to_vec(),
        key: "sk-secret-1".to_owned(),
        model: "m".to_owned(),
    };
    check_provider(|_| Arc::new(Deaf(events.clone())), &samples).await
}

fn wrong(conformance: &Conformance, check: &str) -> String {
    let failed = conformance.failed.iter().find(|(name, _)| name.contains(check));
    failed.unwrap_or_else(|| panic!("`{check}` passed: {conformance}")).1.clone()
}

#[tokio::test]
async fn a_provider_that_answers_whatever_happens_is_found() {
    let events = vec![start(), text(0, "hello"), block(0, Block::text("hello")), done(StopReason::EndTurn)];
    let found = check(events).await;
    assert!(found.passed.iter().any(|check| check.contains("one well-formed stream")), "{found}");
    assert_eq!(wrong(&found, "calls have ids"), "no call was read");
    assert!(wrong(&found, "errors").contains("401: a success"));
    assert!(wrong(&found, "results of tools").contains("not sent"));
    assert_eq!(wrong(&found, "stopped run"), "a success");
    assert_eq!(wrong(&found, "silence"), "a success");
}

#[tokio::test]
async fn streams_that_are_not_well_formed_are_found() {
    let hello = || block(0, Block::text("hello"));
    let end = || done(StopReason::EndTurn);
    for (events, why) in [
        (vec![start(), text(0, "hello"), hello()], "without `Done`"),
        (vec![start(), text(0, "hell"), hello(), end()], "its pieces were \"hell\""),
        (vec![start(), text(0, "hello"), end()], "an open block"),
        (vec![start(), text(0, "hello"), block(1, Block::text("hello")), end()], "block 0 is not"),
        (vec![start(), text(0, ""), hello(), end()], "an empty piece"),
        (vec![text(0, "hello"), hello(), end()], "before the start"),
        (vec![start(), start(), end()], "starts twice"),
        (vec![start(), hello(), end(), end()], "behind the end"),
        (vec![start(), hello(), text(0, "more"), end()], "which is complete"),
    ] {
        let found = check(events).await;
        let said = wrong(&found, "an answer is one well-formed stream");
        assert!(said.contains(why), "{said} instead of {why}");
    }
}

#[tokio::test]
async fn calls_with_the_same_id_and_errors_that_show_the_key_are_found() {
    let call = || Block::ToolCall(ToolCall::new("c1", "ls", serde_json::json!({})));
    let found = check(vec![start(), block(0, call()), block(1, call()), done(StopReason::ToolUse)]).await;
    assert!(wrong(&found, "calls have ids").contains("no id of its own"));
    let error = ProviderError::new(ErrorKind::Auth, "deaf", "m", Phase::Response, "no sk-secret-1");
    let found = check(vec![Err(error)]).await;
    assert!(wrong(&found, "errors").contains("shows the key"));
}
