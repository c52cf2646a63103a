//! Sub-agents.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_agent::{Behavior, Preset, RunOptions, SpawnOptions, ToolSet};
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{BoxError, Bus, Cx, HookOptions, Plugin, Reach, plugin_fn};
use zk_core::model::{AgentError, ErrorKind, ModelRef, Rates, ThinkingLevel, ThinkingRequest, Usage};
use zk_core::service::PinnedContext;
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};

use crate::support::{Rig, TestTool, assert_sound, rig_on, rig_with, told};

/// Follows the first message: `spawn X` spawns X, `spawn 2: X` twice, `call T` calls the tool T, everything
/// else is answered. Results are repeated as text.
fn obedient(asked: &Asked) -> Turn {
    let usage = Usage { input: 10, output: 1, ..Usage::default() };
    let results: Vec<String> = asked.results().iter().map(|one| one.text.clone()).collect();
    if !results.is_empty() {
        return Turn::new().text(format!("got: {}", results.join(" & "))).usage(usage);
    }
    let task = asked.messages[0].text();
    let turn = Turn::new().usage(usage);
    if let Some(inner) = task.strip_prefix("spawn ") {
        let (many, inner) = inner.split_once(": ").unwrap_or(("1", inner));
        let many: usize = many.parse().unwrap();
        return (0..many).fold(turn, |turn, _| turn.call("spawn", json!({"task": inner})));
    }
    match task.strip_prefix("call ") {
        Some("echo") => turn.call("echo", json!({"text": "hi"})),
        Some(tool) => turn.call(tool, json!({})),
        None if task == "break" => Turn::new().text("I was about to ").error(ErrorKind::Overloaded, "later"),
        None if task == "hang" => Turn::new().text("Wait").hang(),
        None => turn.text(task),
    }
}

fn family(options: SpawnOptions) -> Rig {
    rig_with(Script::answering(obedient), |b| b.system("Base.").spawn(options))
}

async fn say(rig: &Rig, prompt: &str) -> String {
    let outcome = rig.run(prompt).await;
    outcome.result.unwrap();
    outcome.text
}

#[tokio::test]
async fn a_sub_agent_does_its_task_with_an_empty_context_and_gives_its_answer() {
    let rig = family(SpawnOptions::default());
    assert_eq!(say(&rig, "spawn hello").await, "got: hello");
    let child = &rig.provider.asked()[1];
    assert_eq!(child.messages.len(), 1);
    assert_eq!((child.system.as_str(), child.tools.join(" ")), ("Base.", "echo fail spawn".into()));
    assert_eq!(rig.agent.history().len(), 4, "its conversation is its own");
    assert_eq!(rig.names(&["spawn"]), ["spawn:before", "spawn:complete"]);
    let before = &rig.recorder.named("spawn:before")[0];
    assert_eq!(
        (&before["child"], &before["depth"], &before["prompt"]),
        (&json!("main.1"), &json!(1), &json!("hello"))
    );
}

#[tokio::test]
async fn a_call_that_starts_others_is_recorded_like_one_that_changes_something() {
    let rig = family(SpawnOptions::default());
    say(&rig, "spawn hello").await;
    assert_eq!(rig.recorder.named("tool:begin")[0]["read_only"], json!(false));
}

