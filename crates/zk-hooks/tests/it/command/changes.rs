//! Hooks of refused and failed calls, changed directories and changed files, as real processes.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::Cx;
use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Conversation, Files, Tool, ToolCx};
use zk_exec::WorkspaceFiles;
use zk_hooks::{CommandHooks, HookSet};
use zk_testkit::{Script, ScriptedProvider};

use super::{Scene, hook, printing};

/// A command that keeps its input in the file `name`.
fn keeping(name: &str) -> String {
    format!("cat >> {name}")
}

#[tokio::test]
async fn a_refused_call_is_told_wherever_it_was_refused() {
    // Hooks that refuse, a handler that refuses, and the reason that is told.
    type Case = (Value, fn(&zk_core::kernel::Bus), &'static str);
    let by_hook = json!({
        "PreToolUse": [{"command": "echo not today >&2; exit 2"}],
        "PermissionDenied": [{"matcher": "Bash", "command": keeping("denied")}],
    });
    let by_gate = json!({"PermissionDenied": [{"matcher": "shell|edit", "command": keeping("denied")}]});
    let cases: [Case; 2] = [
        (by_hook, |_| (), "not today"),
        (
            by_gate,
            |bus| {
                bus.scope("guard").on_sync(|_: &ToolGate, _: &Cx| Some(Ruling::refuse("never here")));
            },
            "never here",
        ),
    ];
    for (hooks, behind, reason) in cases {
        let mut scene = Scene::new();
        scene.behind = behind;
        let is_claude_name = hooks["PermissionDenied"][0]["matcher"] == "Bash";
        let (seen, scene) = scene.run(hooks).await;
        assert_eq!((seen.ran.len(), seen.refused.len()), (0, 1), "{seen:?}");
        let inputs = scene.inputs("denied");
        let [input] = &inputs[..] else { panic!("{inputs:?}") };
        assert_eq!(input["hook_event_name"], "PermissionDenied");
        assert_eq!(input["tool_name"], if is_claude_name { "Bash" } else { "shell" });
        assert_eq!(input["tool_input"], json!({"command": "ls"}));
        assert!(input["reason"].as_str().unwrap().contains(reason), "{input}");
    }
}

/// A tool that fails.
struct Failing(Arc<ToolSpec>);

#[async_trait]
impl Tool for Failing {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed("the disk is full"))
    }
}

/// The result of a failed call with these hooks, and the directory that they ran in.
async fn failed_call(hooks: &Value) -> (String, Scene) {
    let scene = Scene::new();
    let set = HookSet::read(hooks, scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    let script =
        Script::new().turn(|turn| turn.call("broken", json!({"a": 1}))).turn(|turn| turn.text("Done."));
    let provider = ScriptedProvider::new(script);
    let spec = ToolSpec::new("broken", "Fails.", json!({"type": "object"}));
    let agent = Agent::builder(Arc::new(provider.clone()))
        .bus(scene.bus.clone())
        .tool(Arc::new(Failing(spec)))
        .build()
        .unwrap();
    agent.run("Do it.").unwrap().wait().await.result.unwrap();
    (provider.last_results().first().unwrap().text.clone(), scene)
}

#[tokio::test]
async fn a_failed_call_is_told_to_its_own_hooks_which_may_add_words_and_replace_nothing() {
    let answer =
        json!({"hookSpecificOutput": {"additionalContext": "df says 100 %", "updatedToolOutput": "fine"}});
    let hooks = json!({
        "PostToolUse": [{"command": keeping("post")}],
        "PostToolUseFailure": [{"command": keeping("failed")}, {"command": printing(&answer)}],
    });
    let (result, scene) = failed_call(&hooks).await;
    assert!(result.contains("the disk is full") && result.contains("A hook says: df says 100 %"), "{result}");
    assert!(!result.contains("fine"), "{result}");
    assert!(scene.inputs("post").is_empty(), "that one is about calls that succeed");
    let [input] = &scene.inputs("failed")[..] else { panic!("{:?}", scene.inputs("failed")) };
    assert_eq!((&input["tool_name"], &input["is_interrupt"]), (&json!("broken"), &json!(false)));
    assert!(input["error"].as_str().unwrap().contains("the disk is full"), "{input}");
    assert!(input["duration_ms"].is_u64() && input.get("tool_response").is_none(), "{input}");
}

#[tokio::test]
async fn each_hook_sees_the_result_as_the_one_before_left_it_and_the_last_words_count() {
    let replacing = |name: &str, text: &str| {
        let answer = json!({"hookSpecificOutput": {"updatedToolOutput": text}});
        json!({"command": format!("cat >> {name}; cat <<'END'\n{answer}\nEND")})
    };
    let hooks = json!({"PostToolUse": [
        replacing("one", "first"), replacing("two", "second"), replacing("three", ""), {"command": keeping("four")}
    ]});
    let (seen, scene) = Scene::new().run(hooks).await;
    assert_eq!(seen.results, ["second"]);
    let saw = |name: &str| scene.inputs(name)[0]["tool_response"]["content"].clone();
    assert_eq!(
        [saw("one"), saw("two"), saw("three"), saw("four")],
        ["done so", "first", "second", "second"].map(|text| json!(text))
    );
}

/// Waits for a condition.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "{what} did not happen");
}

