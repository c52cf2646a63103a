//! Reusable slices of agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_agent::{Behavior, OnExceed, Preset, RunOptions, ToolBudget, ToolSet};
use zk_core::events::TurnBefore;
use zk_core::kernel::{BoxError, Cx, Plugin, plugin_fn};
use zk_core::model::{ThinkingLevel, ThinkingRequest};
use zk_core::service::{PresetParts, PresetServer, PresetSkill};
use zk_testkit::{Script, Turn};

use crate::support::rig_with;

type Log = Arc<Mutex<Vec<String>>>;

fn watcher(name: &str, says: &str, log: &Log) -> Arc<dyn Plugin> {
    let (log, says) = (log.clone(), says.to_owned());
    Arc::new(plugin_fn(name.to_owned(), move |scope| {
        let (log, says) = (log.clone(), says.clone());
        scope.on_sync(move |_: &TurnBefore, _: &Cx| log.lock().unwrap().push(says.clone()));
        Ok::<(), BoxError>(())
    }))
}

fn server(name: &str, command: &str) -> PresetServer {
    PresetServer::new(name, json!({ "command": command }))
}

fn budgets(pairs: &[(&str, u32)]) -> BTreeMap<String, ToolBudget> {
    pairs
        .iter()
        .map(|(tool, max)| ((*tool).to_owned(), ToolBudget { max: *max, on_exceed: OnExceed::Block }))
        .collect()
}

#[test]
fn later_presets_win_field_by_field_and_lists_add_up() {
    let first = Preset {
        name: Some("first".into()),
        system: Some("Be brief.".into()),
        tools: Some(ToolSet::Only(vec!["echo".into()])),
        aliases: BTreeMap::from([("echo".into(), "Say".into()), ("fail".into(), "Break".into())]),
        behavior: Behavior {
            max_turns: Some(1),
            max_tokens: Some(100),
            tool_budgets: budgets(&[("a", 1), ("b", 1)]),
            ..Behavior::default()
        },
        thinking: Some(ThinkingRequest { level: ThinkingLevel::Low, budget: None }),
        eager: Some(true),
        servers: vec![server("docs", "a"), server("issues", "a")],
        skills: Some(vec![PresetSkill::new("notes", "Writes notes", "List changes.")]),
        plugins: Vec::new(),
    };
    let second = Preset {
        name: Some("second".into()),
        thinking: Some(ThinkingRequest { level: ThinkingLevel::High, budget: None }),
        tools: Some(ToolSet::Only(vec!["echo".into(), "fail".into()])),
        aliases: BTreeMap::from([("echo".into(), "Tell".into())]),
        behavior: Behavior { max_turns: Some(2), tool_budgets: budgets(&[("b", 2)]), ..Behavior::default() },
        servers: vec![server("docs", "b"), server("wiki", "b")],
        ..Preset::default()
    };
    let all = Preset::compose([first, second, Preset::default()]);
    assert_eq!(all.name.as_deref(), Some("second"));
    assert_eq!(all.system.as_deref(), Some("Be brief."));
    assert_eq!((all.thinking.unwrap().level, all.eager), (ThinkingLevel::High, Some(true)));
    assert_eq!(all.tools, Some(ToolSet::Only(vec!["echo".into(), "fail".into()])));
    assert_eq!(all.aliases["echo"], "Tell");
    assert_eq!(all.aliases["fail"], "Break");
    assert_eq!((all.behavior.max_turns, all.behavior.max_tokens), (Some(2), Some(100)));
    let limits: Vec<(&str, u32)> =
        all.behavior.tool_budgets.iter().map(|(tool, budget)| (tool.as_str(), budget.max)).collect();
    assert_eq!(limits, [("a", 1), ("b", 2)]);
    assert_eq!(all.servers, [server("docs", "b"), server("issues", "a"), server("wiki", "b")]);
    assert_eq!(all.skills.as_ref().unwrap()[0].name, "notes");
    let none = Preset { skills: Some(Vec::new()), ..Preset::default() };
    assert_eq!(Preset::compose([all, none]).skills, Some(Vec::new()));
}

/// Plugin that takes the servers and the skills of presets, and keeps their names.
fn taker(name: &str, log: &Log) -> Arc<dyn Plugin> {
    let log = log.clone();
    Arc::new(plugin_fn(name.to_owned(), move |scope| {
        if let Some(parts) = scope.bus().unwrap().service::<PresetParts>() {
            let mut log = log.lock().unwrap();
            log.extend(parts.take_servers().into_iter().map(|server| server.name));
            log.extend(parts.take_skills().into_iter().map(|skill| skill.name));
        }
        Ok::<(), BoxError>(())
    }))
}

#[tokio::test]
async fn a_plugin_of_the_agent_takes_servers_and_skills_of_its_presets() {
    let log = Log::default();
    let preset = |skill: &str| Preset {
        servers: vec![server(&format!("server-of-{skill}"), "a")],
        skills: Some(vec![PresetSkill::new(skill, "x", "x")]),
        ..Preset::default()
    };
    let plugins = Preset { plugins: vec![taker("takes", &log)], ..Preset::default() };
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| {
        b.preset(preset("one")).preset(preset("two")).preset(plugins)
    });
    assert_eq!(*log.lock().unwrap(), ["server-of-one", "server-of-two", "two"]);
    assert!(rig.agent.bus().service::<PresetParts>().is_none(), "they are only there for the build");
}