// With who it is and how deep.
#[tokio::test]
async fn events_of_a_grandchild_reach_handlers_for_descendants() {
    let rig = family(SpawnOptions::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    rig.scope("watcher").on_sync_at(Reach::Descendants, move |gate: &ToolGate, cx: &Cx| {
        let origin = cx.origin();
        kept.lock().unwrap().push(format!("{} {} {}", origin.agent, origin.depth, gate.call.name));
    });
    let own = Arc::new(Mutex::new(0));
    let count = own.clone();
    rig.scope("own").on_sync_at(Reach::Own, move |_: &ToolGate, _: &Cx| *count.lock().unwrap() += 1);
    assert_eq!(say(&rig, "spawn spawn call echo").await, "got: got: got: hi");
    assert_eq!(*seen.lock().unwrap(), ["main 0 spawn", "main.1 1 spawn", "main.1.1 2 echo"]);
    assert_eq!(*own.lock().unwrap(), 1, "other handlers see their own agent only");
    let depths: Vec<u32> = rig
        .recorder
        .events()
        .iter()
        .filter(|event| event.name == "stream:end")
        .map(|event| event.depth)
        .collect();
    assert_eq!(depths, [2, 1, 0]);
}

#[tokio::test]
async fn the_event_stream_of_a_run_includes_its_sub_agents() {
    let rig = family(SpawnOptions::default());
    let mut run = rig.agent.run("spawn hello").unwrap();
    let mut events = run.events();
    let mut child = Vec::new();
    while let Some(event) = events.next().await {
        if event.depth == 1 {
            assert_eq!(&*event.agent, "main.1");
            child.push(event.name);
        }
    }
    assert_eq!((child.first(), child.last()), (Some(&"input"), Some(&"session:end")));
    run.wait().await.result.unwrap();
}

#[tokio::test]
async fn a_parents_gate_refuses_a_grandchilds_call() {
    let rig = family(SpawnOptions::default());
    rig.scope("policy").on_sync_at(
        HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() },
        |gate: &ToolGate, cx: &Cx| {
            (gate.call.name == "echo" && cx.origin().depth == 2).then(|| Ruling::refuse("not down there"))
        },
    );
    assert_eq!(say(&rig, "spawn spawn call echo").await, "got: got: got: Blocked: not down there");
}

#[tokio::test]
async fn statistics_roll_up_and_turns_stay_each_agents_own() {
    let model = zk_core::model::Model {
        prices: Some(Rates { input: 1e6, ..Rates::default() }.into()),
        ..zk_core::model::Model::unknown("scripted", "priced")
    };
    let provider = ScriptedProvider::new(Script::answering(obedient)).with_model(model);
    let rig = rig_on(provider, |b| b.spawn(SpawnOptions::default()));
    let outcome = rig.run("spawn 2: call echo").await;
    outcome.result.unwrap();
    let stats = outcome.stats;
    assert_eq!(stats.turns, 2);
    assert_eq!(stats.turn_usage.len(), 2);
    assert_eq!(stats.children.iter().map(|child| child.turns).collect::<Vec<_>>(), [2, 2]);
    assert_eq!((stats.usage.input, stats.usage.output), (60, 6));
    assert!(stats.cost.is_some_and(|cost| (cost - 60.0).abs() < 1e-9), "{:?}", stats.cost);
    assert_eq!(stats.flatten().len(), 6);
    assert_eq!(stats.by_model()[&ModelRef::new("scripted", "priced")].turns, 6);
    assert_eq!(stats.tool_calls["spawn"], 2);
    let totals: Vec<Value> = rig
        .recorder
        .events()
        .into_iter()
        .filter(|event| event.name == "usage" && event.depth == 0)
        .map(|event| event.data["total"]["input"].clone())
        .collect();
    assert_eq!(totals, [50, 60], "the running total includes finished sub-agents");
}

#[tokio::test]
async fn sub_agents_beyond_the_limit_are_refused() {
    let rig = family(SpawnOptions { max_concurrent: 2, ..SpawnOptions::default() });
    let text = say(&rig, "spawn 3: call echo").await;
    let refused = "2 sub-agents are running, the limit; wait for one to finish, or do this task yourself";
    assert_eq!(text, format!("got: got: hi & got: hi & {refused}"));
    // A place is free again afterwards.
    rig.forget();
    assert_eq!(say(&rig, "spawn 2: again").await, "got: again & again");
}

#[tokio::test]
async fn a_blank_task_is_refused() {
    for task in ["", " \n\t"] {
        let rig = family(SpawnOptions::default());
        let text = say(&rig, &format!("spawn {task}")).await;
        assert!(
            text.starts_with("got: `task` is empty; say what the sub-agent is to do"),
            "{task:?}: {text}"
        );
        assert!(rig.provider.last_results()[0].is_error, "{task:?}");
        assert!(rig.names(&["spawn"]).is_empty(), "{task:?}");
    }
}

#[tokio::test]
async fn the_depth_of_the_tree_is_limited() {
    let rig = family(SpawnOptions { max_depth: 1, ..SpawnOptions::default() });
    let text = say(&rig, "spawn spawn hello").await;
    assert_eq!(text, "got: got: sub-agents may be 1 deep at most; do this task yourself");
}

