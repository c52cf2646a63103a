//! Tools that may do more than read: taken where somebody decides on their calls, or where nobody has to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use zk_agent::{Agent, AgentBuilder, Preset, RunOptions, SpawnOptions, ToolSet};
use zk_core::events::{Ruling, ToolBefore, ToolGate};
use zk_core::kernel::{Bus, Cx, Plugin, plugin_fn};
use zk_core::model::{AgentError, Effects, ToolOutput};
use zk_core::service::{CallGuard, FnTool, Tool};
use zk_testkit::{Script, ScriptedProvider, Turn};

use crate::support::TestTool;

fn unknown(name: &str) -> Arc<dyn Tool> {
    TestTool::new(name, async |_, _| Ok(ToolOutput::text("done"))).arc()
}

fn reading(name: &str) -> Arc<dyn Tool> {
    TestTool::new(name, async |_, _| Ok(ToolOutput::text("read"))).reading().arc()
}

/// Tool with the effects of `effects`, and a counter of its executed calls.
fn telling(
    name: &str,
    effects: impl Fn(&Value) -> Effects + Send + Sync + 'static,
) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let tool = FnTool::new(name, "A tool.", move |_: Value, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok("done") }
    });
    (Arc::new(tool.effects(move |args, _| effects(args))), ran)
}

/// A plugin of a stranger that decides on calls: it lets all run.
fn guard() -> impl Plugin {
    plugin_fn("guard", |scope| {
        scope.provide_service(Arc::new(CallGuard));
        Ok(())
    })
}

/// Script that calls the tool once and repeats its result as text.
fn calling(name: &'static str) -> ScriptedProvider {
    ScriptedProvider::new(Script::answering(move |asked| match asked.results().last() {
        None => Turn::new().call(name, json!({})),
        Some(result) => Turn::new().text(result.text.clone()),
    }))
}

fn builder() -> AgentBuilder {
    Agent::builder(Arc::new(calling("rm")))
}

fn refused(built: Result<Agent, AgentError>) -> (String, String) {
    let error = built.unwrap_err();
    let said = error.to_string();
    let AgentError::Unguarded { tool } = error else { panic!("{said}") };
    (tool, said)
}

#[test]
fn a_tool_of_unknown_effect_without_a_gate_is_refused_with_the_two_ways_on() {
    let (tool, said) = refused(builder().tool(reading("look")).tool(unknown("rm")).build());
    assert_eq!(tool, "rm");
    assert!(said.contains("`rm`"), "{said}");
    assert!(said.contains("`PermissionGate`") && said.contains("`.unguarded()`"), "{said}");
}

#[test]
fn tools_with_effects_are_refused_like_tools_without_a_declaration() {
    let told = [Effects::writes(["notes"]), Effects::executes("ls"), Effects::Unknown];
    for effects in told {
        let (tool, _) = telling("act", move |_| effects.clone());
        assert_eq!(refused(builder().tool(tool).build()).0, "act");
    }
    let (tool, _) = telling("odd", |args| panic!("{args} cannot be judged"));
    assert_eq!(refused(builder().tool(tool).build()).0, "odd");
}

#[test]
fn tools_that_only_read_need_no_gate() {
    let (told, _) = telling("think", |_| Effects::none());
    builder().tool(reading("look")).tool(told).spawn(SpawnOptions::default()).build().unwrap();
    let left_out = ToolSet::Except(Box::new(ToolSet::All), vec!["rm".to_owned()]);
    builder().tool(unknown("rm")).tools(left_out).build().unwrap();
    builder().tool(unknown("rm")).tools(ToolSet::Reading(Box::new(ToolSet::All))).build().unwrap();
}

#[tokio::test]
async fn with_a_gate_or_unguarded_a_tool_of_unknown_effect_runs() {
    type Change = fn(AgentBuilder) -> AgentBuilder;
    for change in [(|builder| builder.plugin(guard())) as Change, AgentBuilder::unguarded] {
        let agent = Agent::builder(Arc::new(calling("rm"))).tool(unknown("rm"));
        let agent = change(agent).build().unwrap();
        assert_eq!(agent.run("go").unwrap().wait().await.text, "done");
    }
}

#[test]
fn a_gate_of_a_bus_guards_the_agents_of_its_children() {
    let bus = Bus::new();
    bus.install(&guard()).unwrap();
    builder().bus(bus.child("below")).tool(unknown("rm")).build().unwrap();
}

