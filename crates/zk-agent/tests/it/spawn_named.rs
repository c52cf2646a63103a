//! Sub-agents with a name, and the limits of a tree of agents.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{AgentDefinition, Behavior, Preset, SpawnOptions, ToolSet};
use zk_core::events::TurnAfter;
use zk_core::kernel::{Cx, plugin_fn};
use zk_core::model::{ThinkingLevel, ThinkingRequest, Usage};
use zk_testkit::{Asked, Script, Turn};

use crate::support::{Rig, rig_with};

/// Script that delegates `NAME: TASK` of the first message to a named agent and repeats the result.
fn delegates(asked: &Asked) -> Turn {
    let results: Vec<String> = asked.results().iter().map(|one| one.text.clone()).collect();
    if !results.is_empty() {
        return Turn::new().text(format!("got: {}", results.join(" & ")));
    }
    let task = asked.messages[0].text();
    match task.split_once(": ") {
        Some(("", inner)) => Turn::new().call("spawn", json!({"task": inner})),
        Some((name, inner)) => Turn::new().call("spawn", json!({"agent": name, "task": inner})),
        None => Turn::new().text(task),
    }
}

fn named(name: &str, tools: &[&str]) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        description: format!("The {name}."),
        prompt: format!("You are the {name}."),
        tools: Some(tools.iter().map(ToString::to_string).collect()),
        ..AgentDefinition::default()
    }
}

fn family(options: SpawnOptions) -> Rig {
    rig_with(Script::answering(delegates), |b| b.system("Base.").spawn(options))
}

async fn say(rig: &Rig, prompt: &str) -> String {
    let outcome = rig.run(prompt).await;
    outcome.result.unwrap();
    outcome.text
}

#[tokio::test]
async fn a_named_agent_has_its_own_prompt_model_and_level() {
    let critic = AgentDefinition {
        model: Some("small".to_owned()),
        thinking: Some(ThinkingRequest { level: ThinkingLevel::Low, budget: None }),
        ..named("critic", &["echo"])
    };
    let rig = family(SpawnOptions { agents: vec![critic], ..SpawnOptions::default() });
    assert_eq!(say(&rig, "critic: look").await, "got: look");
    let [parent, child] =
        rig.provider.requests()[..2].to_vec().try_into().unwrap_or_else(|_| panic!("two requests"));
    let spawn = parent.tools.iter().find(|tool| tool.name == "spawn").unwrap();
    assert!(spawn.description.contains("- critic: The critic."), "{}", spawn.description);
    assert_eq!(spawn.schema["properties"]["agent"]["enum"], json!(["critic"]));
    assert_eq!((&*child.system, child.model.id.as_str()), ("You are the critic.", "small"));
    assert_eq!(child.thinking.level, ThinkingLevel::Low);
    assert_eq!(rig.provider.asked()[1].tools, ["echo"]);
    let after = rig.recorder.named("tool:after");
    assert_eq!(after[0]["details"], json!({"child": "main.1", "agent": "critic", "turns": 1}));
}

#[tokio::test]
async fn each_named_agent_has_a_preset_of_its_own() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noting = |note: &'static str| {
        let notes = notes.clone();
        plugin_fn(note, move |scope| {
            let notes = notes.clone();
            scope.on_sync(move |_: &TurnAfter, _: &Cx| notes.lock().unwrap().push(note));
            Ok(())
        })
    };
    let preset = |note, max_turns| Preset {
        system: Some("Of those without a name.".into()),
        tools: Some(ToolSet::All),
        behavior: Behavior { max_turns: Some(max_turns), ..Behavior::default() },
        plugins: vec![Arc::new(noting(note))],
        ..Preset::default()
    };
    let a = AgentDefinition { preset: Some(preset("a", 9)), max_turns: Some(1), ..named("a", &["echo"]) };
    let b = AgentDefinition { preset: Some(preset("b", 2)), ..named("b", &["echo", "spawn"]) };
    let options = SpawnOptions {
        agents: vec![a, b, named("c", &["echo"])],
        preset: Some(preset("all", 7)),
        ..SpawnOptions::default()
    };
    for (prompt, noted, system) in [
        ("a: look", "a", "You are the a."),
        ("b: look", "b", "You are the b."),
        ("c: look", "all", "You are the c."),
        (": look", "all", "Of those without a name."),
    ] {
        let rig = family(options.clone());
        say(&rig, prompt).await;
        assert_eq!(std::mem::take(&mut *notes.lock().unwrap()), [noted], "{prompt}");
        assert_eq!(&*rig.provider.requests()[1].system, system);
        assert!(noted != "a" || rig.provider.asked()[1].tools == ["echo"]);
    }
    assert_eq!(say(&family(options), "b: b: look").await, "got: got: look");
    assert_eq!(*notes.lock().unwrap(), ["b", "b", "b"], "the outer one twice");
}

