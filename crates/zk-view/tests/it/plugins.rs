use serde_json::json;
use zk_core::events::{
    PartKind, PartLeftOut, ToolBefore, ToolLeftOut, ToolsChanged, TurnAfter, TurnBefore, ViewBlock,
};
use zk_core::kernel::Cx;
use zk_core::model::Display;
use zk_testkit::Script;

use crate::support::rig;

fn tasks(lines: &[&str], last: bool) -> ViewBlock {
    ViewBlock {
        source: "todo".into(),
        key: "list".into(),
        kind: "todo".into(),
        title: "Tasks".into(),
        body: Display::Lines { lines: lines.iter().map(|line| (*line).to_owned()).collect() },
        last,
    }
}

#[tokio::test]
async fn what_a_plugin_shows_is_one_block_that_changes_until_it_is_done() {
    let script = Script::new()
        .turn(|t| t.text("First.").call("echo", json!({"text": "x"})))
        .turn(|t| t.text("Then.").call("echo", json!({"text": "y"})))
        .turn(|t| t.text("Done."));
    let mut rig = rig(script).await;
    let scope = rig.agent.bus().scope("todo");
    scope.on_async(async |event: &ToolBefore, cx: &Cx| {
        let is_last = event.args["text"] == "y";
        let lines: &[&str] = if is_last { &["x", "y"] } else { &["x"] };
        cx.emit(tasks(lines, is_last)).await
    });
    rig.run("go").await;
    assert_eq!(rig.lines().matches("todo todo: Tasks (2 lines)").count(), 1, "{}", rig.lines());
}

#[tokio::test]
async fn a_block_shown_while_an_answer_arrives_stands_behind_it() {
    let script = Script::new().turn(|t| t.text("First.").text("Second."));
    let mut rig = rig(script).await;
    let scope = rig.agent.bus().scope("todo");
    scope.on_async(async |_: &zk_core::events::StreamStart, cx: &Cx| cx.emit(tasks(&["x"], false)).await);
    scope.on_async(async |_: &TurnAfter, cx: &Cx| {
        cx.emit(ViewBlock { key: "other".into(), ..tasks(&[], true) }).await
    });
    rig.run("go").await;
    let lines = rig.lines();
    let at = |what: &str| lines.find(what).unwrap_or_else(|| panic!("{what} in {lines}"));
    assert!(at("says: ") < at("Tasks (1 lines)") && at("Tasks (1") < at("end: "), "{lines}");
}

#[tokio::test]
async fn what_a_run_goes_on_without_is_named() {
    let mut rig = rig(Script::new().turn(|t| t.text("Done."))).await;
    let scope = rig.agent.bus().scope("test");
    scope.on_async(async |_: &TurnAfter, cx: &Cx| {
        cx.emit(PartLeftOut {
            kind: PartKind::PromptSection,
            name: "house\u{1b}[2J".into(),
            source: "team".into(),
            error: "its file is gone".into(),
        })
        .await
    });
    scope.on_async(async |before: &TurnBefore, cx: &Cx| {
        let left_out = vec![ToolLeftOut {
            name: "bad".into(),
            source: "bank".into(),
            reason: "it has no schema".into(),
        }];
        let (turn_id, turn) = (before.turn_id.clone(), before.turn);
        let (changes, tools) = (Vec::new(), Vec::new());
        cx.emit(ToolsChanged { turn_id, turn, changes, breaks_prefix: false, tools, left_out }).await
    });
    rig.run("go").await;
    for note in [
        "note: prompt section `house` of team is left out: its file is gone",
        "note: tool `bad` of bank is left out: it has no schema",
    ] {
        assert_eq!(rig.lines().matches(note).count(), 1, "{note} in {}", rig.lines());
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_left_out_and_its_plugin_is_named() {
    let mut rig = rig(Script::new().turn(|t| t.text("Done."))).await;
    rig.agent.bus().scope("todo").on_async(async |_: &TurnAfter, cx: &Cx| {
        let body = Display::Line { text: "x".repeat(1 << 20) };
        cx.emit(ViewBlock { body, ..tasks(&[], true) }).await
    });
    rig.run("go").await;
    assert!(rig.lines().contains("note: left out what todo shows as `list`"), "{}", rig.lines());
    assert!(!rig.lines().contains("Tasks"), "{}", rig.lines());
}
