use serde_json::json;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::Cx;
use zk_protocols::ToolProtocol;
use zk_testkit::Script;

use crate::support::rig;

#[expect(clippy::needless_pass_by_value, reason = "callers write the arguments in place")]
fn call(name: &str, arguments: serde_json::Value) -> serde_json::Value {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test]
async fn one_tool_calls_the_others_and_everyone_sees_the_real_call() {
    let script = Script::new()
        .turn(|t| t.call("call_tool", call("echo", json!({"text": "hi"}))))
        .turn(|t| t.call("read_file", json!({"path": "a"})))
        .turn(|t| t.text("ok"));
    let rig = rig(ToolProtocol::Deferred, script);
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.calls(),
        ["echo({\"text\":\"hi\"})", "=echo hi", "read_file({\"path\":\"a\"})", "=read_file a"]
    );
    assert_eq!(rig.recorder.named("tool:begin")[0]["call"]["name"], "echo");
    let asked = rig.provider.asked();
    assert_eq!(asked[0].tools, ["read_file", "call_tool"]);
    let meta = rig.provider.requests()[0].tools[1].clone();
    assert!(meta.description.contains("- echo(text, limit?): Gives the text back\n"), "{}", meta.description);
    let sent: Vec<_> = asked[2].messages.iter().flat_map(|message| message.calls()).cloned().collect();
    assert_eq!(sent[0].name, "call_tool");
    assert_eq!(sent[0].args, call("echo", json!({"text": "hi"})));
    assert_eq!(sent[1].name, "read_file");
}

#[tokio::test]
async fn wrong_use_is_answered_with_what_is_wrong() {
    for (args, error) in [
        (call("echo", json!({"txt": "hi"})), "!Validation error: `text` is required"),
        (call("echo", json!({"text": "hi", "limit": "many"})), "!Validation error: `limit` must be integer"),
        (call("ecco", json!({"text": "hi"})), "!Unknown tool `ecco`. Did you mean `echo`?"),
        (call("echo", json!("hi")), "!Validation error: the arguments must be a JSON object"),
        (json!({"arguments": {}}), "!Blocked: this call names no tool"),
    ] {
        let rig = rig(
            ToolProtocol::Deferred,
            Script::new().turn(|t| t.call("call_tool", args)).turn(|t| t.text("ok")),
        );
        rig.run("go").await.result.unwrap();
        assert!(rig.calls()[1].starts_with(error), "{:?}", rig.calls());
        assert_eq!(rig.recorder.named("tool:begin").len(), 0);
    }
}

#[tokio::test]
async fn a_gate_refuses_the_real_tool() {
    let args = call("fetch_page", json!({"url": "x"}));
    let rig =
        rig(ToolProtocol::Deferred, Script::new().turn(|t| t.call("call_tool", args)).turn(|t| t.text("ok")));
    rig.agent.bus().scope("gate").on_sync(|gate: &ToolGate, _: &Cx| {
        (gate.call.name == "fetch_page").then(|| Ruling::refuse("no pages"))
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.calls()[1], "!Blocked: no pages");
}

#[tokio::test]
async fn arguments_as_text_are_read_and_broken_ones_are_told() {
    let text = json!({"name": "echo", "arguments": "{\"text\": \"hi\"}"});
    let script = Script::new()
        .turn(|t| t.call("call_tool", text))
        .turn(|t| t.raw_call("call_tool", "{\"name\": \"echo\", \"argu"))
        .turn(|t| t.text("ok"));
    let rig = rig(ToolProtocol::Deferred, script);
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.calls()[1], "=echo hi");
    assert!(
        rig.calls()[3].starts_with("!Validation error: the arguments are not valid JSON"),
        "{:?}",
        rig.calls()
    );
}
