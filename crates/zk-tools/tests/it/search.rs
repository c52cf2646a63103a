use serde_json::json;
use zk_core::model::ToolErrorKind;

use crate::support::Desk;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("src/main.rs", "fn main() {\n    helper();\n}\n\nfn other() {}\n");
    desk.put("src/deep/helper.rs", "pub fn helper() {\n    println!(\"Helper\");\n}\n");
    desk.put("README.md", "# helper\n");
    desk.put(".github/ci.yml", "run: helper\n");
    desk.put(".gitignore", "target/\n*.log\n");
    desk.put("target/out.rs", "fn helper() {}\n");
    desk.put("app.log", "helper\n");
    desk.put(".git/config", "helper\n");
    desk.put("image.bin", b"\x00\x01helper\n");
    desk
}

#[tokio::test]
async fn grep_names_files_in_order_and_leaves_ignored_ones_out() {
    let desk = desk();
    let found = desk.ok("grep", json!({ "pattern": "helper" })).await;
    assert_eq!(found, ".github/ci.yml\nREADME.md\nsrc/deep/helper.rs\nsrc/main.rs\n");
    let found = desk.ok("grep", json!({ "pattern": "helper", "ignored": true, "glob": "*.{rs,log}" })).await;
    assert_eq!(found, "app.log\nsrc/deep/helper.rs\nsrc/main.rs\ntarget/out.rs\n");
    let found = desk.ok("grep", json!({ "pattern": "helper", "path": "src", "glob": "deep/*.rs" })).await;
    assert_eq!(found, "src/deep/helper.rs\n");
    assert_eq!(
        desk.ok("grep", json!({ "pattern": "nowhere" })).await,
        "(no match; ignored files were left out)"
    );
}

#[tokio::test]
async fn grep_shows_lines_counts_and_context() {
    let desk = desk();
    let args = json!({ "pattern": "helper", "path": "src", "mode": "content" });
    assert_eq!(
        desk.ok("grep", args).await,
        "src/deep/helper.rs:1:pub fn helper() {\nsrc/main.rs:2:    helper();\n"
    );
    let args = json!({ "pattern": "helper", "path": "src", "mode": "count", "ignore_case": true });
    assert_eq!(desk.ok("grep", args).await, "src/deep/helper.rs:2\nsrc/main.rs:1\n");
    let args = json!({ "pattern": "helper", "path": "src/main.rs", "mode": "content", "context": 1 });
    assert_eq!(
        desk.ok("grep", args).await,
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    helper();\nsrc/main.rs-3-}\n"
    );
}

#[tokio::test]
async fn grep_pages_its_results() {
    let desk = Desk::new();
    for n in 0..600 {
        desk.put(&format!("d{}/f{n:03}", n % 7), "x\n");
    }
    let all = desk.ok("grep", json!({ "pattern": "x", "head_limit": 0 })).await;
    assert_eq!(all.lines().count(), 600);
    let first = desk.ok("grep", json!({ "pattern": "x" })).await;
    assert!(first.ends_with("(results 1-250, more follow; continue with offset=250)"));
    let second = desk.ok("grep", json!({ "pattern": "x", "offset": 250, "head_limit": 350 })).await;
    let paged: Vec<&str> = first.lines().take(250).chain(second.lines()).collect();
    assert_eq!(paged, all.lines().collect::<Vec<_>>());
    let past = desk.ok("grep", json!({ "pattern": "x", "offset": 600 })).await;
    assert_eq!(past, "(there are only 600 results)");
}

#[tokio::test]
async fn grep_cuts_long_lines_around_the_match() {
    let desk = Desk::new();
    desk.put("wide", format!("{}needle{}\n", "é".repeat(5_000), "b".repeat(5_000)));
    let found = desk.ok("grep", json!({ "pattern": "needle", "mode": "content" })).await;
    assert!(found.contains("needle") && found.len() < 600, "{found}");
}

#[tokio::test]
async fn a_pattern_that_makes_no_sense_is_explained() {
    let desk = desk();
    for (tool, pattern) in [("grep", "("), ("glob", "[a"), ("glob", "{a")] {
        let error = desk.err(tool, json!({ "pattern": pattern })).await;
        assert_eq!(error.kind, ToolErrorKind::InvalidArgs);
        assert!(error.message.contains("no usable"), "{error}");
    }
    let error = desk.err("grep", json!({ "pattern": "x", "path": "srx" })).await;
    assert!(error.message.contains("did you mean `src`?"), "{error}");
}

