//! Large outputs as arguments.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::events::{CallRef, ToolPrepare, ToolTransform};
use zk_core::kernel::{Bus, EmitError};
use zk_core::model::{CallId, ToolContent, TurnId};
use zk_tools::{OutputHandles, Spill};

fn call(tool: &str) -> Arc<CallRef> {
    Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::fresh(),
        name: tool.into(),
        display_name: tool.into(),
    })
}

fn bus(dir: &std::path::Path) -> Bus {
    let bus = Bus::new();
    bus.install(&Spill::new(dir)).unwrap();
    bus.install(&OutputHandles).unwrap();
    bus
}

async fn prepared(bus: &Bus, args: Value) -> Result<Value, EmitError> {
    let prepare = ToolPrepare { call: call("any"), args, rewritten_by: None };
    bus.cx().emit(prepare).await.map(|prepared| prepared.args)
}

#[tokio::test]
async fn the_handle_that_a_stub_names_stands_for_the_output_in_any_argument() {
    let dir = tempfile::tempdir().unwrap();
    let bus = bus(dir.path());
    let text = "a line of it\n".repeat(8_000);
    let content = ToolContent::from(text.as_str());
    let event =
        ToolTransform { call: call("fetch"), content, is_error: false, details: None, output_bytes: 0 };
    let stub = bus.cx().emit(event).await.unwrap().content.to_text();
    let handle = stub.split('`').nth(1).unwrap();
    assert!(handle.starts_with("output:fetch-"), "{stub}");
    let path = dir.path().canonicalize().unwrap().join(handle.trim_start_matches("output:"));
    let path = path.display();
    let args = json!({
        "path": handle,
        "files": ["README.md", handle],
        "command": format!("grep -c line {handle} | head; wc -l '{handle}'."),
        "body": handle,
        "deep": { "text": handle, "n": 1 },
    });
    let expected = json!({
        "path": path.to_string(),
        "files": ["README.md", path.to_string()],
        "command": format!("grep -c line {path} | head; wc -l '{path}'."),
        "body": text,
        "deep": { "text": text, "n": 1 },
    });
    assert_eq!(prepared(&bus, args).await.unwrap(), expected);
}

#[tokio::test]
async fn what_is_no_handle_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("secret.txt");
    std::fs::write(&outside, "secret").unwrap();
    let results = dir.path().join("results");
    std::fs::create_dir(&results).unwrap();
    std::os::unix::fs::symlink(&outside, results.join("link.txt")).unwrap();
    let bus = bus(&results);
    for text in [
        "output: 3 lines",
        "output:missing.txt",
        "output:../secret.txt",
        "output:link.txt",
        "output:.",
        "the output:missing.txt of it",
        "output:",
    ] {
        let args = json!({ "text": text, "path": text });
        assert_eq!(prepared(&bus, args.clone()).await.unwrap(), args, "{text}");
    }
}

#[tokio::test]
async fn an_output_that_is_too_large_for_an_argument_refuses_the_call_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("big.log"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let bus = bus(dir.path());
    let error = prepared(&bus, json!({ "body": "output:big.log" })).await.unwrap_err().to_string();
    assert!(
        error.contains("it has 1.0 MB, an argument may have 1.0 MB; give a part of it, or its path"),
        "{error}"
    );
    assert!(prepared(&bus, json!({ "path": "output:big.log" })).await.is_ok());
}

#[tokio::test]
async fn a_path_of_the_session_that_was_copied_is_that_of_the_own_file() {
    let dir = tempfile::tempdir().unwrap();
    let (first, copy) = (dir.path().join("s_first"), dir.path().join("s_copy"));
    for (dir, name) in
        [(&first, "kept.log"), (&first, "other.log"), (&first, "alike.log"), (&copy, "alike.log")]
    {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join(name), name).unwrap();
    }
    std::fs::hard_link(first.join("kept.log"), copy.join("kept.log")).unwrap();
    let (first, copy) = (first.canonicalize().unwrap(), copy.canonicalize().unwrap());
    let bus = bus(&copy);
    let (of_first, own) = (first.join("kept.log"), copy.join("kept.log"));
    let command = |path: &std::path::Path| format!("tail -1 '{}'; ls {}.", path.display(), path.display());
    let args = json!({ "path": of_first, "command": command(&of_first), "content": of_first });
    let expected = json!({ "path": own, "command": command(&own), "content": of_first });
    assert_eq!(prepared(&bus, args).await.unwrap(), expected);
    let beside = |path: &str| format!("{}{path}", first.display());
    for path in [
        beside("/other.log"),
        // Another session's file with the same name and length.
        beside("/alike.log"),
        beside("/kept.log~"),
        beside("/kept.log/.."),
        beside("/../kept.log"),
        beside("/../s_copy/kept.log"),
        format!("/mnt{}", of_first.display()),
        own.display().to_string(),
    ] {
        let args = json!({ "path": path });
        assert_eq!(prepared(&bus, args.clone()).await.unwrap(), args);
    }
    // Also after the first session is removed.
    std::fs::remove_dir_all(&first).unwrap();
    assert_eq!(prepared(&bus, json!({ "path": of_first })).await.unwrap(), json!({ "path": own }));
}
