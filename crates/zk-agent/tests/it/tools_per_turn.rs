//! The tools of a run: a snapshot for every turn, taken anew when the registered tools changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use zk_agent::{Agent, RunOptions, ToolSet};
use zk_core::events::{ToolBefore, TurnBefore};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Disclosure, ToolOutput, ToolSpec};
use zk_core::service::{RunTools, Tool};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::{Rig, TestTool, rig, rig_with};

fn tool(name: &str) -> Arc<dyn Tool> {
    TestTool::new(name, async |_, _| Ok(ToolOutput::text("ok"))).arc()
}

/// Two turns with a call, and an answer; as often as there are prompts.
fn calling() -> Script {
    Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("echo", json!({"text": "1"})),
        _ => Turn::new().text("done"),
    })
}

fn offered(rig: &Rig) -> Vec<String> {
    rig.provider.asked().iter().map(|asked| asked.tools.join(" ")).collect()
}

fn kinds(changed: &Value) -> Vec<String> {
    let changes = changed["changes"].as_array().unwrap();
    let one = |change: &Value| {
        let text = |key: &str| change[key].as_str().unwrap().to_owned();
        format!("{} {} {}", text("kind"), text("name"), text("source"))
    };
    changes.iter().map(one).collect()
}

#[tokio::test]
async fn a_tool_registered_during_a_turn_is_offered_behind_the_others_from_the_next_turn_on() {
    let rig = rig(calling());
    let source = rig.scope("late");
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| kept.provide::<dyn Tool>("ant", tool("ant")).unwrap());
    rig.run("go").await.result.unwrap();
    assert_eq!(offered(&rig), ["echo fail", "echo fail ant"]);
    let changed = rig.recorder.named("tools:changed");
    assert_eq!(changed.len(), 1);
    assert_eq!(kinds(&changed[0]), ["added ant late"]);
    assert_eq!(changed[0]["turn"], 2);
    assert_eq!(changed[0]["breaks_prefix"], true);
    assert_eq!(changed[0]["tools"], json!(["echo", "fail", "ant"]));
}

#[tokio::test]
async fn a_tool_keeps_its_place_from_run_to_run_and_one_that_leaves_is_named_with_its_owner() {
    let rig = rig(Script::answering(|_| Turn::new().text("ok")));
    rig.run("one").await.result.unwrap();
    let source = rig.scope("guest");
    source.provide::<dyn Tool>("ant", tool("ant")).unwrap();
    rig.run("two").await.result.unwrap();
    rig.run("three").await.result.unwrap();
    source.close().await;
    rig.run("four").await.result.unwrap();
    assert_eq!(offered(&rig), ["echo fail", "echo fail ant", "echo fail ant", "echo fail"]);
    let changed: Vec<_> = rig.recorder.named("tools:changed").iter().flat_map(kinds).collect();
    assert_eq!(changed, ["added ant guest", "removed ant guest"]);
}

#[tokio::test]
async fn a_change_that_leaves_the_request_as_it_was_is_no_break_of_its_prefix() {
    let rig = rig(calling());
    let source = rig.scope("reloading");
    source.provide::<dyn Tool>("ant", tool("ant")).unwrap();
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| {
        kept.provide_replacing::<dyn Tool>("ant", tool("ant"));
    });
    rig.run("go").await.result.unwrap();
    let requests = rig.provider.requests();
    assert!(Arc::ptr_eq(&requests[0].tools, &requests[1].tools), "the same value, so the same bytes");
    assert!(rig.recorder.named("tools:changed").is_empty());
}