#[tokio::test]
async fn a_gate_that_is_installed_decides_for_an_unguarded_agent_too() {
    let refuse = plugin_fn("refuse", |scope| {
        scope.on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::refuse("not now")));
        Ok(())
    });
    let agent = Agent::builder(Arc::new(calling("rm"))).tool(unknown("rm")).plugin(refuse).unguarded();
    let outcome = agent.build().unwrap().run("go").unwrap().wait().await;
    assert_eq!(outcome.text, "Blocked: not now");
}

#[tokio::test]
async fn a_tool_that_comes_later_ends_a_run_before_anything_is_sent() {
    let provider = calling("rm");
    let agent = Agent::builder(Arc::new(provider.clone())).build().unwrap();
    agent.bus().scope("late").provide::<dyn Tool>("rm", unknown("rm")).unwrap();
    let error = agent.run("go").unwrap().wait().await.result.unwrap_err();
    assert!(matches!(&error, AgentError::Unguarded { tool } if tool == "rm"), "{error}");
    assert_eq!(provider.asked().len(), 0);
    agent.bus().install(&guard()).unwrap();
    assert_eq!(agent.run("go").unwrap().wait().await.text, "done");
}

#[tokio::test]
async fn tools_of_a_runs_plugin_and_those_added_during_a_run_are_checked_too() {
    let provider = calling("look");
    let agent = Agent::builder(Arc::new(provider.clone())).tool(reading("look")).build().unwrap();
    let tool = plugin_fn("tool", |scope| Ok(scope.provide::<dyn Tool>("rm", unknown("rm"))?));
    let options = RunOptions::from("go").plugin(Arc::new(tool));
    let error = agent.run(options).unwrap().wait().await.result.unwrap_err();
    assert!(matches!(error, AgentError::Unguarded { .. }), "{error}");
    assert_eq!(provider.asked().len(), 0);
    let scope = agent.bus().scope("late");
    let late = scope.clone();
    scope.on_sync(move |_: &ToolBefore, _: &Cx| late.provide::<dyn Tool>("rm", unknown("rm")).unwrap());
    let error = agent.run("go").unwrap().wait().await.result.unwrap_err();
    assert!(matches!(error, AgentError::Unguarded { .. }), "{error}");
    assert_eq!(provider.asked().len(), 1);
}

#[tokio::test]
async fn a_call_with_more_effects_than_for_empty_arguments_is_refused() {
    let effects = |args: &Value| match args.get("path") {
        Some(_) => Effects::writes(["notes"]),
        None => Effects::none(),
    };
    for (is_unguarded, runs) in [(false, 1), (true, 2)] {
        let (tool, ran) = telling("note", effects);
        let script = Script::new()
            .turn(|t| t.call("note", json!({})).call("note", json!({"path": "notes"})))
            .turn(|t| t.text("ok"));
        let provider = ScriptedProvider::new(script);
        let builder = Agent::builder(Arc::new(provider.clone())).tool(tool);
        let builder = if is_unguarded { builder.unguarded() } else { builder };
        builder.build().unwrap().run("go").unwrap().wait().await.result.unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), runs);
        let second = provider.last_results()[1].text.clone();
        assert_eq!(second.contains("nobody is here to decide on it"), !is_unguarded, "{second}");
    }
}

#[tokio::test]
async fn sub_agents_are_guarded_and_unguarded_as_their_parent_is() {
    /// Script that delegates once; the sub-agent calls the tool of its preset.
    fn delegating() -> Script {
        Script::answering(|asked| match (&*asked.last_user_text(), asked.results().last()) {
            ("go", None) => Turn::new().call("spawn", json!({"task": "act"})),
            ("act", None) => Turn::new().call("rm", json!({})),
            (_, Some(result)) => Turn::new().text(result.text.clone()),
            (_, None) => Turn::new().text("nothing to do"),
        })
    }
    type Change = fn(AgentBuilder) -> AgentBuilder;
    let ways = [
        ((|builder| builder) as Change, false),
        (|builder| builder.plugin(guard()), true),
        (AgentBuilder::unguarded, true),
    ];
    for (change, runs) in ways {
        let tool = plugin_fn("tool", |scope| Ok(scope.provide::<dyn Tool>("rm", unknown("rm"))?));
        let preset = Preset { plugins: vec![Arc::new(tool)], ..Preset::default() };
        let options = SpawnOptions { preset: Some(preset), ..SpawnOptions::default() };
        let builder = Agent::builder(Arc::new(ScriptedProvider::new(delegating()))).spawn(options);
        let text = change(builder).build().unwrap().run("go").unwrap().wait().await.text;
        assert_eq!(text == "done", runs, "{text}");
        assert_eq!(text.contains("tool `rm` may do more than read"), !runs, "{text}");
    }
}
