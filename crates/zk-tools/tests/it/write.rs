use std::sync::Arc;

use serde_json::json;
use zk_core::model::Display;
use zk_core::service::Redactor;
use zk_tools::{RedactResults, ToolsOptions};

use crate::support::{Desk, MEMORY};

#[tokio::test]
async fn a_write_says_whether_the_file_is_new_changed_or_the_same() {
    let desk = Desk::new();
    let write = async |content: &str| {
        desk.ok("write_file", json!({ "path": "deep/a.txt", "content": content })).await
    };
    assert_eq!(write("one\ntwo\n").await, "Created `deep/a.txt` (2 lines, 8 B)");
    assert_eq!(write("one\n").await, "Updated `deep/a.txt` (1 line, 4 B)");
    assert_eq!(write("one\n").await, "No change needed: `deep/a.txt` has exactly this content already");
    assert_eq!(desk.get("deep/a.txt"), "one\n");
}

#[tokio::test]
async fn a_person_sees_the_difference() {
    let desk = Desk::new();
    desk.put("a.txt", "one\ntwo\n");
    let output = desk.output("write_file", json!({ "path": "a.txt", "content": "one\n2\n" })).await.unwrap();
    let Some(Display::Diff { path, diff }) = output.display else { panic!("no diff") };
    assert_eq!(path, "a.txt");
    assert_eq!(diff, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let desk = Desk::new();
    desk.put("a.txt", "mine\n");
    desk.ok("read_file", json!({ "path": "a.txt" })).await;
    desk.put("a.txt", "theirs\n");
    let args = json!({ "path": "a.txt", "content": "new\n" });
    let error = desk.err("write_file", args.clone()).await;
    let refused =
        "`a.txt` was not written: it changed since you last saw it; read it again first. What it has now";
    assert!(error.message.starts_with(refused), "{error}");
    assert!(error.message.contains("\n-theirs\n"), "the fresh region is shown: {error}");
    assert_eq!(desk.get("a.txt"), "theirs\n");
    desk.ok("read_file", json!({ "path": "a.txt" })).await;
    desk.ok("write_file", args).await;
    assert_eq!(desk.get("a.txt"), "new\n");
}

#[tokio::test]
async fn a_file_known_only_in_part_is_not_overwritten() {
    let desk = Desk::new();
    desk.put("a.txt", "1\n2\n3\n4\n");
    let args = json!({ "path": "a.txt", "content": "new\n" });
    desk.ok("read_file", json!({ "path": "a.txt", "limit": 2 })).await;
    let error = desk.err("write_file", args.clone()).await;
    assert!(error.message.contains("you have seen only a part of it"), "{error}");
    desk.ok("read_file", json!({ "path": "a.txt", "offset": 3 })).await;
    desk.ok("write_file", args.clone()).await;
    desk.put("b.txt", b"caf\xe9 and a lot of plain text around it\n");
    desk.ok("read_file", json!({ "path": "b.txt" })).await;
    let error = desk.err("write_file", json!({ "path": "b.txt", "content": "new\n" })).await;
    assert!(error.message.contains("not all of its bytes are text"), "{error}");
}

#[tokio::test]
async fn a_read_behind_the_end_of_a_file_shows_nothing_of_it() {
    let desk = Desk::new();
    desk.put("a.txt", "one\ntwo\n");
    for _ in 0..2 {
        let error = desk.err("read_file", json!({ "path": "a.txt", "offset": 3 })).await;
        assert!(error.message.contains("has 2 lines; there is no line 3"), "{error}");
    }
    desk.ok("read_file", json!({ "path": "a.txt", "limit": 1 })).await;
    desk.err("read_file", json!({ "path": "a.txt", "offset": 9 })).await;
    let error = desk.err("write_file", json!({ "path": "a.txt", "content": "new\n" })).await;
    assert!(error.message.contains("seen only a part of it"), "{error}");
    desk.put("empty.txt", "");
    desk.ok("read_file", json!({ "path": "empty.txt" })).await;
    desk.ok("write_file", json!({ "path": "empty.txt", "content": "new\n" })).await;
}

#[tokio::test]
async fn a_file_never_read_may_be_replaced_unless_the_option_says_no() {
    let args = json!({ "path": "a.txt", "content": "new\n" });
    let desk = Desk::new();
    desk.put("a.txt", "old\n");
    desk.ok("write_file", args.clone()).await;
    let desk = Desk::with(ToolsOptions { read_before_edit: true, ..ToolsOptions::default() });
    desk.put("a.txt", "old\n");
    let error = desk.err("write_file", args.clone()).await;
    assert!(error.message.ends_with("it exists and you have not read it; read it first"), "{error}");
    desk.ok("write_file", json!({ "path": "b.txt", "content": "new\n" })).await;
    desk.ok("read_file", json!({ "path": "a.txt" })).await;
    desk.ok("write_file", args).await;
}

#[tokio::test]
async fn what_cannot_be_written_says_why() {
    let desk = Desk::new();
    desk.put("dir/x", "");
    std::os::unix::fs::symlink("/etc/zk-no-such-file", desk.root.join("out")).unwrap();
    for (path, message) in [
        ("../x", "outside the allowed directories"),
        ("/etc/zk-test", "outside the allowed directories"),
        ("out", "outside the allowed directories"),
        ("dir", "`dir` is a directory"),
        ("dir/x/y", "below a file"),
    ] {
        let error = desk.err("write_file", json!({ "path": path, "content": "x" })).await;
        assert!(error.message.contains(message), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_another_agent_changed_is_not_overwritten_by_what_one_read_before() {
    let read = json!({ "path": "a.txt" });
    let write = json!({ "path": "a.txt", "content": "my old copy\n" });
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "1" });
    for child_only_reads in [false, true] {
        let desk = Desk::new();
        desk.put("a.txt", "one\ntwo\n");
        desk.ok("read_file", read.clone()).await;
        let child = desk.bus.child("helper");
        if child_only_reads {
            desk.put("a.txt", "one\nthree\n");
            desk.output_of(&child, "read_file", read.clone()).await.unwrap();
        } else {
            let edit = json!({ "path": "a.txt", "old_string": "two", "new_string": "three" });
            desk.output_of(&child, "edit", edit).await.unwrap();
        }
        let error = desk.err("write_file", write.clone()).await;
        assert!(error.message.contains("it changed since you last saw it"), "{error}");
        let error = desk.err("edit", edit.clone()).await;
        assert!(error.message.contains("it is no longer as you last saw it"), "{error}");
        assert_eq!(desk.get("a.txt"), "one\nthree\n");
        // An agent that has read its present content may write it.
        let write = json!({ "path": "a.txt", "content": "known\n" });
        let written = desk.output_of(&child, "write_file", write).await;
        assert_eq!(written.is_ok(), child_only_reads, "{written:?}");
    }
}

#[tokio::test]
async fn a_file_whose_secret_or_hidden_text_was_not_shown_is_edited_and_not_overwritten() {
    let redactor = Arc::new(Redactor::new());
    redactor.learn("correct-horse-battery");
    for secret in ["correct-horse-battery", "x\u{e0041}\u{e0042}"] {
        let desk = Desk::new();
        desk.bus.install(&RedactResults::new(redactor.clone())).unwrap();
        desk.put("a.env", format!("PORT=1\nKEY={secret}\n"));
        desk.ok("read_file", json!({ "path": "a.env" })).await;
        let args = json!({ "path": "a.env", "content": "PORT=2\nKEY=[redacted]\n" });
        let error = desk.err("write_file", args).await;
        assert!(error.message.contains("a secret in it was not shown"), "{error}");
        let args = json!({ "path": "a.env", "old_string": "PORT=1", "new_string": "PORT=2" });
        desk.ok("edit", args).await;
        assert_eq!(desk.get("a.env"), format!("PORT=2\nKEY={secret}\n"));
    }
}

#[tokio::test]
async fn a_large_file_that_was_read_in_part_is_edited() {
    let _alone = MEMORY.lock().await;
    let desk = Desk::new();
    desk.put("big.txt", format!("first\n{}", "0123456789abcdef\n".repeat(33 << 16)));
    desk.ok("read_file", json!({ "path": "big.txt", "limit": 2 })).await;
    let args = json!({ "path": "big.txt", "old_string": "first", "new_string": "1st" });
    desk.ok("edit", args.clone()).await;
    assert!(desk.get("big.txt").starts_with("1st\n0123"));
}

#[tokio::test]
async fn what_was_cut_from_a_read_does_not_count_as_seen() {
    let desk = Desk::new();
    let content = "a line of a file that is long\n".repeat(25_000);
    // The results of one turn have room for four of these.
    for n in 0..6 {
        desk.put(&format!("{n}.txt"), &content);
        let text =
            desk.whole("read_file", json!({ "path": format!("{n}.txt"), "limit": 0, "max_bytes": 0 })).await;
        assert_eq!(text.contains("[cut: all results of one turn"), n > 3, "{n}: {}", text.len());
    }
    desk.ok("write_file", json!({ "path": "0.txt", "content": "known\n" })).await;
    let error = desk.err("write_file", json!({ "path": "5.txt", "content": "new\n" })).await;
    assert!(error.message.contains("you have seen only a part of it"), "{error}");
    let again = desk.ok("read_file", json!({ "path": "5.txt", "limit": 0, "max_bytes": 0 })).await;
    assert!(again.starts_with("1\ta line"), "{again}");
}
