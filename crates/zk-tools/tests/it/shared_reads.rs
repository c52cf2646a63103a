use std::sync::Arc;

use serde_json::json;
use zk_agent::{Agent, SpawnOptions};
use zk_testkit::{Asked, Script, ScriptedProvider, Turn};
use zk_tools::ToolsOptions;

use crate::support::Desk;

/// Reads `a.txt` and has a sub-agent change it, which does not read it.
fn delegating(asked: &Asked) -> Turn {
    let is_child = asked.messages.first().is_some_and(|first| first.text().contains("change it"));
    match (is_child, asked.messages.len()) {
        (true, 1) => {
            Turn::new().call("edit", json!({ "path": "a.txt", "old_string": "0", "new_string": "1" }))
        }
        (false, 1) => Turn::new().call("read_file", json!({ "path": "a.txt" })),
        (false, 3) => Turn::new().call("spawn", json!({ "task": "change it" })),
        _ => Turn::new().text(asked.results().iter().map(|one| one.text.clone()).collect::<String>()),
    }
}

#[tokio::test]
async fn a_sub_agent_need_not_read_what_its_parent_has_read_unless_reads_are_its_own() {
    for shares in [true, false] {
        let desk = Desk::with(ToolsOptions { read_before_edit: true, ..ToolsOptions::default() });
        desk.put("a.txt", "0\n");
        let agent = Agent::builder(Arc::new(ScriptedProvider::new(Script::answering(delegating))))
            .unguarded()
            .bus(desk.bus.clone())
            .cwd(&desk.root)
            .spawn(SpawnOptions { share_read_state: shares, ..SpawnOptions::default() })
            .build()
            .unwrap();
        let outcome = agent.run("go").unwrap().wait().await;
        outcome.result.unwrap();
        assert_eq!(desk.get("a.txt"), if shares { "1\n" } else { "0\n" }, "{}", outcome.text);
        assert_eq!(outcome.text.contains("you have not read it"), !shares, "{}", outcome.text);
    }
}

/// Reads `a.txt` and has a sub-agent replace it, which has not read it.
fn replacing(asked: &Asked) -> Turn {
    let is_child = asked.messages.first().is_some_and(|first| first.text().contains("change it"));
    match (is_child, asked.messages.len()) {
        (true, 1) => Turn::new().call("write_file", json!({ "path": "a.txt", "content": "1\n" })),
        _ => delegating(asked),
    }
}

#[tokio::test]
async fn a_sub_agent_replaces_no_file_that_only_its_parent_has_read() {
    let desk = Desk::with(ToolsOptions { read_before_edit: true, ..ToolsOptions::default() });
    desk.put("a.txt", "0\n");
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(Script::answering(replacing))))
        .unguarded()
        .bus(desk.bus.clone())
        .cwd(&desk.root)
        .spawn(SpawnOptions { share_read_state: true, ..SpawnOptions::default() })
        .build()
        .unwrap();
    let outcome = agent.run("go").unwrap().wait().await;
    assert_eq!(desk.get("a.txt"), "0\n", "{}", outcome.text);
    assert!(outcome.text.contains("you have not read it"), "{}", outcome.text);
}