#[tokio::test]
async fn servers_and_skills_that_no_plugin_takes_fail_the_build() {
    let skills = Some(vec![PresetSkill::new("notes", "x", "x")]);
    for (preset, told) in [
        (Preset { servers: vec![server("docs", "a")], ..Preset::default() }, "has the server `docs`"),
        (Preset { skills, ..Preset::default() }, "has the skill `notes`"),
    ] {
        let bus = zk_core::kernel::Bus::new();
        let provider = Arc::new(zk_testkit::ScriptedProvider::new(Script::new()));
        let built = zk_agent::Agent::builder(provider).bus(bus.clone()).preset(preset).build();
        let error = built.map(drop).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("add one that"), "{error}");
        assert!(bus.service::<PresetParts>().is_none());
    }
}

#[tokio::test]
async fn the_hooks_of_all_presets_fire_in_their_order_and_a_later_twin_replaces() {
    let log = Log::default();
    let preset = |plugins| Preset { plugins, ..Preset::default() };
    let all = Preset::compose([
        preset(vec![watcher("a", "a1", &log), watcher("b", "b", &log)]),
        preset(vec![watcher("c", "c", &log), watcher("a", "a2", &log)]),
    ]);
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| b.preset(all));
    rig.run("go").await.result.unwrap();
    assert_eq!(*log.lock().unwrap(), ["a2", "b", "c"]);
}

#[test]
fn a_set_of_tools_takes_beginnings_of_names_and_leaves_some_out() {
    let only = |names: &[&str]| ToolSet::Only(names.iter().map(|name| (*name).to_owned()).collect());
    let github = only(&["mcp__github__*", "read_file"]);
    let except = ToolSet::Except(Box::new(github.clone()), vec!["mcp__github__delete*".into()]);
    let not_shell = ToolSet::Except(Box::new(ToolSet::All), vec!["shell".into()]);
    for (name, of_github, of_except, of_not_shell) in [
        ("mcp__github__list", true, true, true),
        ("mcp__github__delete_repo", true, false, true),
        ("read_file", true, true, true),
        ("read_file_", false, false, true),
        ("shell", false, false, false),
    ] {
        assert_eq!(
            (github.has(name), except.has(name), not_shell.has(name)),
            (of_github, of_except, of_not_shell),
            "{name}"
        );
    }
}

// Run, then agent, then the defaults, field by field.
#[tokio::test]
async fn unset_options_of_a_run_fall_back_to_the_agent_and_the_defaults() {
    let agents = Behavior { max_tokens: Some(1000), cache: Some(false), ..Behavior::default() };
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| {
        let thinking = Some(ThinkingRequest { level: ThinkingLevel::High, budget: None });
        b.preset(Preset { behavior: agents, system: Some("Agent.".into()), thinking, ..Preset::default() })
    });
    rig.run("one").await.result.unwrap();
    let runs = Behavior { max_tokens: Some(50), ..Behavior::default() };
    rig.run(RunOptions::from("two").behavior(runs).system("Run.").tools(ToolSet::None)).await.result.unwrap();
    rig.run("three").await.result.unwrap();
    let asked: Vec<(u32, bool, String, usize)> = rig
        .provider
        .requests()
        .iter()
        .map(|one| (one.max_tokens, one.cache, one.system.to_string(), one.tools.len()))
        .collect();
    assert_eq!(
        asked,
        [(1000, false, "Agent.".into(), 2), (50, false, "Run.".into(), 0), (1000, false, "Agent.".into(), 2)]
    );
    assert!(rig.provider.requests().iter().all(|one| one.thinking.level == ThinkingLevel::High));
    let plain = rig_with(Script::new().turn(|t| t.text("ok")), |b| b);
    plain.run("go").await.result.unwrap();
    let request = &plain.provider.requests()[0];
    assert_eq!((request.max_tokens, request.cache), (16_384, true));
}

// The plugins of a run leave with it, and see its end.
#[tokio::test]
async fn the_plugins_of_a_run_are_gone_after_it() {
    let rig = rig_with(Script::answering(|_| Turn::new().text("ok")), |b| b);
    let log = Log::default();
    let kept = log.clone();
    let plugin = Arc::new(plugin_fn("once", move |scope| {
        let (turns, ends, closed) = (kept.clone(), kept.clone(), kept.clone());
        scope.on_sync(move |_: &TurnBefore, _: &Cx| turns.lock().unwrap().push("turn".into()));
        scope.on_sync(move |_: &zk_core::events::SessionEnd, _: &Cx| ends.lock().unwrap().push("end".into()));
        scope.on_close(async move || closed.lock().unwrap().push("closed".into()));
        Ok::<(), BoxError>(())
    }));
    rig.run(RunOptions::from("go").plugin(plugin.clone())).await.result.unwrap();
    rig.run("again").await.result.unwrap();
    assert_eq!(*log.lock().unwrap(), ["turn", "end", "closed"]);
    rig.run(RunOptions::from("and again").plugin(plugin)).await.result.unwrap();
    assert_eq!(log.lock().unwrap().len(), 6);
}