#[tokio::test]
async fn searches_stay_inside_and_follow_no_link() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.rs"), "helper\n").unwrap();
    let desk = desk();
    std::os::unix::fs::symlink(outside.path(), desk.root.join("src/out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.rs"), desk.root.join("src/secret.rs")).unwrap();
    for path in [".", "src"] {
        assert!(!desk.ok("grep", json!({ "pattern": "helper", "path": path })).await.contains("secret"));
        assert!(!desk.ok("glob", json!({ "pattern": "**/*.rs", "path": path })).await.contains("secret"));
    }
    for path in ["src/out", "..", "/etc"] {
        for tool in ["grep", "glob", "list_files"] {
            let error = desk.err(tool, json!({ "pattern": "x", "path": path })).await;
            assert_eq!(error.kind, ToolErrorKind::Denied, "{tool} {path}: {error}");
        }
    }
    assert_eq!(desk.err("glob", json!({ "pattern": "../*" })).await.kind, ToolErrorKind::Denied);
    assert_eq!(desk.err("glob", json!({ "pattern": "/etc/*" })).await.kind, ToolErrorKind::Denied);
}

#[tokio::test]
async fn glob_finds_the_newest_first() {
    let desk = desk();
    let touch = |path: &str, age: u64| {
        let date = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        std::fs::File::options().write(true).open(desk.root.join(path)).unwrap().set_modified(date).unwrap();
    };
    touch("src/main.rs", 5);
    touch("src/deep/helper.rs", 50);
    assert_eq!(desk.ok("glob", json!({ "pattern": "*.rs" })).await, "src/main.rs\nsrc/deep/helper.rs\n");
    assert_eq!(desk.ok("glob", json!({ "pattern": "src/*.rs" })).await, "src/main.rs\n");
    assert_eq!(desk.ok("glob", json!({ "pattern": "src/**/h*.rs" })).await, "src/deep/helper.rs\n");
    assert_eq!(
        desk.ok("glob", json!({ "pattern": "**/*.rs", "path": "src/deep" })).await,
        "src/deep/helper.rs\n"
    );
    let absolute = format!("{}/src/*.rs", desk.root.display());
    assert_eq!(desk.ok("glob", json!({ "pattern": absolute })).await, "src/main.rs\n");
    assert_eq!(desk.ok("glob", json!({ "pattern": "README.md" })).await, "README.md\n");
    let none = desk.ok("glob", json!({ "pattern": "*.log" })).await;
    assert_eq!(none, "No file matches `*.log` (ignored files were left out)");
    assert_eq!(desk.ok("glob", json!({ "pattern": "*.log", "ignored": true })).await, "app.log\n");
}

#[tokio::test]
async fn glob_has_a_cap() {
    let desk = Desk::new();
    for n in 0..230 {
        desk.put(&format!("{n}.txt"), "");
    }
    let found = desk.ok("glob", json!({ "pattern": "*.txt" })).await;
    assert_eq!(found.lines().count(), 201);
    assert!(found.ends_with("(200 newest of 230; narrow the pattern for the others)"));
}

#[tokio::test]
async fn a_person_sees_what_was_found_and_how_much() {
    let desk = Desk::new();
    desk.put("a.txt", "needle\n");
    desk.put("b.txt", "needle\n");
    let lines =
        async |tool: &str, args: serde_json::Value| match desk.output(tool, args).await.unwrap().display {
            Some(zk_core::model::Display::Lines { lines }) => lines,
            other => panic!("{tool}: {other:?}"),
        };
    assert_eq!(lines("grep", json!({ "pattern": "needle" })).await, ["a.txt", "b.txt", "2 files for needle"]);
    let found = lines("glob", json!({ "pattern": "a.*" })).await;
    assert_eq!(found, ["a.txt", "1 file for a.*"]);
    let listed = lines("list_files", json!({})).await;
    assert!(listed[0].starts_with("a.txt  7 B") && listed[2] == "2 names in .", "{listed:?}");
}
