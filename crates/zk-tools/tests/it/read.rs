use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use zk_core::events::{
    AgentDone, CompactionTrigger, ContextReduced, SessionBeforeCompact, SessionBeforeFork, SessionBeforeTree,
    SessionLoaded,
};
use zk_core::kernel::Bus;
use zk_core::model::{Stats, ToolErrorKind};
use zk_core::service::{ContextId, RunStatus};
use zk_tools::ToolsOptions;

use crate::support::{Desk, MEMORY, forget_peak, grown_since};

#[tokio::test]
async fn a_file_is_shown_with_line_numbers() {
    let desk = Desk::new();
    desk.put("a.txt", "one\ntwo\n\nfour");
    assert_eq!(desk.ok("read_file", json!({ "path": "a.txt" })).await, "1\tone\n2\ttwo\n3\t\n4\tfour\n");
    desk.put("empty", "");
    assert_eq!(desk.ok("read_file", json!({ "path": "empty" })).await, "(the file is empty)");
}

#[tokio::test]
async fn line_numbers_can_be_left_out() {
    let desk = Desk::with(ToolsOptions { line_numbers: false, ..ToolsOptions::default() });
    desk.put("a.txt", "one\ntwo\n");
    assert_eq!(desk.ok("read_file", json!({ "path": "a.txt" })).await, "one\ntwo\n");
}

#[tokio::test]
async fn a_long_file_is_paged_and_says_how_to_go_on() {
    let desk = Desk::new();
    let text: String = (1..=4_500).map(|n| format!("line {n}\n")).collect();
    desk.put("long", &text);
    let page = desk.ok("read_file", json!({ "path": "long" })).await;
    assert!(page.starts_with("1\tline 1\n") && page.contains("\n2000\tline 2000\n"));
    assert!(page.ends_with("(lines 1-2000 of 4500; continue with offset=2001)"));
    let page = desk.ok("read_file", json!({ "path": "long", "offset": 4001 })).await;
    assert!(page.starts_with("4001\t") && page.ends_with("4500\tline 4500\n"));
    let page = desk.ok("read_file", json!({ "path": "long", "offset": 10, "limit": 2 })).await;
    assert_eq!(page, "10\tline 10\n11\tline 11\n(lines 10-11 of 4500; continue with offset=12)");
    let page = desk.ok("read_file", json!({ "path": "long", "limit": 0 })).await;
    assert!(page.ends_with("4500\tline 4500\n"));
    let page = desk.ok("read_file", json!({ "path": "long", "max_bytes": 20 })).await;
    assert_eq!(page, "1\tline 1\n2\tline 2\n(lines 1-2 of 4500; continue with offset=3)");
    let error = desk.err("read_file", json!({ "path": "long", "offset": 4501 })).await;
    assert_eq!(error.message, "`long` has 4500 lines; there is no line 4501, give a lower offset");
}

#[tokio::test]
async fn a_line_too_long_is_cut_between_characters() {
    let desk = Desk::new();
    desk.put("wide", format!("{}\nnext\n", "é".repeat(200)));
    let page = desk.ok("read_file", json!({ "path": "wide", "max_bytes": 11 })).await;
    assert_eq!(
        page,
        "1\tééééé\n(line 1 is cut after byte 10, it does not fit into max_bytes; in shell, `sed -n 1p FILE | tail -c +11 | \
         head -c 2000` shows more of it; lines 1-1 of 2; continue with offset=2)"
    );
}

#[tokio::test]
async fn a_binary_file_is_named_and_not_shown() {
    let desk = Desk::new();
    desk.put("a.bin", b"\x7fELF\0\0\x01");
    desk.put("latin", [b"caf\xe9 ".repeat(3).as_slice(), b"is fine here, most of it is plain text"].concat());
    desk.put("noise", [0xff, 0xfe, 0xfd, 0xfc].repeat(50));
    assert!(desk.ok("read_file", json!({ "path": "a.bin" })).await.contains("is a binary file of 7 B"));
    assert!(desk.ok("read_file", json!({ "path": "noise" })).await.contains("is a binary file"));
    let latin = desk.ok("read_file", json!({ "path": "latin" })).await;
    assert!(latin.contains("caf\u{fffd}") && latin.contains("bytes that are no UTF-8"), "{latin}");
}