// An error is reported as text, with the partial output.
#[tokio::test]
async fn a_failing_sub_agent_gives_its_error_and_what_it_had_said() {
    let rig = family(SpawnOptions::default());
    let text = say(&rig, "spawn break").await;
    assert!(text.starts_with("got: The sub-agent did not finish: scripted/scripted-1: overloaded"), "{text}");
    assert!(text.ends_with("It had said: I was about to "), "{text}");
    assert_eq!(rig.names(&["spawn"]), ["spawn:before", "spawn:error"]);
    assert!(rig.provider.last_results()[0].is_error);
}

#[tokio::test(start_paused = true)]
async fn stopping_a_parent_stops_its_sub_agents() {
    let rig = family(SpawnOptions::default());
    let mut run = rig.agent.run("spawn spawn hang").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    run.abort();
    let outcome = run.wait().await;
    assert!(matches!(outcome.result, Err(AgentError::Aborted)));
    rig.assert_sound();
    let ends: Vec<u32> = rig
        .recorder
        .events()
        .iter()
        .filter(|event| event.name == "agent:done" && event.data["status"] == "aborted")
        .map(|event| event.depth)
        .collect();
    assert_eq!(ends, [2, 1, 0], "the deepest first, and all of them before the run is over");
    assert_eq!(outcome.stats.children.len(), 1);
    let history = told(&rig.agent.history());
    assert!(history.contains("!The sub-agent did not finish: the run was stopped."), "{history}");
}

// A sub-agent waits shorter for its tools than its parent waits for it.
#[tokio::test(start_paused = true)]
async fn a_stuck_tool_of_a_grandchild_is_given_up_before_its_parents_are() {
    let rig = rig_with(Script::answering(obedient), |b| {
        b.spawn(SpawnOptions::default()).tool(TestTool::stuck("stuck").arc())
    });
    let mut run = rig.agent.run("spawn spawn call stuck").unwrap();
    run.start();
    let begun = async {
        while !rig.recorder.events().iter().any(|event| event.name == "tool:before" && event.depth == 2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), begun).await.unwrap();
    let asked = tokio::time::Instant::now();
    run.abort();
    let outcome = run.wait().await;
    assert!(asked.elapsed() <= Duration::from_millis(100), "{:?}", asked.elapsed());
    assert_eq!(outcome.stats.children.len(), 1);
    let ended: Vec<u32> = rig
        .recorder
        .events()
        .iter()
        .filter(|event| event.name == "session:end")
        .map(|event| event.depth)
        .collect();
    assert_eq!(ended, [2, 1, 0]);
    assert_sound(&rig.agent.history());
}

fn notes_closing(log: &Arc<Mutex<Vec<&'static str>>>) -> Arc<dyn Plugin> {
    let log = log.clone();
    Arc::new(plugin_fn("resource", move |scope| {
        let log = log.clone();
        scope.on_close(async move || log.lock().unwrap().push("closed"));
        Ok::<(), BoxError>(())
    }))
}

// Overrides, and closed however it ends.
#[tokio::test]
async fn a_preset_a_model_and_a_level_change_what_is_inherited() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let preset = Preset {
        system: Some("Child.".into()),
        tools: Some(ToolSet::Only(vec!["echo".into()])),
        aliases: [("echo".to_owned(), "Say".to_owned())].into(),
        behavior: Behavior { max_tokens: Some(77), ..Behavior::default() },
        plugins: vec![notes_closing(&log)],
        ..Preset::default()
    };
    let provider = ScriptedProvider::new(Script::answering(obedient));
    let options = SpawnOptions {
        preset: Some(preset),
        model: Some(zk_core::service::Provider::model(&provider, "small")),
        thinking: Some(ThinkingRequest { level: ThinkingLevel::Low, budget: None }),
        ..SpawnOptions::default()
    };
    let rig = rig_on(provider, |b| b.system("Base.").spawn(options));
    assert_eq!(say(&rig, "spawn hello").await, "got: hello");
    let request = rig.provider.requests()[1].clone();
    assert_eq!((&*request.system, request.model.id.as_str()), ("Child.", "small"));
    assert_eq!((request.max_tokens, request.thinking.level), (77, ThinkingLevel::Low));
    assert_eq!(rig.provider.asked()[1].tools, ["Say"]);
    assert_eq!(*log.lock().unwrap(), ["closed"]);
    rig.forget();
    assert!(say(&rig, "spawn break").await.contains("did not finish"));
    assert_eq!(*log.lock().unwrap(), ["closed", "closed"]);
}

