//! Content of requests, and that it stays the same from one request to the next.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::{ContextTransform, MessageEnd, SystemTransform};
use zk_core::kernel::Cx;
use zk_core::model::{Block, Message, ToolCall, ToolOutput};
use zk_testkit::{Script, Turn};

use crate::support::{TestTool, assert_lines, rig, rig_with, told};

fn three_turns() -> Script {
    Script::new()
        .turn(|t| t.text("a").call("Say", json!({"text": "1"})))
        .turn(|t| t.call("fail", json!({"why": "2"})))
        .turn(|t| t.text("done"))
}

// The bytes of one request are a prefix of the next, because the values are shared.
#[tokio::test]
async fn requests_of_one_run_share_system_tools_and_messages() {
    let rig = rig_with(three_turns(), |b| b.system("Be brief.").alias("echo", "Say"));
    rig.run("go").await.result.unwrap();
    let requests = rig.provider.requests();
    assert_eq!(requests.len(), 3);
    for pair in requests.windows(2) {
        assert!(Arc::ptr_eq(&pair[0].system, &pair[1].system));
        assert!(Arc::ptr_eq(&pair[0].tools, &pair[1].tools));
        let (before, after) = (pair[0].history.messages(), pair[1].history.messages());
        assert!(before.len() < after.len());
        assert!(before.iter().zip(after).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
}

#[tokio::test]
async fn tools_are_sent_in_the_order_of_their_names_whatever_the_order_of_registration() {
    let tool = |name: &str| TestTool::new(name, async |_, _| Ok(ToolOutput::text("ok"))).arc();
    let rig = rig_with(Script::new().turn(|t| t.text("ok")), |b| b.tool(tool("zebra")).tool(tool("ant")));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.provider.asked()[0].tools, ["ant", "echo", "fail", "zebra"]);
}

#[tokio::test]
async fn context_transform_changes_the_request_and_not_the_history() {
    let rig = rig(three_turns());
    let scope = rig.scope("pruner");
    scope.on_sync(|context: &ContextTransform, _: &Cx| {
        let mut messages = context.messages.clone();
        messages.truncate(1);
        Some(messages)
    });
    scope.on_sync(|context: &ContextTransform, _: &Cx| {
        let mut messages = context.messages.clone();
        messages.push(Message::user_text(format!(" ({} before)", messages.len())).shared());
        Some(messages)
    });
    rig.run("go").await.result.unwrap();
    for asked in rig.provider.asked() {
        assert_eq!(asked.messages.len(), 1);
        assert_eq!(asked.messages[0].text(), "go (1 before)");
    }
    assert_eq!(rig.agent.history().len(), 6);
}

#[tokio::test]
async fn system_transform_counts_for_one_turn() {
    let rig = rig_with(three_turns(), |b| b.system("Base."));
    let scope = rig.scope("clock");
    scope.on_sync(|system: &SystemTransform, _: &Cx| {
        (system.turn == 2).then(|| format!("{} Hurry.", system.system))
    });
    scope.on_sync(|system: &SystemTransform, _: &Cx| {
        (system.turn == 2).then(|| format!("{} Now.", system.system))
    });
    rig.run("go").await.result.unwrap();
    let systems: Vec<String> = rig.provider.asked().into_iter().map(|one| one.system).collect();
    assert_eq!(systems, ["Base.", "Base. Hurry. Now.", "Base."]);
}

#[tokio::test]
async fn message_end_replaces_the_content_before_anything_runs_or_is_stored() {
    let rig = rig(Script::new().turn(|t| t.text("secret").call("fail", json!({}))).turn(|t| t.text("ok")));
    rig.scope("editor").on_sync(|end: &MessageEnd, _: &Cx| {
        end.message.calls().next().map(|call| {
            let call = ToolCall::new(call.id.clone(), "echo", json!({"text": "instead"}));
            vec![Block::text("***"), Block::ToolCall(call)]
        })
    });
    rig.run("go").await.result.unwrap();
    assert_lines(
        &told(&rig.agent.history()),
        r#"
        user: go
        model: *** | echo({"text":"instead"})
        user: =instead
        model: ok
        "#,
    );
}

// Joined by adjacency, for the request only, with an event.
#[tokio::test]
async fn a_damaged_history_is_repaired_for_the_request_only() {
    let damaged = vec![
        Message::user_text("go").shared(),
        Message::assistant(vec![Block::ToolCall(ToolCall::new("c1", "echo", json!({"text": "x"})))]).shared(),
        Message::user_text("never mind").shared(),
        Message::assistant(vec![Block::text("Fine.")]).shared(),
        Message::user(vec![Block::result("c1", "too late", false)]).shared(),
    ];
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| b.history(damaged.clone()));
    rig.agent.run("and now?").unwrap().wait().await.result.unwrap();
    let repaired = rig.recorder.named("history:repaired");
    assert_eq!(repaired.len(), 1);
    assert_eq!(
        repaired[0]["repairs"].as_array().unwrap().len(),
        rig.provider.requests()[0].history.repairs().len()
    );
    assert_eq!(rig.agent.history()[..5], damaged[..]);
    assert_eq!(rig.names(&["history", "turn:before"]), ["history:repaired", "turn:before"]);
}