#[tokio::test]
async fn a_tool_with_another_schema_is_announced_as_changed_and_keeps_its_place() {
    let rig = rig(calling());
    let source = rig.scope("reloading");
    source.provide::<dyn Tool>("ant", tool("ant")).unwrap();
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| {
        let other = TestTool::new("ant", async |_, _| Ok(ToolOutput::text("ok")));
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        kept.provide_replacing::<dyn Tool>("ant", other.schema(schema).arc());
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(offered(&rig), ["ant echo fail", "ant echo fail"]);
    assert_eq!(kinds(&rig.recorder.named("tools:changed")[0]), ["changed ant reloading"]);
}

#[tokio::test]
async fn the_snapshot_is_taken_anew_only_when_something_registered_changed() {
    struct Counting(Arc<ToolSpec>, Arc<AtomicUsize>);

    #[async_trait::async_trait]
    impl Tool for Counting {
        fn spec(&self) -> &Arc<ToolSpec> {
            self.1.fetch_add(1, Ordering::Relaxed);
            &self.0
        }

        async fn call(
            &self,
            _: &zk_core::model::Approved,
            _: &zk_core::service::ToolCx,
        ) -> Result<ToolOutput, zk_core::model::ToolError> {
            Ok(ToolOutput::text("ok"))
        }
    }

    let asked = Arc::new(AtomicUsize::new(0));
    let spec = ToolSpec::new("counting", "", json!({"type": "object"}));
    let script = Script::answering(|asked| match asked.messages.len() {
        0..=8 => Turn::new().call("echo", json!({"text": asked.messages.len().to_string()})),
        _ => Turn::new().text("done"),
    });
    let rig = rig_with(script, |b| b.tool(Arc::new(Counting(spec, asked.clone()))));
    let (seen, counter) = (Arc::new(AtomicUsize::new(0)), asked.clone());
    let first = seen.clone();
    rig.scope("counter").on_sync(move |turn: &TurnBefore, _: &Cx| {
        if turn.turn == 1 {
            first.store(counter.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(rig.provider.asked().len(), 5);
    assert_eq!(asked.load(Ordering::Relaxed), seen.load(Ordering::Relaxed), "only before the first turn");
}

#[tokio::test]
async fn a_tool_set_that_names_an_unregistered_tool_says_so_at_the_start_and_waits_for_it() {
    let rig = rig(calling());
    let source = rig.scope("late");
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| kept.provide::<dyn Tool>("saw", tool("saw")).unwrap());
    let only = ToolSet::Only(vec!["echo".into(), "saw".into()]);
    rig.run(RunOptions::from("go").tools(only)).await.result.unwrap();
    assert_eq!(rig.recorder.named("agent:start")[0]["missing_tools"], json!(["saw"]));
    assert_eq!(offered(&rig), ["echo", "echo saw"]);
    assert_eq!(kinds(&rig.recorder.named("tools:changed")[0]), ["added saw late"]);
}

// A tool source that fails costs its tool, not the run.
#[tokio::test]
async fn a_tool_that_no_provider_takes_is_left_out_of_a_run_and_named_once() {
    let rig = rig(calling());
    let source = rig.scope("careless");
    let broken = TestTool::new("broken", async |_, _| Ok(ToolOutput::text("ok")));
    let broken = broken.schema(json!({"type": "object", "properties": {"x": {"type": "strng"}}}));
    source.provide::<dyn Tool>("broken", broken.arc()).unwrap();
    source.provide::<dyn Tool>("", tool("")).unwrap();
    rig.run("go").await.result.unwrap();
    assert_eq!(offered(&rig), ["echo fail", "echo fail"]);
    let changed = rig.recorder.named("tools:changed");
    assert_eq!(changed.len(), 1);
    let left_out = changed[0]["left_out"].as_array().unwrap();
    let reason = |index: usize| left_out[index]["reason"].as_str().unwrap();
    assert!(reason(0).contains("no provider takes ``"), "{left_out:?}");
    assert!(reason(1).contains("schema of tool `broken`") && reason(1).contains("strng"), "{left_out:?}");
    assert!(left_out.iter().all(|tool| tool["source"] == "careless"), "{left_out:?}");
}

fn lazy(name: &str) -> Arc<dyn Tool> {
    TestTool::new(name, async |_, _| Ok(ToolOutput::text("found"))).disclosure(Disclosure::Lazy).arc()
}

/// Tool that unlocks the named tool.
fn search() -> Arc<dyn Tool> {
    let search = TestTool::new("search", async |args: Value, cx| {
        let tools = cx.cx.service::<dyn RunTools>().unwrap();
        let name = args["name"].as_str().unwrap_or_default();
        tools.unlock(name).map_err(|error| zk_core::model::ToolError::failed(error.to_string()))?;
        Ok(ToolOutput::text(tools.tools().iter().filter(|tool| tool.unlocked).count().to_string()))
    });
    search.arc()
}

#[tokio::test]
async fn a_lazy_tool_is_refused_until_the_run_asks_for_it_and_offered_from_the_next_turn_on() {
    let script = Script::new()
        .turn(|t| t.call("ant", json!({})))
        .turn(|t| t.call("search", json!({"name": "ant"})).call("ant", json!({})))
        .turn(|t| t.text("done"))
        .turn(|t| t.text("again"));
    let rig = rig_with(script, |b| b.tool(lazy("ant")).tool(search()));
    rig.run("go").await.result.unwrap();
    let first = &rig.results(2)[0];
    assert!(first.starts_with("ant!: Blocked: `ant` is not among the tools of this request"), "{first}");
    assert_eq!(rig.results(3), ["search: 4", "ant: found"]);
    rig.run("more").await.result.unwrap();
    let eager = "echo fail search";
    assert_eq!(offered(&rig), [eager, eager, "echo fail search ant", eager]);
    let changed: Vec<_> = rig.recorder.named("tools:changed").iter().flat_map(kinds).collect();
    assert_eq!(changed, ["unlocked ant agent", "locked ant agent"]);
}

#[tokio::test]
async fn a_lazy_tool_that_comes_is_told_of_and_does_not_break_the_prefix() {
    let rig = rig(calling());
    let source = rig.scope("late");
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| kept.provide::<dyn Tool>("ant", lazy("ant")).unwrap());
    rig.run("go").await.result.unwrap();
    let changed = rig.recorder.named("tools:changed");
    assert_eq!(kinds(&changed[0]), ["added ant late"]);
    assert_eq!(changed[0]["breaks_prefix"], false);
    assert_eq!(offered(&rig), ["echo fail", "echo fail"]);
}

#[tokio::test]
async fn unlocking_a_tool_that_is_not_there_is_an_error_that_names_it() {
    let script = Script::new().turn(|t| t.call("search", json!({"name": "wasp"}))).turn(|t| t.text("ok"));
    let rig = rig_with(script, |b| b.tool(search()));
    rig.run("go").await.result.unwrap();
    assert_eq!(
        rig.results(2),
        ["search!: this run has no tool `wasp`; `RunTools::tools` lists those it has"]
    );
}

#[tokio::test]
async fn a_schema_that_is_no_json_schema_fails_the_build_and_names_the_tool_and_the_place() {
    let cases = [
        (json!("none"), "does not describe an object"),
        (json!({"type": "object", "properties": {"x": {"type": "strng"}}}), "#/properties/x/type"),
        (json!({"type": "object", "properties": []}), "#/properties"),
        (json!({"type": "object", "required": "x"}), "#/required"),
        (json!({"properties": {"x": {"enum": []}}}), "#/properties/x/enum"),
        (json!({"properties": {"x": {"items": 3}}}), "#/properties/x/items"),
        (json!({"properties": {"x": {"anyOf": []}}}), "#/properties/x/anyOf"),
        (json!({"properties": {"x": {"minLength": -1}}}), "#/properties/x/minLength"),
        (json!({"properties": {"x": {"$ref": "#/$defs/gone"}}}), "which is not there"),
    ];
    for (schema, place) in cases {
        let bus = Bus::new();
        let provider = Arc::new(ScriptedProvider::new(Script::new()));
        let tool = TestTool::new("take", async |_, _| Ok(ToolOutput::text(""))).schema(schema.clone()).arc();
        let error = Agent::builder(provider).bus(bus.clone()).tool(tool).build().unwrap_err().to_string();
        assert!(error.contains("`take`") && error.contains(place), "{schema}: {error}");
        assert!(bus.items::<dyn Tool>().is_empty());
    }
}

#[tokio::test]
async fn a_set_of_tools_that_only_read_takes_in_those_that_come_later() {
    let reading = |name: &str| TestTool::new(name, async |_, _| Ok(ToolOutput::text("ok"))).reading().arc();
    let script = Script::answering(|asked| match asked.results().len() {
        0 => Turn::new().call("look", json!({})),
        _ => Turn::new().text("done"),
    });
    let set = ToolSet::Except(Box::new(ToolSet::Reading(Box::new(ToolSet::All))), vec!["hide".into()]);
    let rig = rig_with(script, |builder| builder.tools(set).tool(reading("look")).tool(reading("hide")));
    let source = rig.scope("late");
    let kept = source.clone();
    source.on_sync(move |_: &ToolBefore, _: &Cx| {
        kept.provide::<dyn Tool>("peek", reading("peek")).unwrap();
        kept.provide::<dyn Tool>("poke", tool("poke")).unwrap();
    });
    rig.run("go").await.result.unwrap();
    assert_eq!(offered(&rig), ["look", "look peek"]);
}