#[tokio::test]
async fn a_changed_directory_is_told_with_the_one_before_and_once() {
    let scene = Scene::new();
    let set = HookSet::read(&hook("CwdChanged", &keeping("moved")), scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(Script::new())))
        .bus(scene.bus.clone())
        .cwd(scene.path().to_path_buf())
        .build()
        .unwrap();
    let conversation = AgentConversation::new(agent);
    let below = scene.path().join("below");
    std::fs::create_dir(&below).unwrap();
    conversation.set_cwd(scene.path().to_path_buf());
    conversation.set_cwd(below.clone());
    // The hook runs in the directory that was entered.
    until("the hook has run", || {
        std::fs::read_to_string(below.join("moved")).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    let text = std::fs::read_to_string(below.join("moved")).unwrap();
    let inputs: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [input] = &inputs[..] else { panic!("{inputs:?}") };
    assert_eq!((&input["old_cwd"], &input["new_cwd"]), (&json!(scene.path()), &json!(below)));
    conversation.close().await;
}

#[tokio::test]
async fn files_that_match_are_told_once_they_are_quiet_and_others_are_not() {
    let scene = Scene::new();
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("kept").display().to_string();
    let root = scene.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("src/.git")).unwrap();
    let files = WorkspaceFiles::new([root.clone()]).unwrap();
    scene.bus.scope("files").provide_service::<dyn Files>(Arc::new(files));
    let hooks = json!({"FileChanged": [{"matcher": ".envrc|src/**/*.rs", "command": keeping(&kept)}]});
    let set = HookSet::read(&hooks, scene.source.clone()).unwrap();
    let plugin = scene.bus.install(&CommandHooks::new(set, &root)).unwrap();
    let told = || -> Vec<(String, String)> {
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        let inputs = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        inputs.map(|input| (word(&input["file_path"]), word(&input["event"]))).collect()
    };
    let path = |name: &str| root.join(name).display().to_string();
    // The watch begins in the background: the first file is written until it is seen.
    until("the watch has begun", || {
        std::fs::write(root.join("src/begin.rs"), "x").unwrap();
        told().contains(&(path("src/begin.rs"), "change".into()))
    })
    .await;
    std::fs::write(root.join("src/other.txt"), "x").unwrap();
    std::fs::write(root.join("src/.git/a.rs"), "x").unwrap();
    std::fs::write(root.join(".envrc"), "x").unwrap();
    until("the change is told", || told().contains(&(path(".envrc"), "change".into()))).await;
    std::fs::remove_file(root.join(".envrc")).unwrap();
    until("the removal is told", || told().contains(&(path(".envrc"), "unlink".into()))).await;
    let all = told();
    assert!(all.iter().all(|(path, _)| path.ends_with("begin.rs") || path.ends_with(".envrc")), "{all:?}");
    plugin.close().await;
}

#[tokio::test]
async fn hooks_of_changed_files_without_a_watch_are_told_to_the_person() {
    let scene = Scene::new();
    let (seen, _) = scene.run(hook("FileChanged", "true")).await;
    let [notice] = &seen.notices[..] else { panic!("{seen:?}") };
    assert!(notice.contains("FileChanged") && notice.contains("nothing here reaches files"), "{notice}");
}
