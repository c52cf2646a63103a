use serde_json::json;
use zk_protocols::ToolProtocol;
use zk_testkit::Script;

use crate::support::rig;

#[tokio::test]
async fn tools_are_loaded_by_name_and_their_schemas_come_with_the_next_request() {
    let script = Script::new()
        .turn(|t| t.call("load_tools", json!({"names": ["echo", "nothing"]})))
        .turn(|t| t.call("echo", json!({"text": "hi"})))
        .turn(|t| t.text("ok"));
    let rig = rig(ToolProtocol::Lookup, script);
    rig.run("go").await.result.unwrap();
    let asked = rig.provider.asked();
    assert_eq!(asked[0].tools, ["load_tools", "read_file"]);
    assert_eq!(asked[1].tools, ["load_tools", "read_file", "echo"], "behind the others");
    let list = |number: usize| rig.provider.requests()[number].tools[0].description.clone();
    assert!(list(0).ends_with(
        "- echo(text, limit?): Gives the text back\n- fetch_page(url, limit?): Gives the url back"
    ));
    assert_eq!(list(0), list(2), "the list stays the same");
    let calls = rig.calls();
    assert_eq!(calls[1], "=Loaded: echo; there is no tool `nothing`; there are: echo, fetch_page.");
    assert_eq!(calls[3], "=echo hi");
    assert_eq!(rig.recorder.named("tools:changed")[0]["breaks_prefix"], true);
}

#[tokio::test]
async fn a_tool_that_was_not_loaded_is_refused() {
    let script = Script::new()
        .turn(|t| t.call("echo", json!({"text": "hi"})))
        .turn(|t| t.call("load_tools", json!({"names": ["nothing"]})))
        .turn(|t| t.text("ok"));
    let rig = rig(ToolProtocol::Lookup, script);
    rig.run("go").await.result.unwrap();
    let calls = rig.calls();
    assert!(calls[1].starts_with("!Blocked: `echo` is not among the tools of this request"), "{calls:?}");
    assert_eq!(calls[3], "!there is no tool `nothing`; there are: echo, fetch_page");
}

#[tokio::test]
async fn the_tool_that_loads_is_there_for_no_other_protocol() {
    for protocol in [ToolProtocol::Api, ToolProtocol::Deferred, ToolProtocol::Inline] {
        let rig = rig(protocol, Script::new().turn(|t| t.text("ok")));
        rig.run("go").await.result.unwrap();
        let start = &rig.recorder.named("agent:start")[0];
        assert_eq!(start["tools"], json!(["echo", "fetch_page", "read_file"]), "{protocol}");
        assert_eq!(rig.recorder.named("tools:offer").len(), 0, "{protocol}: nobody asks for offers");
    }
}
