//! The typed updates of a run.

use futures_util::StreamExt;
use serde_json::json;
use zk_agent::{Behavior, RunUpdate, SpawnOptions};
use zk_core::events::{Ruling, ToolGate};
use zk_core::service::RunStatus;
use zk_testkit::{Script, Turn};

use crate::support::{rig, rig_with};

/// An update in one line.
fn line(update: &RunUpdate) -> String {
    match update {
        RunUpdate::Text(text) => format!("text {text}"),
        RunUpdate::Thinking(text) => format!("thinking {text}"),
        RunUpdate::TurnEnded { turn, error, .. } => format!("turn {turn} {}", error.is_none()),
        RunUpdate::ToolStarted { tool, args, .. } => format!("start {tool} {args}"),
        RunUpdate::ToolEnded { tool, result, .. } => format!("end {tool} {}", result.is_error),
        RunUpdate::Ended { status, text, stats, .. } => format!("{status:?} {text} {}", stats.turns),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_call_has_one_end_even_if_refused_or_unknown() {
    let rig = rig(Script::new()
        .turn(|t| {
            t.thinking("Hm.")
                .text("Look:")
                .call("echo", json!({"text": "hi"}))
                .call("fail", json!({}))
                .call("nothing", json!({}))
        })
        .turn(|t| t.text("Done.")));
    rig.scope("guard").on_sync(|gate: &ToolGate, _| (gate.call.name == "fail").then(|| Ruling::refuse("no")));
    let mut run = rig.agent.run("go").unwrap();
    let lines: Vec<String> = run.updates().map(|update| line(&update)).collect().await;
    assert!(!rig.agent.is_running());
    run.wait().await.result.unwrap();
    let expected = [
        "thinking Hm.",
        "text Look:",
        "turn 1 true",
        r#"start echo {"text":"hi"}"#,
        "end echo false",
        "end fail true",
        "end nothing true",
        "text Done.",
        "turn 2 true",
        "Completed Done. 2",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn updates_exclude_sub_agents_and_the_next_run() {
    let script = Script::answering(|asked| match asked.messages.len() {
        1 if asked.last_user_text() == "delegate" => Turn::new().call("spawn", json!({"task": "do it"})),
        1 => Turn::new().text("Of the child."),
        _ => Turn::new().text("Mine."),
    });
    let rig = rig_with(script, |builder| builder.spawn(SpawnOptions::default()));
    let mut run = rig.agent.run("delegate").unwrap();
    let updates = run.updates();
    run.wait().await.result.unwrap();
    rig.run("again").await.result.unwrap();
    let lines: Vec<String> = updates.map(|update| line(&update)).collect().await;
    assert!(!lines.iter().any(|line| line.contains("text Of the child.")), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| *line == "text Mine.").count(), 1, "{lines:?}");
    assert!(lines.iter().any(|line| line == "end spawn false"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "Completed Mine. 2");
}

#[tokio::test]
async fn a_stopped_run_ends_its_turn_and_says_so() {
    let rig = rig(Script::new().turn(|t| t.text("Half").hang()));
    let mut run = rig.agent.run("go").unwrap();
    let mut updates = run.updates();
    assert_eq!(updates.next().await, Some(RunUpdate::Text("Half".into())));
    run.abort();
    let mut rest = Vec::new();
    while let Some(update) = updates.next().await {
        rest.push(update);
    }
    let [RunUpdate::TurnEnded { error: Some(_), .. }, RunUpdate::Ended { status, error, .. }] = &*rest else {
        panic!("{rest:?}")
    };
    assert_eq!(*status, RunStatus::Aborted);
    assert!(error.is_some());
    run.wait().await.result.unwrap_err();
}

#[tokio::test]
async fn text_that_waits_for_a_slow_reader_is_one_update_and_what_is_too_much_is_counted() {
    let large = "word ".repeat(1 << 18);
    let rig = rig(Script::new()
        .turn(|t| t.chunks(vec!["word "; 40_000]).call("echo", json!({"text": "hi"})))
        .turn(|t| t.chunks(vec![&*large; 20])));
    let mut run = rig.agent.run("go").unwrap();
    let mut updates = run.updates();
    run.wait().await.result.unwrap();
    assert_eq!(updates.next().await, Some(RunUpdate::Text("word ".repeat(40_000))));
    let mut lengths = Vec::new();
    let mut last = None;
    while let Some(update) = updates.next().await {
        if let RunUpdate::Text(text) = &update {
            lengths.push(text.len());
        }
        last = Some(update);
    }
    // 16 MiB hold the first answer and 12 pieces of the second; a turn's end has no size.
    assert_eq!(lengths, [12 * large.len()]);
    assert_eq!(updates.missed(), 8);
    assert!(matches!(last, Some(RunUpdate::Ended { .. })), "{last:?}");
}

#[tokio::test]
async fn a_run_that_is_over_has_no_updates_and_a_dropped_reader_stops_nothing() {
    let rig = rig(Script::new().turn(|t| t.text("One.")).turn(|t| t.text("Two.")));
    let mut run = rig.agent.run("go").unwrap();
    run.start();
    rig.agent.wait_for_idle().await;
    assert!(run.updates().next().await.is_none());
    run.wait().await.result.unwrap();
    let mut run = rig.agent.run("go").unwrap();
    drop(run.updates());
    assert_eq!(run.wait().await.text, "Two.");
}

#[tokio::test]
async fn updates_exclude_the_call_with_the_structured_output() {
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "hi"})).call("__output__", json!({"n": "many"})))
        .turn(|t| t.call("__output__", json!({"n": 1})));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let rig = rig_with(script, |b| b.behavior(Behavior { schema: Some(schema), ..Behavior::default() }));
    let mut run = rig.agent.run("go").unwrap();
    let lines: Vec<String> = run.updates().map(|update| line(&update)).collect().await;
    assert_eq!(run.wait().await.stats.output, Some(json!({"n": 1})));
    let expected =
        ["turn 1 true", r#"start echo {"text":"hi"}"#, "end echo false", "turn 2 true", "Completed  2"];
    assert_eq!(lines, expected);
}
