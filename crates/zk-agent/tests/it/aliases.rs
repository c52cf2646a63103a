//! Canonical names inside, wire names at the model.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Agent, Behavior};
use zk_core::events::{ProviderRequest, RequestPatch, ToolGate};
use zk_core::kernel::Cx;
use zk_core::model::AgentError;
use zk_core::service::ToolChoice;
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{TestTool, assert_lines, rig, rig_with, told};

#[tokio::test]
async fn the_model_sees_the_alias_and_everybody_else_the_canonical_name() {
    let script = Script::new()
        .turn(|t| t.call("Say", json!({"text": "1"})).call("fail", json!({})))
        .turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.alias("echo", "Say"));
    let gated = Arc::new(Mutex::new(Vec::new()));
    let kept = gated.clone();
    rig.scope("guard").on_sync(move |gate: &ToolGate, _: &Cx| {
        kept.lock().unwrap().push((gate.call.name.clone(), gate.call.display_name.clone()));
    });
    rig.run("go").await.result.unwrap();
    let asked = rig.provider.asked();
    assert_eq!(asked[0].tools, ["Say", "fail"]);
    let names: Vec<String> = asked[1].messages[1].calls().map(|call| call.name.clone()).collect();
    assert_eq!(names, ["Say", "fail"], "outbound history too");
    assert_eq!(*gated.lock().unwrap(), [("echo".into(), "Say".into()), ("fail".into(), "fail".into())]);
    assert_lines(
        &told(&rig.agent.history()),
        r#"
        user: go
        model: echo({"text":"1"}) | fail({})
        user: =1 | !it failed
        model: ok
        "#,
    );
    let transcript = rig.recorder.transcript();
    assert!(transcript.contains("tool:before  echo#1 as Say"), "{transcript}");
    assert!(
        transcript.contains(r#"stream:tool-args  #1 delta="{\"text\":\"1\"}" name="echo""#),
        "{transcript}"
    );
    assert_eq!(rig.recorder.named("agent:start")[0]["tools"], json!(["echo", "fail"]));
    assert_eq!(rig.recorder.named("agent:done")[0]["stats"]["tool_calls"], json!({"echo": 1, "fail": 1}));
}

#[tokio::test]
async fn messages_for_the_model_use_its_names_of_tools() {
    let script = Script::new().turn(|t| t.call("nothing", json!({}))).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.alias("echo", "Say"));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.results(2), ["nothing!: Unknown tool `nothing`. The tools are: Say, fail."]);
}

#[tokio::test]
async fn a_forced_choice_and_the_output_tool_are_renamed_too() {
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| {
        let schema = Some(json!({"type": "object"}));
        b.alias("echo", "Say")
            .alias("__output__", "Final")
            .behavior(Behavior { schema, ..Behavior::default() })
    });
    rig.scope("chooser").on_sync(|request: &ProviderRequest, _: &Cx| {
        let choice = ToolChoice::Tool("echo".into());
        (request.tool_choice == ToolChoice::Auto)
            .then(|| RequestPatch { tool_choice: Some(choice), ..RequestPatch::default() })
    });
    assert!(rig.run("go").await.result.is_err());
    let requests = rig.provider.requests();
    assert_eq!(requests[0].tool_choice, ToolChoice::Tool("Say".into()));
    assert_eq!(requests[1].tool_choice, ToolChoice::Tool("Final".into()));
    assert_eq!(rig.provider.last_user_text(), "Give the final answer by calling `Final`.");
}

#[tokio::test]
async fn two_tools_may_swap_their_names() {
    let script = Script::new().turn(|t| t.call("fail", json!({"text": "swapped"}))).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.alias("echo", "fail").alias("fail", "echo"));
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.provider.last_results()[0].text, "swapped");
}

#[tokio::test]
async fn names_that_clash_are_an_error_that_names_both() {
    let provider = || Arc::new(ScriptedProvider::new(Script::new()));
    let twice = Agent::builder(provider()).alias("read", "Tool").alias("write", "Tool").build();
    let error = twice.unwrap_err().to_string();
    assert!(["`read`", "`write`", "`Tool`"].iter().all(|name| error.contains(name)), "{error}");
    let provider = Agent::builder(provider()).tool(TestTool::echo()).tool(TestTool::fail());
    let error = provider.alias("echo", "fail").build().unwrap_err();
    assert!(matches!(&error, AgentError::Usage(text) if text.contains("`fail`")), "{error}");
}

#[tokio::test]
async fn a_tool_name_is_taken_once() {
    let provider = Arc::new(ScriptedProvider::new(Script::new()));
    let again = Agent::builder(provider).tool(TestTool::echo()).tool(TestTool::echo()).build();
    assert!(matches!(again.unwrap_err(), AgentError::Usage(text) if text.contains("echo")));
    drop(rig(Script::new()));
}

#[tokio::test]
async fn a_name_that_no_provider_accepts_is_an_error_before_any_request() {
    for name in ["", "fs.read", "a b", &"x".repeat(65)] {
        let provider = ScriptedProvider::new(Script::new());
        let built = Agent::builder(Arc::new(provider)).tool(TestTool::echo()).alias("echo", name).build();
        let Err(AgentError::Usage(why)) = built else { panic!("{name} was taken") };
        assert!(why.contains(name) && why.contains("alias"), "{why}");
    }
}
