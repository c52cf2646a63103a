//! The text of an answer on its way to those who show it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use zk_agent::RunOutcome;
use zk_core::events::{StreamText, StreamTransform};
use zk_core::kernel::{Bus, Cx, OnError, Scope};
use zk_core::model::{AgentError, ErrorKind};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, assert_lines, rig, rig_with, told};

/// Replaces `**…**` by `<b>…</b>`, and holds back an incomplete mark.
fn bold(held: &mut String, last: bool) -> String {
    let mut shown = String::new();
    while let Some((before, rest)) = held.split_once("**")
        && let Some((inside, after)) = rest.split_once("**")
    {
        shown.push_str(&format!("{before}<b>{inside}</b>"));
        *held = after.to_owned();
    }
    let from = held.find("**").or_else(|| held.ends_with('*').then(|| held.len() - 1)).filter(|_| !last);
    let rest = held.split_off(from.unwrap_or(held.len()));
    shown + &std::mem::replace(held, rest)
}

fn embolden(scope: &Scope) {
    let held = Mutex::new(String::new());
    scope.on_sync(move |ev: &StreamTransform, _: &Cx| {
        let mut held = held.lock().unwrap();
        held.push_str(&ev.delta);
        Some(bold(&mut held, ev.last))
    });
}

fn shown(rig: &Rig) -> String {
    let deltas = rig.recorder.named("stream:text");
    deltas.iter().map(|event| event["delta"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_handler_changes_the_shown_text_at_any_boundary_of_pieces() {
    let text = "So **this** is *it*, **not";
    for second in 0..text.len() {
        for first in 0..second {
            let (head, tail) = text.split_at(second);
            let (head, middle) = head.split_at(first);
            let pieces = [head, middle, tail].map(str::to_owned);
            let rig = rig(Script::new().turn(|t| t.chunks(pieces)));
            embolden(&rig.scope("bold"));
            let outcome = rig.run("go").await;
            outcome.result.unwrap();
            assert_eq!(shown(&rig), "So <b>this</b> is *it*, **not", "{first} {second}");
            assert_eq!(
                (outcome.text.as_str(), told(&rig.agent.history())),
                (text, format!("user: go\nmodel: {text}"))
            );
            assert_eq!(rig.recorder.named("stream:end")[0]["text"], text);
        }
    }
}

#[tokio::test]
async fn handlers_see_earlier_changes_and_empty_text_is_not_shown() {
    let rig = rig(Script::new().turn(|t| t.chunks(["a ", "b ", "c"])));
    let scope = rig.scope("chain");
    scope.on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.replace("b ", "")));
    scope.on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.to_uppercase()));
    rig.run("go").await.result.unwrap();
    let shown = rig.recorder.named("stream:text");
    assert_eq!(shown.iter().map(|event| &event["delta"]).collect::<Vec<_>>(), ["A ", "C"]);
}

#[tokio::test]
async fn without_a_handler_text_is_not_announced_for_transform() {
    let rig = rig(Script::new().turn(|t| t.chunks(["a", "b"])));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.recorder.named("stream:transform").len(), 0, "the recorder only watches");
    assert_eq!(shown(&rig), "ab");
}

#[tokio::test]
async fn the_text_of_each_answer_ends_once() {
    let script = Script::new()
        .turn(|t| t.text("Look.").call("echo", json!({"text": "1"})))
        .turn(|t| t.call("echo", json!({"text": "2"})))
        .turn(|t| t.text("Done."));
    let rig = rig(script);
    embolden(&rig.scope("bold"));
    rig.run("go").await.result.unwrap();
    let ends = rig.recorder.named("stream:transform");
    let ends: Vec<_> = ends.iter().map(|event| (&event["delta"], &event["last"])).collect();
    let (no, yes) = (json!(false), json!(true));
    let [look, done, empty] = ["Look.", "Done.", ""].map(|text| json!(text));
    assert_eq!(ends, [(&look, &no), (&empty, &yes), (&done, &no), (&empty, &yes)]);
}

#[tokio::test]
async fn held_back_text_of_a_failed_answer_is_shown() {
    let rig = rig(Script::new().turn(|t| t.text("So **it").error(ErrorKind::Transport, "reset")));
    embolden(&rig.scope("bold"));
    rig.run("go").await.result.unwrap_err();
    assert_eq!(shown(&rig), "So **it");
}

/// Runs until the answer hangs, and stops it.
async fn stopped(rig: &Rig) -> RunOutcome {
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    run.abort();
    let outcome = run.wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Aborted)));
    rig.assert_sound();
    outcome
}

#[tokio::test(start_paused = true)]
async fn held_back_text_of_a_stopped_answer_is_shown() {
    let rig = rig(Script::answering(|_| Turn::new().chunks(["So ", "**it"]).hang()));
    embolden(&rig.scope("bold"));
    assert_eq!(stopped(&rig).await.text, "So **it");
    assert_eq!(shown(&rig), "So **it");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_does_not_wait_for_a_handler_to_let_go() {
    let rig = rig(Script::answering(|_| Turn::new().text("So").hang()));
    rig.scope("slow").on_async(async |ev: &StreamTransform, _: &Cx| {
        if ev.last {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        Some(ev.delta.clone())
    });
    let asked = tokio::time::Instant::now();
    stopped(&rig).await;
    assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
}

// The failure is reported besides.
#[tokio::test]
async fn a_handler_that_fails_leaves_the_text_as_it_was() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = reported.clone();
    let bus = Bus::builder().on_error(move |error| reports.lock().unwrap().push(error.event)).build();
    let rig = rig_with(Script::new().turn(|t| t.chunks(["a ", "b"])), |b| b.bus(bus));
    let scope = rig.scope("broken");
    scope.on_sync(|_: &StreamTransform, _: &Cx| Err::<Option<String>, _>("no"));
    scope.on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.to_uppercase()));
    rig.run("go").await.result.unwrap();
    assert_eq!(shown(&rig), "A B");
    assert_eq!(*reported.lock().unwrap(), ["stream:transform"; 3]);
}

#[tokio::test]
async fn on_a_strict_host_a_handler_that_fails_ends_the_run_and_what_was_said_is_kept() {
    for at_the_end in [false, true] {
        let bus = Bus::builder().policy(OnError::Throw).build();
        let rig = rig_with(Script::new().turn(|t| t.text("Well.")), |b| b.bus(bus));
        rig.scope("broken").on_sync(move |ev: &StreamTransform, _: &Cx| {
            if ev.last == at_the_end { Err("no") } else { Ok(Some(ev.delta.clone())) }
        });
        let outcome = rig.run("go").await;
        assert!(matches!(outcome.result, Err(AgentError::Hook(_))), "{:?}", outcome.result);
        assert_lines(&told(&rig.agent.history()), "user: go\nmodel: Well.");
        assert_eq!(shown(&rig), if at_the_end { "Well." } else { "" });
    }
}

#[tokio::test]
async fn transformed_text_reaches_observers_of_stream_text() {
    let rig = rig(Script::new().turn(|t| t.text("loud")));
    let seen = Arc::new(Mutex::new(String::new()));
    let text = seen.clone();
    rig.scope("screen").on_sync(move |ev: &StreamText, _: &Cx| text.lock().unwrap().push_str(&ev.delta));
    rig.scope("loud").on_sync(|ev: &StreamTransform, _: &Cx| Some(ev.delta.to_uppercase()));
    rig.run("go").await.result.unwrap();
    assert_eq!(*seen.lock().unwrap(), "LOUD");
}
