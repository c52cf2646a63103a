//! Everything that happened is stored, as one unit where it belongs together, or the run stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use zk_core::events::{
    AgentBeforeStart, BeforeStart, MessagesCause, SessionEnd, SessionMessages, SessionStart, ToolResultsAfter,
};
use zk_core::kernel::{Cx, Event, Stage};
use zk_core::model::{AgentError, Message};
use zk_testkit::Script;

use crate::support::{Rig, assert_lines, assert_sound, rig, told};

/// A store that fails on the `nth` event `E` (from 1), and only then.
fn fails_on<E: Event>(rig: &Rig, nth: u32)
where
    Result<(), &'static str>: zk_core::kernel::IntoReply<E>,
{
    let seen = AtomicU32::new(0);
    rig.scope("disk").on_sync_at(Stage::Early, move |_: &E, _: &Cx| {
        let number = seen.fetch_add(1, Ordering::SeqCst) + 1;
        if number == nth { Err("disk full") } else { Ok(()) }
    });
}

fn script() -> Script {
    Script::new()
        .turn(|t| t.text("Look.").call("echo", json!({"text": "1"})))
        .turn(|t| t.text("One."))
        .turn(|t| t.text("Two."))
}

async fn stops(rig: &Rig) {
    let outcome = rig.agent.run("go").unwrap().wait().await;
    let error = outcome.result.unwrap_err();
    assert!(matches!(&error, AgentError::Hook(_)) && error.to_string().contains("disk full"), "{error}");
    assert_eq!(rig.recorder.named("agent:done").last().unwrap()["status"], "error");
    assert_sound(&rig.agent.history());
}

// The next run starts with the messages that could not be stored.
#[tokio::test]
async fn a_pair_that_cannot_be_stored_stops_the_run_and_is_announced_again_first() {
    let rig = rig(script());
    fails_on::<ToolResultsAfter>(&rig, 1);
    stops(&rig).await;
    assert_eq!(rig.provider.requests().len(), 1, "nothing is sent on what is not stored");
    assert_eq!(rig.agent.history().len(), 3, "what happened stays");
    rig.recorder.clear();
    rig.run("go on").await.result.unwrap();
    assert_eq!(
        rig.names(&["tool-results", "session", "input"]),
        [
            "tool-results:after",
            "input",
            "session:start",
            "session:messages",
            "session:messages",
            "session:end"
        ]
    );
    assert_lines(
        &told(&rig.store.messages()),
        r#"
        user: go
        model: Look. | echo({"text":"1"})
        user: =1
        user: go on
        model: One.
        "#,
    );
}

#[tokio::test]
async fn a_prompt_and_an_answer_that_cannot_be_stored_stop_the_run_too() {
    for (nth, requests) in [(1, 0), (2, 2)] {
        let rig = rig(script());
        fails_on::<SessionMessages>(&rig, nth);
        stops(&rig).await;
        assert_eq!(rig.provider.requests().len(), requests);
        rig.run("go on").await.result.unwrap();
        assert_eq!(rig.store.messages(), rig.agent.history());
    }
}

#[tokio::test]
async fn a_store_that_stays_broken_stops_every_run() {
    let rig = rig(script());
    rig.scope("disk").on_sync_at(Stage::Early, |_: &SessionMessages, _: &Cx| Err::<(), _>("disk full"));
    stops(&rig).await;
    stops(&rig).await;
    assert_eq!(rig.agent.history().len(), 1, "the second prompt was not taken");
    assert_eq!(rig.provider.requests().len(), 0);
}

#[tokio::test]
async fn a_session_that_cannot_begin_takes_no_prompt() {
    let rig = rig(script());
    fails_on::<SessionStart>(&rig, 1);
    stops(&rig).await;
    assert_eq!(rig.agent.history().len(), 0);
}

#[tokio::test]
async fn a_session_that_cannot_end_spoils_a_run_that_was_fine() {
    let rig = rig(Script::new().turn(|t| t.text("ok")));
    fails_on::<SessionEnd>(&rig, 1);
    let outcome = rig.agent.run("go").unwrap().wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Hook(_))));
    assert_eq!(outcome.text, "ok");
}

#[tokio::test]
async fn call_and_results_are_announced_as_one_unit_before_the_next_request() {
    let rig = rig(script());
    let provider = rig.provider.clone();
    rig.scope("store2").on_sync(move |pair: &ToolResultsAfter, _: &Cx| {
        assert_eq!(provider.requests().len(), 1);
        assert_eq!(pair.assistant.calls().count(), pair.results.content.len());
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.recorder.named("tool-results:after").len(), 1);
    let causes: Vec<_> = rig.recorder.named("session:messages").iter().map(|e| e["cause"].clone()).collect();
    assert_eq!(causes, ["prompt", "answer"], "an assistant message with calls comes in no other way");
}

#[tokio::test]
async fn an_injected_message_is_stored_with_the_next_run() {
    let rig = rig(Script::new().turn(|t| t.text("ok")));
    rig.agent.inject(Message::injected("$ ls\na.txt", "shell")).unwrap();
    assert_eq!(rig.store.messages().len(), 0);
    rig.run("what is there?").await.result.unwrap();
    assert_eq!(rig.recorder.names()[0], "session:messages");
    assert_eq!(
        rig.recorder.named("session:messages")[0]["cause"],
        serde_json::to_value(MessagesCause::Harness).unwrap()
    );
    let arc = rig.store.messages()[0].clone();
    assert!(Arc::ptr_eq(&arc, &rig.agent.history()[0]), "the same shared message, not a copy");
}

#[tokio::test]
async fn every_message_has_an_id_of_its_own_before_anything_stores_it() {
    let rig = rig(Script::new().turn(|t| t.call("echo", json!({"text": "1"}))).turn(|t| t.text("One.")));
    let announced = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (turns, pairs) = (announced.clone(), announced.clone());
    let scope = rig.scope("plugin");
    scope.on_sync_at(Stage::Early, move |event: &SessionMessages, _: &Cx| {
        turns.lock().unwrap().extend(event.messages.iter().map(|message| message.id.clone().unwrap()));
    });
    scope.on_sync_at(Stage::Early, move |event: &ToolResultsAfter, _: &Cx| {
        let pair = [&event.assistant, &event.results];
        pairs.lock().unwrap().extend(pair.map(|message| message.id.clone().unwrap()));
    });
    scope.on_sync(|_: &AgentBeforeStart, _: &Cx| {
        Some(BeforeStart {
            messages: vec![Message::injected("mind the gap", "plugin")],
            ..BeforeStart::default()
        })
    });
    rig.agent.inject(Message::injected("$ ls", "user:bash")).unwrap();
    let run = rig.agent.run("go").unwrap();
    run.handle().steer("other way").unwrap();
    run.wait().await.result.unwrap();
    let ids: Vec<_> = rig.agent.history().iter().map(|message| message.id.clone().unwrap()).collect();
    assert_eq!(ids.len(), 7);
    assert_eq!(*announced.lock().unwrap(), ids);
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
}