#[tokio::test]
async fn a_huge_file_is_read_in_little_memory() {
    let _alone = MEMORY.lock().await;
    let desk = Desk::new();
    let mut sparse = std::fs::File::create(desk.root.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(1 << 30)).unwrap();
    sparse.write_all(b"end").unwrap();
    let mut text = std::fs::File::create(desk.root.join("text")).unwrap();
    text.write_all("a line of text\n".repeat(10_000).as_bytes()).unwrap();
    text.seek(SeekFrom::Start(1 << 30)).unwrap();
    text.write_all(b"end").unwrap();
    let before = forget_peak();
    assert!(desk.ok("read_file", json!({ "path": "sparse" })).await.contains("binary file of 1.0 GB"));
    let page = desk.ok("read_file", json!({ "path": "text", "offset": 1 })).await;
    assert!(
        page.ends_with("(lines 1-2000, more follow; continue with offset=2001)"),
        "{}",
        page.lines().last().unwrap()
    );
    // The rest of this one is a single line of a gigabyte.
    let page = desk.ok("read_file", json!({ "path": "text", "offset": 10_001, "max_bytes": 0 })).await;
    assert!(page.contains("line 10001 is cut"));
    desk.ok("grep", json!({ "pattern": "end", "mode": "content" })).await;
    assert!(grown_since(before) < 120 << 20, "{} MB", grown_since(before) >> 20);
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let desk = Desk::new();
    desk.put("src/main.rs", "");
    for (path, kind, message) in [
        ("src/mian.rs", ToolErrorKind::NotFound, "`src/mian.rs` does not exist; did you mean `main.rs`?"),
        ("src", ToolErrorKind::InvalidArgs, "`src` is a directory, not a regular file; list_files shows"),
        ("../x", ToolErrorKind::Denied, "`../x` is outside the allowed directories"),
        ("/etc/passwd", ToolErrorKind::Denied, "`/etc/passwd` is outside the allowed directories"),
        ("/dev/zero", ToolErrorKind::Denied, "outside"),
        ("", ToolErrorKind::InvalidArgs, "it is empty"),
    ] {
        let error = desk.err("read_file", json!({ "path": path })).await;
        assert_eq!(error.kind, kind, "{path}: {error}");
        assert!(error.message.contains(message), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_read_is_repeated_only_in_the_conversation_that_contains_the_earlier_one() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    // Two agents with the same name on one bus, and the first one again after a reset.
    for _ in 0..3 {
        let cx = desk.bus.cx().with_service(Arc::new(ContextId::fresh()));
        for expected in ["1\tone\n", "unchanged since you read"] {
            let output = desk.output_in(&cx, "read_file", json!({ "path": "a.txt" })).await.unwrap();
            assert!(output.content.to_text().contains(expected), "{expected}: {output:?}");
        }
    }
}

#[tokio::test]
async fn what_one_conversation_read_is_unknown_to_the_one_that_takes_its_place() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    let args = json!({ "path": "a.txt" });
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\tone\n");
    assert!(desk.ok("read_file", args.clone()).await.contains("unchanged since you read"));
    let next = SessionLoaded { session_id: None, entries: Arc::from([]) };
    desk.bus.cx().emit(next).await.unwrap();
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\tone\n");
    // If a session continues from an earlier entry, the answer may come after it.
    assert!(desk.ok("read_file", args.clone()).await.contains("unchanged since you read"));
    let fork = SessionBeforeFork { session_id: "s_1".into(), entry: "e_1".into() };
    desk.bus.cx().emit(fork).await.unwrap();
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\tone\n");
    assert!(desk.ok("read_file", args.clone()).await.contains("unchanged since you read"));
    let moved = SessionBeforeTree { session_id: "s_1".into(), from: None, to: Some("e_1".into()) };
    desk.bus.cx().emit(moved).await.unwrap();
    assert_eq!(desk.ok("read_file", args).await, "1\tone\n");
}

#[tokio::test]
async fn a_repeated_read_is_answered_by_saying_so() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    let args = json!({ "path": "a.txt" });
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\tone\n");
    assert!(desk.ok("read_file", json!({ "path": "./a.txt" })).await.contains("unchanged since you read"));
    assert_eq!(
        desk.ok("read_file", json!({ "path": "a.txt", "limit": 1 })).await,
        "1\tone\n",
        "another slice"
    );
    desk.put("a.txt", "two\n");
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\ttwo\n", "another content");
    desk.put("a.txt", "one\n");
    assert_eq!(desk.ok("read_file", args).await, "1\tone\n", "back again, but no longer before the model");
}

