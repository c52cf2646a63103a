//! Advice to a model on what to do next.

use serde_json::{Value, json};
use zk_tools::ToolsOptions;

use crate::support::Desk;

/// A desk with files of each kind, and only these tools.
fn desk(only: Option<&[&str]>) -> Desk {
    let only = only.map(|names| names.iter().map(ToString::to_string).collect());
    let desk = Desk::with(ToolsOptions { only, ..ToolsOptions::default() });
    desk.put("a.txt", "one\ntwo\n");
    desk.put("binary", b"\0\x01\x02");
    desk.put("large", "a line of text\n".repeat(200_000));
    desk.put("huge.png", [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; 9 << 20]].concat());
    desk
}

/// The result or the error of a call.
async fn message_of(desk: &Desk, tool: &str, args: &Value) -> String {
    match desk.output(tool, args.clone()).await {
        Ok(output) => output.content.to_text(),
        Err(error) => error.message,
    }
}

#[tokio::test]
async fn each_refusal_and_failure_says_what_to_do_next() {
    let desk = desk(None);
    let missing = json!({ "path": "b.txt" });
    for (tool, args, next) in [
        ("read_file", missing.clone(), "glob and list_files show what is there"),
        ("read_file", json!({ "path": "." }), "list_files shows what is in it"),
        ("read_file", json!({ "path": "/etc/passwd" }), "use a path inside them"),
        ("read_file", json!({ "path": "a.txt", "offset": 9 }), "give a lower offset"),
        ("read_file", json!({ "path": "a.txt", "max_bytes": 2 }), "in shell, `sed -n 1p FILE | tail -c +3"),
        ("read_file", json!({ "path": "large" }), "or find the place with grep"),
        ("read_file", json!({ "path": "binary" }), "use shell (file, xxd, strings)"),
        ("read_file", json!({ "path": "huge.png" }), "make it smaller with shell"),
        ("list_files", missing.clone(), "glob and list_files show what is there"),
        ("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "one" }), "leave this edit out"),
        (
            "edit",
            json!({ "path": "a.txt", "old_string": "", "new_string": "x" }),
            "use write_file for a new file",
        ),
        ("edit", json!({ "path": "a.txt", "old_string": "three", "new_string": "x" }), "read the file again"),
        ("edit", json!({ "path": "a.txt", "old_string": "o", "new_string": "x" }), "add surrounding lines"),
        ("multi_edit", json!({ "path": "a.txt", "edits": [] }), "give at least one"),
        ("grep", json!({ "pattern": "nowhere" }), "ignored files were left out"),
        ("glob", json!({ "pattern": "*.nowhere" }), "ignored files were left out"),
        ("shell", json!({ "command": "sleep 9", "timeout_ms": 50 }), "`background: true`"),
        ("shell", json!({ "command": "sleep 9", "detach": true }), "background: true"),
        ("jobs", json!({ "action": "list" }), "`shell` with background starts one"),
        ("jobs", json!({ "action": "tail" }), "`list` shows them"),
        ("recall", json!({ "handle": "nothing" }), "run the call again"),
        ("ask_user", json!({ "question": "Which?" }), "decide by yourself"),
        ("present_plan", json!({ "plan": "1. all" }), "end your turn with the plan"),
    ] {
        let told = message_of(&desk, tool, &args).await;
        assert!(told.contains(next), "{tool} {args}: {told}");
    }
}

#[tokio::test]
async fn no_advice_names_a_tool_that_the_model_does_not_have() {
    let all = ["glob", "grep", "jobs", "list_files", "shell", "write_file"];
    for (tool, args) in [
        ("read_file", json!({ "path": "b.txt" })),
        ("read_file", json!({ "path": "." })),
        ("read_file", json!({ "path": "a.txt", "max_bytes": 2 })),
        ("read_file", json!({ "path": "large" })),
        ("read_file", json!({ "path": "binary" })),
        ("read_file", json!({ "path": "huge.png" })),
        ("edit", json!({ "path": "a.txt", "old_string": "", "new_string": "x" })),
        ("shell", json!({ "command": "sleep 9", "timeout_ms": 50 })),
        ("shell", json!({ "command": "ls", "background": true })),
    ] {
        let desk = desk(Some(&[tool]));
        let told = message_of(&desk, tool, &args).await;
        for name in all.iter().filter(|name| **name != tool) {
            assert!(!told.contains(name), "{tool} {args}: {told}");
        }
        assert!(!told.contains("background: true"), "{tool} {args}: {told}");
    }
    let desk = desk(Some(&["shell"]));
    let schema = desk.tool("shell").spec().schema.to_string();
    assert!(!schema.contains("background") && !schema.contains("jobs"), "{schema}");
}

#[tokio::test]
async fn schemas_state_the_numbers_that_the_host_set() {
    let desk = Desk::with(ToolsOptions {
        shell_timeout: std::time::Duration::from_secs(5),
        shell_timeout_max: std::time::Duration::from_secs(7),
        grep_results: 33,
        ..ToolsOptions::default()
    });
    let about = |tool: &str, argument: &str| {
        desk.tool(tool).spec().schema["properties"][argument]["description"].as_str().unwrap().to_owned()
    };
    assert_eq!(about("shell", "timeout_ms"), "Default 5000, at most 7000");
    assert_eq!(about("grep", "head_limit"), "Results, default 33; 0 = all");
    let text = desk.ok("shell", json!({ "command": "true", "timeout_ms": 8_000 })).await;
    assert!(text.contains("timeout_ms was 7000 instead of 8000, no more is allowed"), "{text}");
    let text = desk.ok("shell", json!({ "command": "true", "timeout_ms": 7_000 })).await;
    assert!(!text.contains("timeout_ms"), "{text}");
}
