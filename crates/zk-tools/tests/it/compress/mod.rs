//! Outputs of commands without their noise.

mod corpus;
mod model;
mod recorded;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;
use zk_core::events::{CallRef, ToolBegin, ToolRemark, ToolTransform};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{CallId, Effects, RunId, ToolContent, TurnId};
use zk_tools::{Compress, Compression, OutputDir, Spill};

use crate::support::Desk;

struct Bench {
    bus: Bus,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bus = Bus::new();
        bus.install(&Compress::new()).unwrap();
        bus.scope("place").provide_service(Arc::new(OutputDir(dir.path().to_owned())));
        Self { bus, dir }
    }

    /// Text that the model gets for `text` as a result of `tool`.
    async fn result(&self, tool: &str, command: &str, text: &str) -> String {
        let call = Arc::new(CallRef {
            turn_id: TurnId::fresh(),
            call_id: CallId::fresh(),
            name: tool.into(),
            display_name: tool.into(),
        });
        let cx = self.bus.cx();
        let begin = ToolBegin {
            run_id: RunId::fresh(),
            call: call.clone(),
            args: json!({ "command": command }),
            effects: Effects::none(),
            summary: String::new(),
            title: None,
            read_only: false,
            kind: zk_core::model::CallKind::default(),
            locations: Vec::new(),
        };
        cx.emit(begin).await.unwrap();
        let content = ToolContent::from(text);
        let event = ToolTransform { call, content, is_error: false, details: None, output_bytes: 0 };
        cx.emit(event).await.unwrap().content.to_text()
    }
}

#[tokio::test]
async fn every_line_that_a_failing_test_needs_is_still_there_in_200_generated_outputs() {
    let bench = Bench::new();
    let corpus = corpus::corpus();
    assert_eq!(corpus.len(), 200);
    let (mut before, mut after) = (0, 0);
    for sample in &corpus {
        let result = bench.result("shell", &sample.command, &sample.text).await;
        let lines: Vec<&str> = result.lines().collect();
        for needed in &sample.needed {
            assert!(
                lines.contains(&needed.as_str()),
                "{}: {needed:?} is gone from\n{result}",
                sample.command
            );
        }
        before += sample.text.len();
        after += result.len();
    }
    println!("{before} bytes became {after}: {:.1} % saved", 100.0 - after as f64 * 100.0 / before as f64);
    assert!(after * 3 < before, "two thirds of it are noise: {before} bytes became {after}");
    let (counted, left) = bench.bus.service::<Compression>().unwrap().bytes();
    assert!(left < counted && counted as usize <= before);
}

#[tokio::test]
async fn the_whole_output_is_in_the_file_that_the_result_names() {
    let bench = Bench::new();
    let text: String = (0..200).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    let result = bench.result("shell", "cargo test", &text).await;
    let note = result.lines().last().unwrap();
    assert!(note.starts_with("[5.6 KB became "), "{note}");
    let path = note.split(" is in ").nth(1).unwrap().split("; `").next().unwrap();
    assert!(std::path::Path::new(path).starts_with(bench.dir.path().canonicalize().unwrap()), "{path}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    assert!(
        result.starts_with("[… 199 lines left out: passed tests]\ntest module::case_199 ... ok\n"),
        "{result}"
    );
}

#[tokio::test]
async fn the_person_is_told_with_the_call_how_much_was_saved() {
    let bench = Bench::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    bench.bus.scope("screen").on_sync(move |remark: &ToolRemark, _: &Cx| {
        heard.lock().unwrap().push(remark.text.clone());
    });
    let text: String = (0..200).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    bench.result("shell", "cargo test", &text).await;
    bench.result("shell", "cat data.txt", &text).await;
    let told = told.lock().unwrap();
    assert_eq!(*told, ["the model sees 68 B of 5.6 KB, 98 % less: 199 lines: passed tests"]);
}

#[tokio::test]
async fn what_is_short_or_of_another_tool_or_filtered_by_the_model_stays_as_it_is() {
    let bench = Bench::new();
    let passed: String = (0..200).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    let short: String = passed.lines().take(8).collect::<Vec<_>>().join("\n");
    for (tool, command, text) in [
        ("shell", "cargo test", short.as_str()),
        ("mcp__ci__test", "cargo test", &passed),
        ("shell", "cargo test | grep -v FAILED", &passed),
        ("shell", "cat data.txt", &passed),
    ] {
        assert_eq!(bench.result(tool, command, text).await, text, "{tool} {command}");
    }
}

#[tokio::test]
async fn without_a_place_for_the_whole_nothing_is_left_out() {
    let bus = Bus::new();
    bus.install(&Compress::new()).unwrap();
    let bench = Bench { bus, dir: tempfile::tempdir().unwrap() };
    let text: String = (0..200).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    assert_eq!(bench.result("shell", "cargo test", &text).await, text);
}