#[tokio::test]
async fn no_preset_gives_a_named_agent_more_turns_than_its_parent_has() {
    let goes_on = |asked: &Asked| match asked.messages[0].text().as_str() {
        "look" => Turn::new().call("echo", json!({"text": "more"})),
        _ => delegates(asked),
    };
    let behavior = |max_turns| Behavior { max_turns: Some(max_turns), ..Behavior::default() };
    for (of_preset, own, taken) in [(9, None, 3), (2, None, 2), (2, Some(3), 3), (1, Some(9), 3)] {
        let preset = Preset { behavior: behavior(of_preset), ..Preset::default() };
        let looker = AgentDefinition { preset: Some(preset), max_turns: own, ..named("looker", &["echo"]) };
        let options = SpawnOptions { agents: vec![looker], ..SpawnOptions::default() };
        let rig = rig_with(Script::answering(goes_on), |b| b.behavior(behavior(3)).spawn(options));
        rig.run("looker: look").await.result.unwrap();
        let asked = rig.provider.requests();
        let turns = asked.iter().filter(|request| &*request.system == "You are the looker.").count();
        assert_eq!(turns, taken, "{of_preset} {own:?}");
    }
}

#[tokio::test]
async fn no_descendant_has_a_tool_that_its_ancestors_have_not() {
    let agents = vec![named("outer", &["echo", "spawn"]), named("inner", &["echo", "fail", "spawn"])];
    let rig = family(SpawnOptions { agents, ..SpawnOptions::default() });
    assert_eq!(say(&rig, "outer: inner: look").await, "got: got: look");
    assert_eq!(rig.provider.asked()[1].tools, ["echo", "spawn"]);
    assert_eq!(rig.provider.asked()[2].tools, ["echo", "spawn"], "`fail` is not its parent's to give");

    let agents = vec![named("inner", &["echo", "fail"])];
    let options = SpawnOptions { agents, ..SpawnOptions::default() };
    let rig = rig_with(Script::answering(delegates), |b| {
        b.tools(ToolSet::Only(vec!["fail".into(), "spawn".into()])).spawn(options)
    });
    assert_eq!(say(&rig, "inner: look").await, "got: look");
    assert_eq!(rig.provider.asked()[1].tools, ["fail"]);
}

#[tokio::test]
async fn a_name_that_no_agent_has_is_refused() {
    let rig = family(SpawnOptions::default());
    let text = say(&rig, "nobody: look").await;
    assert!(text.contains("there is no agent `nobody`") || text.contains("agent"), "{text}");
    assert!(rig.provider.last_results()[0].is_error);
}

#[tokio::test]
async fn a_session_has_only_so_many_sub_agents_at_all_depths() {
    let rig = family(SpawnOptions { max_total: 2, ..SpawnOptions::default() });
    let text = say(&rig, ": : : look").await;
    assert_eq!(text, "got: got: got: this session has had 2 sub-agents, the limit; do this task yourself");
}

#[tokio::test]
async fn a_sub_agent_over_its_output_limit_is_stopped_with_its_text() {
    let endless = |asked: &Asked| {
        let task = asked.messages[0].text();
        if let Some(inner) = task.strip_prefix(": ") {
            let results = asked.results();
            return match results.first() {
                Some(result) => Turn::new().text(format!("got: {}", result.text)),
                None => Turn::new().call("spawn", json!({"task": inner})),
            };
        }
        let usage = Usage { output: 40, ..Usage::default() };
        Turn::new().text("still at it ").call("echo", json!({"text": asked.number})).usage(usage)
    };
    let options = SpawnOptions { max_turns: Some(3), ..SpawnOptions::default() };
    let rig = rig_with(Script::answering(endless), |b| b.spawn(options));
    let text = say(&rig, ": work").await;
    assert!(text.contains("did not finish") && text.contains("3") && text.contains("still at it"), "{text}");

    let options = SpawnOptions { max_output_tokens: Some(100), ..SpawnOptions::default() };
    let rig = rig_with(Script::answering(endless), |b| b.spawn(options));
    let text = say(&rig, ": work").await;
    assert!(text.contains("stopped after 100 tokens of output") && text.contains("still at it"), "{text}");
    assert_eq!(rig.provider.asked().len(), 5, "one of the parent, three of the child, one of the parent");
}
