//! Errors of a run that does not end well.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::json;
use zk_agent::{Agent, Behavior, RetryPolicy, RunOptions};
use zk_core::events::{MessageEnd, StreamEnd, StreamText, TurnAfter, TurnBefore};
use zk_core::kernel::{Bus, Cx, OnError};
use zk_core::model::{AgentError, ErrorKind, Model, StopReason, Usage, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};
use zk_testkit::{Script, ScriptedProvider};

use crate::support::{Rig, assert_lines, rig, rig_with, told};

#[tokio::test]
async fn every_class_of_provider_error_becomes_its_own_type() {
    use ErrorKind::*;
    for kind in [
        Rate,
        Quota,
        Overloaded,
        ContextExceeded,
        Auth,
        Transport,
        Stalled,
        Malformed,
        Rejected,
        Refused,
        Aborted,
    ] {
        let script = Script::new().turn(|t| t.error(kind, "why"));
        let rig = rig_with(script, |builder| builder.retry(RetryPolicy::never()));
        let error = rig.run("go").await.result.unwrap_err();
        let fits = match (&error, kind) {
            (AgentError::ContextExceeded(error), ContextExceeded) => error.kind == kind,
            (AgentError::Aborted, Aborted) => true,
            (
                AgentError::Provider(error),
                Rate | Quota | Overloaded | Auth | Transport | Stalled | Malformed | Rejected | Refused,
            ) => error.kind == kind && error.provider == "scripted",
            _ => false,
        };
        assert!(fits, "{kind:?} became {error:?}");
        assert_eq!(rig.names(&["turn:after", "agent:done"]), ["turn:after", "agent:done"], "{kind:?}");
    }
}

#[tokio::test]
async fn the_partial_answer_is_kept_and_the_next_run_works() {
    let script = Script::new()
        .turn(|t| t.text("Half an ").call("echo", json!({"text": "1"})).error(ErrorKind::Transport, "reset"))
        .turn(|t| t.text("Whole."));
    let rig = rig_with(script, |builder| builder.retry(RetryPolicy::never()));
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::Provider(_))));
    assert_eq!((outcome.text.as_str(), outcome.stop), ("Half an ", Some(StopReason::Error)));
    assert_eq!(outcome.stats.usage, Usage::default());
    rig.run("again").await.result.unwrap();
    assert_lines(
        &told(&rig.agent.history()),
        "user: go
        model: Half an
        user: again
        model: Whole.",
    );
    assert_eq!(rig.recorder.named("turn:after")[0]["usage"], json!(Usage::default()));
}

#[tokio::test]
async fn a_refusal_and_a_full_window_are_errors_and_their_calls_are_left_out() {
    for (stop, kind) in [
        (StopReason::Refusal(Some("not that".into())), ErrorKind::Refused),
        (StopReason::ContextExceeded, ErrorKind::ContextExceeded),
        (StopReason::Error, ErrorKind::Malformed),
        (StopReason::Aborted, ErrorKind::Malformed),
    ] {
        let said = stop.clone();
        let rig =
            rig(Script::new().turn(move |t| t.text("Well").call("echo", json!({"text": "1"})).stop(said)));
        let error = rig.run("go").await.result.unwrap_err();
        assert_eq!(error.provider().map(|error| error.kind), Some(kind), "{stop}");
        assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Well");
        assert_eq!(rig.recorder.named("tool:gate").len(), 0);
    }
}

#[tokio::test]
async fn a_run_over_its_turn_limit_is_an_error_and_keeps_its_messages() {
    let script = Script::answering(|_| zk_testkit::Turn::new().call("echo", json!({"text": "x"})));
    let rig = rig_with(script, |b| b.behavior(Behavior { max_turns: Some(2), ..Behavior::default() }));
    let outcome = rig.run("go").await;
    assert!(matches!(outcome.result, Err(AgentError::TurnLimit { turns: 2 })));
    assert_eq!((outcome.stats.turns, rig.agent.history().len()), (2, 5));
    // The run's own limit goes first.
    let more = RunOptions::resume().behavior(Behavior { max_turns: Some(3), ..Behavior::default() });
    assert!(matches!(rig.run(more).await.result, Err(AgentError::TurnLimit { turns: 3 })));
}

/// Provider whose streams end without their final event.
struct Mute(ScriptedProvider);

#[async_trait]
impl Provider for Mute {
    fn name(&self) -> &str {
        "scripted"
    }

    fn model(&self, id: &str) -> Model {
        self.0.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.0.rules(model)
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        Box::pin(stream::iter([Ok(StreamEvent::Text { block: 0, delta: "Half".into() })]))
    }
}

