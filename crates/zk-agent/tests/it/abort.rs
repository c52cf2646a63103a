//! Stopping a run, wherever it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use zk_agent::RunOutcome;
use zk_core::events::{
    ContextTransform, MessageEnd, ResultPatch, StreamEnd, ToolGate, ToolTransform, TurnBefore,
};
use zk_core::kernel::{Answer, Cx, Event, Handler};
use zk_core::model::{AgentError, ErrorKind, StopReason, ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::ToolCx;
use zk_testkit::Script;

use crate::support::{Rig, TestTool, assert_lines, rig, rig_with, told};

/// Checks a stopped run: valid and fully stored history, and an announced end.
fn assert_stopped(rig: &Rig, outcome: &RunOutcome) {
    assert!(matches!(outcome.result, Err(AgentError::Aborted)), "{:?}", outcome.result);
    rig.assert_sound();
    assert!(!rig.agent.is_running());
    assert_eq!(
        rig.names(&["agent:abort", "agent:done", "session:end"]),
        ["agent:abort", "agent:done", "session:end"]
    );
    let done = &rig.recorder.named("agent:done")[0];
    assert_eq!((&done["status"], &done["error"]), (&json!("aborted"), &json!("the run was stopped")));
}

/// Runs until an event called `name` has happened, then stops.
async fn stop_at(rig: &Rig, name: &str) -> RunOutcome {
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for(name).await;
    run.abort();
    let outcome = run.wait().await;
    assert_stopped(rig, &outcome);
    outcome
}

struct Hangs;

impl<E: Event> Handler<E> for Hangs {
    async fn call(&self, _: &E, _: &Cx) -> Answer<E> {
        std::future::pending().await
    }
}

const NOT_RUN: &str = "Aborted: the run was stopped before this call. It was not run.";

fn two_calls() -> Script {
    Script::new()
        .turn(|t| t.text("Look.").call("echo", json!({"text": "1"})).call("echo", json!({"text": "2"})))
}

#[tokio::test]
async fn a_run_stopped_before_its_start_does_nothing() {
    let rig = rig(Script::new());
    let run = rig.agent.run("go").unwrap();
    run.abort();
    let outcome = run.wait().await;
    assert_stopped(&rig, &outcome);
    assert_eq!(rig.agent.history().len(), 0);
    assert_eq!(rig.provider.requests().len(), 0);
}

#[tokio::test]
async fn a_run_is_stopped_in_a_handler_before_the_first_request() {
    let rig = rig(Script::new());
    rig.scope("slow").handle::<ContextTransform, _>(Arc::new(Hangs));
    stop_at(&rig, "context:transform").await;
    assert_lines(&told(&rig.agent.history()), "user: go");
    assert_eq!(rig.provider.requests().len(), 0);
}

// A turn that was announced is announced to be over.
#[tokio::test]
async fn a_run_is_stopped_in_a_handler_of_a_begun_turn() {
    let rig = rig(Script::new());
    rig.scope("slow").handle::<TurnBefore, _>(Arc::new(Hangs));
    stop_at(&rig, "turn:before").await;
    assert_eq!(rig.recorder.named("turn:after").len(), 1);
}

#[tokio::test]
async fn a_run_stopped_in_the_stream_keeps_the_partial_text() {
    let rig = rig(Script::new().turn(|t| t.text("Let me ").hang()));
    let outcome = stop_at(&rig, "stream:text").await;
    assert_eq!((outcome.text.as_str(), outcome.stop), ("Let me ", Some(StopReason::Aborted)));
    assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Let me");
}

#[tokio::test]
async fn a_run_stopped_in_the_stream_drops_an_unfinished_call() {
    let script = Script::new().turn(|t| t.text("Look.").call("echo", json!({"text": "1"})).hang());
    let rig = rig(script);
    stop_at(&rig, "stream:tool-args").await;
    assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Look.");
}

#[tokio::test]
async fn a_run_is_stopped_in_the_stream_before_any_text() {
    let rig = rig(Script::new().turn(|t| t.hang()));
    let outcome = stop_at(&rig, "stream:start").await;
    assert_eq!(outcome.text, "");
    assert_lines(&told(&rig.agent.history()), "user: go");
}

// The whole message had arrived: its calls are kept and answered.
#[tokio::test]
async fn a_run_stopped_after_the_stream_keeps_the_message_and_answers_its_calls() {
    for install in [
        |rig: &Rig| drop(rig.scope("slow").handle::<StreamEnd, _>(Arc::new(Hangs))),
        |rig: &Rig| drop(rig.scope("slow").handle::<MessageEnd, _>(Arc::new(Hangs))),
    ] {
        let rig = rig(two_calls());
        install(&rig);
        let mut run = rig.agent.run("go").unwrap();
        run.start();
        rig.recorder.wait_for("stream:end").await;
        tokio::task::yield_now().await;
        run.abort();
        assert_stopped(&rig, &run.wait().await);
        assert_lines(
            &told(&rig.agent.history()),
            &format!(
                r#"user: go
                model: Look. | echo({{"text":"1"}}) | echo({{"text":"2"}})
                user: !{NOT_RUN} | !{NOT_RUN}"#
            ),
        );
    }
}

#[tokio::test]
async fn a_run_stopped_in_a_gate_runs_no_call_and_answers_all() {
    let rig = rig(two_calls());
    rig.scope("asking").handle::<ToolGate, _>(Arc::new(Hangs));
    stop_at(&rig, "tool:gate").await;
    assert_eq!(rig.names(&["tool:before", "tool:skipped"]), ["tool:skipped", "tool:skipped"]);
    assert!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"].as_object().unwrap().is_empty());
}

#[tokio::test]
async fn a_tool_that_heeds_the_stop_gives_its_own_result() {
    let polite = TestTool::new("polite", async |_, cx: ToolCx| {
        cx.cx.stop_token().cancelled().await;
        Err(ToolError::new(ToolErrorKind::Aborted, "stopped half-way; three files are written"))
    });
    let script = Script::new().turn(|t| t.call("polite", json!({})).call("echo", json!({"text": "2"})));
    let rig = rig_with(script, |b| b.tool(polite.arc()));
    stop_at(&rig, "tool:before").await;
    assert_lines(
        &told(&rig.agent.history()),
        &format!(
            r#"user: go
            model: polite({{}}) | echo({{"text":"2"}})
            user: !stopped half-way; three files are written | !{NOT_RUN}"#
        ),
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_the_stop_is_dropped_within_100_ms() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let kept = dropped.clone();
    let stuck = TestTool::new("stuck", move |_, _| {
        let flag = Flag(kept.clone());
        async move {
            let _flag = flag;
            std::future::pending::<()>().await;
            Ok(ToolOutput::text("never"))
        }
    });
    let rig = rig_with(Script::new().turn(|t| t.call("stuck", json!({}))), |b| b.tool(stuck.arc()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("tool:before").await;
    let asked = tokio::time::Instant::now();
    run.abort();
    let outcome = run.wait().await;
    // The clock is simulated: this is the simulated wait.
    assert!(asked.elapsed() <= Duration::from_millis(100), "{:?}", asked.elapsed());
    assert_stopped(&rig, &outcome);
    assert!(dropped.load(Ordering::SeqCst));
    assert_lines(
        &told(&rig.agent.history()),
        "user: go
        model: stuck({})
        user: !Aborted: the run was stopped while this call was running. Its effects are unknown.",
    );
}

// Text that has to be masked is masked, or does not get into the history.
#[tokio::test(start_paused = true)]
async fn a_result_whose_patch_is_stopped_is_patched_or_dropped() {
    struct Masks(Duration);
    impl Handler<ToolTransform> for Masks {
        async fn call(&self, _: &ToolTransform, _: &Cx) -> Answer<ToolTransform> {
            tokio::time::sleep(self.0).await;
            Ok(Some(ResultPatch { content: Some("***".into()), ..ResultPatch::default() }))
        }
    }
    for (pause, expected) in [
        (Duration::from_millis(10), "=***"),
        (
            Duration::from_secs(10),
            "!Aborted: the run was stopped while this call was running. Its effects are unknown.",
        ),
    ] {
        let rig = rig(Script::new().turn(|t| t.call("echo", json!({"text": "secret"}))));
        rig.scope("masker").handle::<ToolTransform, _>(Arc::new(Masks(pause)));
        stop_at(&rig, "tool:transform").await;
        let history = told(&rig.agent.history());
        assert!(history.ends_with(expected), "{history}");
    }
}

// Whatever the native error was.
#[tokio::test]
async fn a_stopped_run_ends_as_stopped_even_if_something_failed() {
    let rig = rig(Script::new()
        .turn(|t| t.text("a ").delay(Duration::from_millis(5)).error(ErrorKind::Auth, "bad key")));
    let run = rig.agent.run("go").unwrap();
    let handle = run.handle();
    rig.scope("late").on_sync(move |_: &zk_core::events::TurnAfter, _: &Cx| handle.abort());
    let outcome = run.wait().await;
    assert_stopped(&rig, &outcome);
}

#[tokio::test]
async fn dropping_the_handle_stops_the_run() {
    let rig = rig(Script::new().turn(|t| t.text("Let me ").hang()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    drop(run);
    rig.agent.wait_for_idle().await;
    rig.assert_sound();
    assert_eq!(rig.recorder.named("agent:done")[0]["status"], "aborted");
    assert_eq!(rig.names(&["session:end"]), ["session:end"]);
    assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Let me");
}

#[tokio::test]
async fn closing_the_agent_stops_the_run() {
    let rig = rig(Script::new().turn(|t| t.text("Let me ").hang()));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    rig.agent.close().await;
    assert_stopped(&rig, &run.wait().await);
}

#[tokio::test]
async fn closing_an_agent_does_not_wait_for_a_run_nobody_started() {
    let rig = rig(Script::new());
    let run = rig.agent.run("go").unwrap();
    rig.agent.close().await;
    assert!(matches!(run.wait().await.result, Err(AgentError::Aborted)));
}

#[tokio::test]
async fn the_next_run_continues_after_a_stopped_one() {
    let script = Script::new().turn(|t| t.call("stuck", json!({}))).turn(|t| t.text("Fine."));
    let rig = rig_with(script, |b| b.tool(TestTool::stuck("stuck").arc()));
    stop_at(&rig, "tool:before").await;
    rig.run("go on").await.result.unwrap();
    assert_eq!(rig.provider.requests()[1].history.repairs(), []);
}