#[tokio::test]
async fn a_read_is_repeated_for_another_agent_and_after_a_compaction() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    let args = json!({ "path": "a.txt" });
    desk.ok("read_file", args.clone()).await;
    let child = desk.bus.child("helper");
    let text = desk.output_of(&child, "read_file", args.clone()).await.unwrap().content.to_text();
    assert_eq!(text, "1\tone\n");
    let event = SessionBeforeCompact {
        session_id: None,
        tokens: 1,
        instructions: None,
        trigger: CompactionTrigger::Manual,
    };
    desk.bus.cx().emit(event).await.unwrap();
    assert_eq!(desk.ok("read_file", args.clone()).await, "1\tone\n");
    let event = ContextReduced {
        turn_id: "t".into(),
        strategy: "tail".into(),
        results: 1,
        messages: 0,
        before: 9,
        after: 5,
    };
    desk.bus.cx().emit(event).await.unwrap();
    assert_eq!(desk.ok("read_file", args).await, "1\tone\n");
}

#[tokio::test]
async fn what_a_sub_agent_read_is_forgotten_when_it_ends() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    let (args, child) = (json!({ "path": "a.txt" }), desk.bus.child("helper"));
    let read =
        async |bus: &Bus| desk.output_of(bus, "read_file", args.clone()).await.unwrap().content.to_text();
    for bus in [&desk.bus, &child] {
        assert_eq!(read(bus).await, "1\tone\n");
        assert!(read(bus).await.contains("unchanged"));
    }
    let done = AgentDone {
        run_id: "r_1".into(),
        status: RunStatus::Completed,
        error: None,
        text: String::new(),
        stats: Stats::default(),
    };
    child.cx().emit(done.clone()).await.unwrap();
    assert_eq!(read(&child).await, "1\tone\n", "nothing is known of it any more");
    // The conversation itself continues after a run.
    desk.bus.cx().emit(done).await.unwrap();
    assert!(read(&desk.bus).await.contains("unchanged"));
}

#[tokio::test]
async fn repeated_reads_can_be_allowed() {
    let desk = Desk::with(ToolsOptions { dedup_reads: false, ..ToolsOptions::default() });
    desk.put("a.txt", "one\n");
    for _ in 0..2 {
        assert_eq!(desk.ok("read_file", json!({ "path": "a.txt" })).await, "1\tone\n");
    }
}

#[tokio::test]
async fn a_directory_is_listed_with_kinds_and_sizes() {
    let desk = Desk::new();
    desk.put("b/x", "");
    desk.put("a.txt", "x".repeat(2048));
    std::os::unix::fs::symlink("a.txt", desk.root.join("c")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_399);
    std::fs::File::open(desk.root.join("a.txt")).unwrap().set_modified(time).unwrap();
    assert_eq!(desk.ok("list_files", json!({})).await, "a.txt  2.0 KB  2000-02-28 23:59\nb/\nc@\n");
    std::fs::create_dir(desk.root.join("none")).unwrap();
    assert_eq!(desk.ok("list_files", json!({ "path": "none" })).await, "(the directory is empty)");
    let error = desk.err("list_files", json!({ "path": "a.txt" })).await;
    assert!(error.message.contains("not a directory"), "{error}");
}

#[tokio::test]
async fn a_stopped_run_reads_nothing() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n");
    desk.stop.cancel();
    for tool in ["read_file", "list_files", "write_file", "edit", "grep", "glob"] {
        let args = json!({ "path": "a.txt", "pattern": "x", "content": "x", "old_string": "one", "new_string": "two" });
        assert_eq!(desk.err(tool, args).await.kind, ToolErrorKind::Aborted, "{tool}");
    }
    assert_eq!(desk.get("a.txt"), "one\n");
}