// Also when the parent no longer waits for it.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_that_was_given_up_is_closed_too() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let preset = Preset { plugins: vec![notes_closing(&log)], ..Preset::default() };
    let rig = rig_with(Script::answering(obedient), |b| {
        b.spawn(SpawnOptions { preset: Some(preset), ..SpawnOptions::default() })
    });
    // Closing a run takes longer than anybody waits.
    rig.scope("slow").on_async_at(
        HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() },
        async |_: &zk_core::events::AgentDone, cx: &Cx| {
            if cx.origin().depth == 1 {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        },
    );
    let mut run = rig.agent.run("spawn hang").unwrap();
    run.start();
    rig.recorder.wait_for("stream:text").await;
    run.abort();
    assert!(matches!(run.wait().await.result, Err(AgentError::Aborted)));
    assert!(log.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*log.lock().unwrap(), ["closed"]);
}

/// Pinned text about sub-agents.
async fn pinned(cx: &Cx) -> Option<String> {
    cx.item::<dyn PinnedContext>("sub-agents").unwrap().text(cx).await.unwrap()
}

#[tokio::test]
async fn sub_agents_that_run_are_pinned_with_their_tasks_as_long_as_they_do() {
    let rig = family(SpawnOptions::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let state = (seen.clone(), rig.agent.bus().clone());
    let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    rig.scope("watcher").on_async_with_at(
        everywhere,
        state,
        async |(seen, bus): &(Arc<Mutex<Vec<Option<String>>>>, Bus), _: &ToolGate, cx: &Cx| {
            if cx.origin().depth == 1 {
                let text = pinned(&bus.cx()).await;
                seen.lock().unwrap().push(text);
            }
            Ok::<_, BoxError>(None)
        },
    );
    say(&rig, "spawn call echo").await;
    let seen = seen.lock().unwrap().clone();
    let [Some(text)] = &*seen else { panic!("{seen:?}") };
    let (head, rows) = text.split_once('\n').unwrap();
    assert!(head.contains("at work when earlier messages left") && head.contains("done by now"), "{head}");
    assert_eq!(rows, "- main.1: call echo");
    assert_eq!(pinned(&rig.agent.bus().cx()).await, None, "it is done");
}

#[tokio::test]
async fn the_tools_of_one_run_are_the_tools_of_its_sub_agents() {
    let rig = family(SpawnOptions::default());
    let only = ToolSet::Only(vec!["spawn".into(), "echo".into()]);
    let outcome = rig.agent.run(RunOptions::from("spawn hello").tools(only)).unwrap().wait().await;
    outcome.result.unwrap();
    assert_eq!(rig.provider.asked()[1].tools.join(" "), "echo spawn");
}

#[tokio::test]
async fn a_tool_that_one_run_does_not_allow_is_refused_in_its_sub_agents() {
    let rig = family(SpawnOptions::default());
    let behavior = Behavior { allowed_tools: Some(vec!["spawn".into()]), ..Behavior::default() };
    let outcome = rig.agent.run(RunOptions::from("spawn call echo").behavior(behavior)).unwrap().wait().await;
    outcome.result.unwrap();
    assert!(outcome.text.contains("is not allowed here"), "{}", outcome.text);
}

#[tokio::test]
async fn a_schema_of_the_parent_is_not_asked_of_sub_agents() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let answer = |asked: &Asked| match asked.messages[0].text().as_str() {
        "task" => Turn::new().text("in words"),
        _ if asked.results().is_empty() => Turn::new().call("spawn", json!({"task": "task"})),
        _ => Turn::new().call("__output__", json!({"n": 1})),
    };
    let behavior = Behavior { schema: Some(schema), ..Behavior::default() };
    let rig = rig_with(Script::answering(answer), |b| b.behavior(behavior).spawn(SpawnOptions::default()));
    rig.run("go").await.result.unwrap();
    let child = &rig.provider.asked()[1];
    assert!(!child.tools.contains(&"__output__".to_owned()), "{:?}", child.tools);
    assert_eq!(rig.provider.asked().len(), 3);
}