#[tokio::test]
async fn what_real_programs_print_keeps_what_is_in_it() {
    let bench = Bench::new();
    let here = env!("CARGO_MANIFEST_DIR");
    for (program, args) in [
        ("ls", &["-la", here][..]),
        ("ls", &["-R", here]),
        ("find", &[here, "-name", "*.rs"]),
        ("git", &["-C", here, "log", "-n", "40"]),
        ("git", &["-C", here, "status"]),
        ("git", &["-C", here, "show", "HEAD"]),
    ] {
        let Some(text) = printed(program, args) else { continue };
        let command = format!("{program} {}", args.join(" ").replace(&format!("-C {here} "), ""));
        let result = bench.result("shell", &command, &text).await;
        let lines: Vec<&str> = result.lines().collect();
        let is_of_the_project = |line: &&str| line.ends_with(".rs") || line.contains("error");
        for line in text.lines().filter(is_of_the_project) {
            assert!(lines.contains(&line), "{command}: {line}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "real outputs come from real programs")]
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Generates lines that matter to some rule, and others.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,20}",
        "   Compiling [a-z]{1,8} v1\\.0\\.0",
        "test [a-z]{1,8} \\.\\.\\. ok",
        "    ✓ [a-z]{1,8}",
        "=== RUN   Test[A-Z]{1,4}",
        "  CC      [a-z]{1,8}\\.o",
        Just("the same line again".to_owned()),
        "[a-z ]{0,8}(error|warning|FAILED|panicked|expected|cannot)[a-z :]{0,9}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // An error line is only omitted as a repetition of an identical line, which stays.
    #[test]
    fn a_line_that_complains_is_never_lost(
        lines in proptest::collection::vec(line(), 10..80),
        command in prop_oneof![
            Just("cargo test"), Just("make"), Just("npm test"), Just("go test ./..."), Just("git status"), Just("ls")
        ],
    ) {
        let text = lines.join("\n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = runtime.block_on(async { Bench::new().result("shell", command, &text).await });
        let kept: Vec<&str> = result.lines().collect();
        for line in text.lines().filter(|line| ["error", "warning", "FAILED", "panicked", "expected", "cannot"].iter().any(|word| line.contains(word))) {
            prop_assert!(kept.contains(&line), "{line:?} of\n{text}\nis gone from\n{result}");
        }
        for line in kept.iter().filter(|line| !line.starts_with('[')) {
            prop_assert!(text.lines().any(|one| one == *line), "{line:?} was never printed");
        }
    }
}

/// Project whose script prints the output of a test run: 200 KB, with a failure early in it.
fn failing_desk() -> Desk {
    let desk = Desk::new();
    desk.bus.install(&Compress::new()).unwrap();
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let passed: String = (0..6_000).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    desk.put(
        "log",
        format!("test module::early ... FAILED\n{passed}test result: FAILED. 6000 passed; 1 failed\n"),
    );
    desk.put("cargo", "#!/bin/sh\ncat log\nexit 101\n");
    desk.put(
        "other.log",
        format!("error: the disk is full\n{}", "nothing that a rule knows\nor else\n".repeat(6_000)),
    );
    desk
}

#[tokio::test]
async fn an_early_failure_in_a_long_output_is_still_there() {
    let desk = failing_desk();
    let result = desk.whole("shell", json!({ "command": "cargo() { sh ./cargo; }\ncargo test" })).await;
    assert!(
        result.starts_with("test module::early ... FAILED\n[… 5999 lines left out: passed tests]\n"),
        "{result}"
    );
    assert!(result.contains("test result: FAILED") && result.contains("(exit 101, "), "{result}");
    let note = result.lines().last().unwrap();
    assert!(note.contains("; the whole of it is in "), "{note}");
    let path = note.split(" is in ").nth(1).unwrap().split("; `").next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), desk.get("log"));
    assert_eq!(std::fs::read_dir(desk.root.join("outputs")).unwrap().count(), 1, "it is kept once");
    // Output that no rule shortens keeps its end, and earlier errors.
    let result = desk.whole("shell", json!({ "command": "cat other.log" })).await;
    assert!(result.starts_with("error: the disk is full\n[… "), "{result}");
    assert!(result.len() < 33 * 1024 && result.contains("or else\n(exit 0, "), "{}", result.len());
}

#[tokio::test]
async fn the_output_of_a_background_command_is_made_shorter_too() {
    let desk = failing_desk();
    let args = json!({ "command": "cargo() { head -500 log; }\ncargo test", "background": true });
    desk.whole("shell", args).await;
    let result = desk.whole("jobs", json!({ "action": "wait", "id": "job-1" })).await;
    assert!(
        result.starts_with("test module::early ... FAILED\n[… 498 lines left out: passed tests]\n"),
        "{result}"
    );
    assert!(result.contains("(job-1: exit 0 after ") && result.contains("; this part is in "), "{result}");
}
