use serde_json::json;
use zk_core::model::{Display, ToolErrorKind};
use zk_tools::ToolsOptions;

use crate::FILE_COPIES;
use crate::support::{Desk, MEMORY, forget_peak, grown_since, is_alone};

#[tokio::test]
async fn an_edit_says_where_it_was_made() {
    let desk = Desk::new();
    desk.put("a.rs", "fn a() {}\nfn b() {}\n");
    let args = json!({ "path": "a.rs", "old_string": "fn b() {}", "new_string": "fn c() {}" });
    let output = desk.output("edit", args).await.unwrap();
    assert_eq!(output.content.to_text(), "Edited `a.rs`: 1 replacement (line 2)");
    assert!(
        matches!(output.display, Some(Display::Diff { diff, .. }) if diff.contains("-fn b() {}\n+fn c() {}"))
    );
    assert_eq!(desk.get("a.rs"), "fn a() {}\nfn c() {}\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_survive_an_edit() {
    let desk = Desk::new();
    let content = b"\xef\xbb\xbfhead\r\n\xff\x00\xfe name = old\nmixed\r\n\xe9";
    desk.put("a.bin", content);
    desk.ok("edit", json!({ "path": "a.bin", "old_string": "old", "new_string": "new" })).await;
    let expected = b"\xef\xbb\xbfhead\r\n\xff\x00\xfe name = new\nmixed\r\n\xe9";
    assert_eq!(std::fs::read(desk.root.join("a.bin")).unwrap(), expected);
}

#[tokio::test]
async fn a_text_that_matches_twice_or_not_at_all_changes_nothing() {
    let desk = Desk::new();
    desk.put("a.txt", "one\ntwo\none\n");
    let error = desk.err("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "x" })).await;
    assert!(error.message.contains("stands 2 times in `a.txt`, at lines 1, 3"), "{error}");
    let error = desk.err("edit", json!({ "path": "a.txt", "old_string": "twoo", "new_string": "x" })).await;
    assert_eq!(error.kind, ToolErrorKind::NotFound);
    assert!(error.message.contains("Most like it:\n2\ttwo\n"), "{error}");
    assert_eq!(desk.get("a.txt"), "one\ntwo\none\n");
    let args = json!({ "path": "a.txt", "old_string": "one", "new_string": "x", "replace_all": true });
    assert_eq!(desk.ok("edit", args).await, "Edited `a.txt`: 2 replacements (lines 1, 3)");
}

#[tokio::test]
async fn several_edits_are_made_in_order_or_not_at_all() {
    let desk = Desk::new();
    desk.put("a.txt", "one two\n");
    let edit = |old: &str, new: &str| json!({ "old_string": old, "new_string": new });
    let error = desk
        .err("multi_edit", json!({ "path": "a.txt", "edits": [edit("one", "1"), edit("three", "3")] }))
        .await;
    assert!(error.message.starts_with("edit 2 of 2, nothing was written: old_string is not in"), "{error}");
    assert_eq!(desk.get("a.txt"), "one two\n");
    desk.ok(
        "multi_edit",
        json!({ "path": "a.txt", "edits": [edit("one", "three"), edit("three two", "3")] }),
    )
    .await;
    assert_eq!(desk.get("a.txt"), "3\n");
    let error = desk.err("multi_edit", json!({ "path": "a.txt", "edits": [] })).await;
    assert_eq!(error.kind, ToolErrorKind::InvalidArgs);
    let error =
        desk.err("multi_edit", json!({ "path": "a.txt", "edits": [edit("3", "4"), edit("4", "3")] })).await;
    assert!(error.message.contains("cancel each other out"), "{error}");
}

#[tokio::test]
async fn an_edit_that_would_make_a_file_larger_than_can_be_edited_is_refused_with_both_sizes() {
    let desk = Desk::new();
    desk.put("a.txt", "a\n".repeat(1 << 16));
    let edit = |old: &str, new: String| json!({ "old_string": old, "new_string": new, "replace_all": true });
    let mut args = edit("a", "b".repeat(1 << 11));
    args["path"] = json!("a.txt");
    let error = desk.err("edit", args.clone()).await;
    assert_eq!(error.kind, ToolErrorKind::Failed);
    let expected =
        "`a.txt` would grow from 128.0 KB to 128.1 MB by this edit, and at most 64.0 MB can be edited";
    assert!(error.message.contains(expected), "{error}");
    // Each edit is counted upon the ones before it.
    let edits = [edit("a", "b".repeat(1 << 9)), edit(&"b".repeat(1 << 9), "c".repeat(1 << 10))];
    let error = desk.err("multi_edit", json!({ "path": "a.txt", "edits": edits })).await;
    assert!(error.message.starts_with("edit 2 of 2, nothing was written: `a.txt` would grow"), "{error}");
    let place = zk_core::service::CallPlace { cx: desk.bus.cx(), cwd: desk.root.clone() };
    assert!(desk.tool("edit").preview(&args, &place).await.is_none());
    assert_eq!(desk.get("a.txt"), "a\n".repeat(1 << 16));
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_shown_before_it_is_changed() {
    let desk = Desk::new();
    desk.put("a.txt", "alpha\nbeta\ngamma\n");
    desk.ok("read_file", json!({ "path": "a.txt" })).await;
    desk.put("a.txt", "alpha\nBETA\ngamma, theirs\n");
    let args = json!({ "path": "a.txt", "old_string": "gamma", "new_string": "delta" });
    let error = desk.err("edit", args.clone()).await;
    assert!(error.message.contains("no longer as you last saw it"), "{error}");
    assert!(error.message.contains("2\tBETA\n3\tgamma, theirs"), "{error}");
    assert_eq!(desk.get("a.txt"), "alpha\nBETA\ngamma, theirs\n");
    desk.ok("edit", args).await;
    assert_eq!(desk.get("a.txt"), "alpha\nBETA\ndelta, theirs\n");
}

#[tokio::test]
async fn edits_in_a_row_are_no_drift() {
    let desk = Desk::with(ToolsOptions { read_before_edit: true, ..ToolsOptions::default() });
    desk.put("a.txt", "0\n");
    let error = desk.err("edit", json!({ "path": "a.txt", "old_string": "0", "new_string": "1" })).await;
    assert!(error.message.contains("you have not read it"), "{error}");
    desk.ok("read_file", json!({ "path": "./a.txt" })).await;
    for n in 0..5 {
        let args = json!({ "path": "a.txt", "old_string": n.to_string(), "new_string": (n + 1).to_string() });
        desk.ok("edit", args).await;
    }
    desk.ok("write_file", json!({ "path": "a.txt", "content": "written\n" })).await;
    desk.ok("edit", json!({ "path": "a.txt", "old_string": "written", "new_string": "edited" })).await;
    assert_eq!(desk.get("a.txt"), "edited\n");
}

/// Number of files edited in parallel; the variable sets it for the whole campaign, 1000.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign is set from outside")]
fn rounds() -> u64 {
    std::env::var("ZK_PARALLEL_EDITS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_edits_of_one_file_are_all_made() {
    for seed in 0..rounds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let desk = std::sync::Arc::new(Desk::new());
        let end = if rng.bool() { "\n" } else { "\r\n" };
        let indent = "-".repeat(rng.usize(..40));
        let line = |text: String| format!("{indent}{text}{end}");
        desk.put("a.txt", (0..8).map(|n| line(format!("<{n}>"))).collect::<String>());
        std::os::unix::fs::symlink("a.txt", desk.root.join("link")).unwrap();
        desk.ok("read_file", json!({ "path": "a.txt" })).await;
        let new: Vec<String> = (0..8).map(|n| format!("[{n}]").repeat(rng.usize(1..30))).collect();
        let mut order: Vec<usize> = (0..8).collect();
        rng.shuffle(&mut order);
        let edits: Vec<_> = order
            .into_iter()
            .map(|n| {
                let (desk, new) = (desk.clone(), new[n].clone());
                let path = if rng.bool() { "a.txt" } else { "link" };
                let edit = json!({ "old_string": format!("<{n}>"), "new_string": new });
                let (tool, mut args) =
                    if rng.bool() { ("multi_edit", json!({ "edits": [edit] })) } else { ("edit", edit) };
                args["path"] = json!(path);
                tokio::spawn(async move { desk.ok(tool, args).await })
            })
            .collect();
        for edit in edits {
            edit.await.unwrap();
        }
        assert_eq!(desk.get("a.txt"), new.into_iter().map(line).collect::<String>(), "seed {seed}");
    }
}

#[tokio::test]
async fn a_stale_multi_edit_is_shown_each_of_its_regions() {
    let desk = Desk::new();
    let text: String = (0..100).map(|n| format!("let value_{n} = {n};\n")).collect();
    desk.put("a.rs", &text);
    desk.ok("read_file", json!({ "path": "a.rs" })).await;
    desk.put("a.rs", text.replace("value_90 = 90", "value_90 = 91"));
    let edits = json!([
        { "old_string": "let value_10 = 10;", "new_string": "let ten = 10;" },
        { "old_string": "let value_90 = 90;", "new_string": "let ninety = 90;" },
    ]);
    let error = desk.err("multi_edit", json!({ "path": "a.rs", "edits": edits })).await;
    assert!(error.message.contains("11\tlet value_10 = 10;"), "{error}");
    assert!(error.message.contains("91\tlet value_90 = 91;"), "{error}");
}

#[tokio::test]
async fn a_short_text_in_a_large_file_takes_no_memory_for_each_place() {
    // Other tests of a process take part in its peak.
    let _taken = MEMORY.lock().await;
    if !is_alone("edit::a_short_text_in_a_large_file_takes_no_memory_for_each_place") {
        return;
    }
    let desk = Desk::new();
    let size = 24 << 20;
    desk.put("a.txt", "ab".repeat(size / 2));
    let edit = |old: &str, all: bool| json!({ "path": "a.txt", "old_string": old, "new_string": "x", "replace_all": all });
    let before = forget_peak();
    let error = desk.err("edit", edit("a", false)).await;
    let places = size / 2;
    assert!(error.message.contains(&format!("stands {places} times in `a.txt`, at lines 1, 1,")), "{error}");
    let said = desk.ok("edit", edit("b", true)).await;
    assert!(said.starts_with(&format!("Edited `a.txt`: {places} replacements (lines 1, 1,")), "{said}");
    assert!(grown_since(before) < FILE_COPIES * size as u64, "{} MB", grown_since(before) >> 20);
    assert_eq!(desk.get("a.txt"), "ax".repeat(size / 2));
}