#[tokio::test]
async fn a_stream_that_just_ends_is_no_answer() {
    let provider = Mute(ScriptedProvider::new(Script::new()));
    let agent = Agent::builder(Arc::new(provider)).model_id("mute-1").build().unwrap();
    let outcome = agent.run("go").unwrap().wait().await;
    assert_eq!(outcome.result.unwrap_err().provider().map(|error| error.kind), Some(ErrorKind::Malformed));
    assert_eq!(outcome.text, "Half");
}

/// Counts its input, then breaks off or waits for ever.
struct Cut {
    scripted: ScriptedProvider,
    hangs: bool,
}

#[async_trait]
impl Provider for Cut {
    fn name(&self) -> &str {
        "scripted"
    }

    fn model(&self, id: &str) -> Model {
        self.scripted.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.scripted.rules(model)
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        let input = Usage { input: 6500, output: 1, ..Usage::default() };
        let events = stream::iter([
            Ok(StreamEvent::Start { model: None, request_id: None }),
            Ok(StreamEvent::Usage(input)),
            Ok(StreamEvent::Text { block: 0, delta: "Half".into() }),
        ]);
        if self.hangs { Box::pin(events.chain(stream::pending())) } else { Box::pin(events) }
    }
}

#[tokio::test]
async fn usage_of_a_broken_or_stopped_response_is_counted() {
    for hangs in [false, true] {
        let provider = Cut { scripted: ScriptedProvider::new(Script::new()), hangs };
        let agent = Agent::builder(Arc::new(provider)).model_id("cut-1").build().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let scope = agent.bus().scope("test");
        scope.on_sync(move |after: &TurnAfter, _: &Cx| log.lock().unwrap().push(after.usage.input));
        let mut run = agent.run("go").unwrap();
        if hangs {
            let mut begun = run.events();
            while begun.next().await.is_some_and(|event| event.name != "stream:text") {}
            run.abort();
        }
        let outcome = run.wait().await;
        assert!(outcome.result.is_err());
        assert_eq!((outcome.stats.turns, outcome.stats.usage.input), (1, 6500), "hangs: {hangs}");
        assert_eq!(*seen.lock().unwrap(), [6500], "hangs: {hangs}");
    }
}

// Everything but gates and stores continues and reports.
#[tokio::test]
async fn a_failing_watcher_stops_nothing_by_default() {
    let rig = rig(Script::new().turn(|t| t.text("ok")));
    let scope = rig.scope("broken");
    scope.on_sync(|_: &TurnBefore, _: &Cx| Err::<(), _>("no"));
    scope.on_sync(|_: &StreamText, _: &Cx| -> () { panic!("no") });
    scope.on_sync(|_: &MessageEnd, _: &Cx| Err::<(), _>("no"));
    scope.on_sync(|_: &TurnAfter, _: &Cx| Err::<(), _>("no"));
    rig.run("go").await.result.unwrap();
}

/// An event, and how to make it fail.
type Named = (&'static str, fn(&Rig));

// On a host where a failing handler ends the turn, the text is kept, without calls.
#[tokio::test]
async fn on_a_strict_host_a_failing_handler_ends_the_run_and_loses_nothing() {
    let breaks: [Named; 4] = [
        ("turn:before", |rig| {
            rig.scope("broken").on_sync(|_: &TurnBefore, _: &Cx| Err::<(), _>("no"));
        }),
        ("stream:end", |rig| {
            rig.scope("broken").on_sync(|_: &StreamEnd, _: &Cx| Err::<(), _>("no"));
        }),
        ("message:end", |rig| {
            rig.scope("broken").on_sync(|_: &MessageEnd, _: &Cx| Err::<(), _>("no"));
        }),
        ("turn:after", |rig| {
            rig.scope("broken").on_sync(|_: &TurnAfter, _: &Cx| Err::<(), _>("no"));
        }),
    ];
    for (event, install) in breaks {
        let usage = Usage { output: 3, ..Usage::default() };
        let script = Script::new().turn(|t| t.text("Well").call("echo", json!({"text": "1"})).usage(usage));
        let bus = Bus::builder().policy(OnError::Throw).build();
        let rig = rig_with(script, |b| b.bus(bus));
        install(&rig);
        let outcome = rig.run("go").await;
        assert!(matches!(outcome.result, Err(AgentError::Hook(_))), "{event}: {:?}", outcome.result);
        assert_eq!(rig.recorder.named("turn:after").len(), 1, "{event}");
        assert_eq!(rig.names(&["agent:done", "session:end"]), ["agent:done", "session:end"], "{event}");
        if event != "turn:before" {
            assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Well");
            assert_eq!(outcome.stats.usage.output, 3, "{event}");
        }
    }
}
