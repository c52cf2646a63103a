use serde_json::json;
use zk_core::model::{Block, CallId, Message, ModelRef, ToolCall, ToolResult, TurnUsage, Usage};
use zk_core::service::{Durability, Entry, EntryKind};
use zk_testkit::Script;
use zk_view::{CallState, Content, Effect, Intent, Patch, ViewDriver, body_of, rebuild};

use crate::support::{call, rig};

#[tokio::test]
async fn a_resumed_view_goes_on_where_the_stored_one_ended() {
    let script =
        Script::answering(|asked| zk_testkit::Turn::new().text(format!("Answer {}.", asked.messages.len())));
    let mut rig = rig(script).await;
    rig.run("one").await;
    let resumed = ViewDriver::new();
    resumed.restore(&rig.session.entries().await.unwrap());
    assert_eq!(resumed.view().blocks, rig.driver.view().blocks);
    rig.agent.bus().install(&ViewDriver::new()).unwrap_err();
    rig.run("two").await;
    assert!(rig.lines().contains("b3 › two"), "{}", rig.lines());
}

#[tokio::test]
async fn a_turn_that_was_cut_off_shows_how_far_each_call_got() {
    let rig = rig(Script::new()).await;
    let calls = ["done", "begun", "not"].map(|id| Block::ToolCall(ToolCall::new(id, "run", json!({}))));
    let message = Message::assistant(calls.to_vec()).shared();
    let usage = TurnUsage {
        turn_id: "t".into(),
        model: ModelRef::new("p", "m"),
        usage: Usage::default(),
        cost: None,
    };
    let id = |id: &str| CallId::from(id);
    let begin = |call: &str| EntryKind::CallBegin {
        turn_id: "t".into(),
        call_id: id(call),
        name: "run".into(),
        args: json!({}),
    };
    let result = ToolResult { call_id: id("done"), content: "fine".into(), is_error: false };
    let end = EntryKind::CallEnd {
        turn_id: "t".into(),
        call_id: id("done"),
        result,
        display: None,
        details: None,
        elapsed_ms: 5,
    };
    let entries = vec![
        EntryKind::RunStart { run_id: "r".into() },
        EntryKind::OpenTurn { turn_id: "t".into(), message, usage },
        begin("done"),
        end,
        begin("begun"),
    ];
    rig.session.append(entries, Durability::Process).await.unwrap();
    let blocks = rebuild(&rig.session.entries().await.unwrap());
    let states: Vec<CallState> = blocks.iter().map(|block| call(block).unwrap().state).collect();
    assert_eq!(states, [CallState::Done, CallState::OutcomeUnknown, CallState::NotRun]);
}

#[tokio::test]
async fn a_long_result_is_expanded_from_memory_and_from_the_session_alike() {
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    let script = Script::answering(move |asked| {
        let turn = zk_testkit::Turn::new();
        if asked.results().is_empty() {
            turn.call("echo", json!({"text": text.clone()}))
        } else {
            turn.text("Done.")
        }
    });
    let mut rig = rig(script).await;
    rig.run("go").await;
    let view = rig.driver.view();
    let block = view.blocks.iter().find(|block| call(block).is_some()).unwrap();
    let body = call(block).unwrap().body.clone().unwrap();
    assert_eq!((body.total_lines, body.lines.len(), body.expandable), (2000, 40, true));
    assert_eq!(body.lines.last().unwrap().as_str(), "line 1999");

    let mut reader = rig.driver.reader();
    reader.next().await.unwrap();
    rig.driver.intent(&Intent::Expand { id: block.id.clone() });
    let patches = reader.next().await.unwrap();
    let [Patch::Body { lines, .. }] = &patches[..] else { panic!("{patches:?}") };
    assert_eq!(lines.len(), 2000);

    let entries: Vec<Entry> = rig.session.entries().await.unwrap();
    assert_eq!(body_of(&entries, &block.id).as_deref(), Some(&lines[..]));
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_asked_for() {
    let script = Script::answering(|asked| {
        let turn = zk_testkit::Turn::new();
        if asked.results().len() < 6 && asked.number < 7 {
            turn.call("echo", json!({"text": "megabyte"}))
        } else {
            turn.text("Done.")
        }
    });
    let mut rig = rig(script).await;
    rig.run("go").await;
    let view = rig.driver.view();
    let first = view.blocks.iter().find(|block| matches!(block.content, Content::Call(_))).unwrap();
    rig.driver.intent(&Intent::Expand { id: first.id.clone() });
    assert_eq!(rig.driver.take_effect(), Some(Effect::LoadBody { id: first.id.clone() }));
}
