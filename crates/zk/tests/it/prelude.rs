use std::sync::Mutex;

use zk::prelude::*;
use zk_testkit::{Script, ScriptedProvider};

#[tokio::test(flavor = "current_thread")]
async fn an_agent_with_tools_a_gate_and_a_guard_is_made_of_names_of_the_prelude_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("note.txt"), "the answer is 42").unwrap();
    let script = Script::new()
        .turn(|turn| turn.call("read_file", serde_json::json!({ "path": "note.txt" })))
        .turn(|turn| turn.text("It is 42."));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let gates = seen.clone();
    let guard = plugin_fn("see-gates", move |scope| {
        let gates = gates.clone();
        scope.on_sync(move |gate: &ToolGate, _| {
            gates.lock().unwrap().push(gate.call.name.to_string());
            None::<Ruling>
        });
        Ok(())
    });
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .plugin(LocalPlugin::new(
            Environment::filtered([("PATH", "/usr/bin:/bin")]),
            WorkspaceFiles::new([dir.path()]).unwrap(),
        ))
        .plugin(ToolsPlugin::new(ToolsOptions::default()))
        .plugin(PermissionGate::new(Mode::Ask))
        .plugin(guard)
        .cwd(dir.path())
        .build()
        .unwrap();
    let outcome = agent.run("What is the answer?").unwrap().wait().await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "It is 42.");
    assert_eq!(*seen.lock().unwrap(), ["read_file"]);
}
