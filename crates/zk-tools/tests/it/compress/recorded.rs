//! Outputs of the programs of this machine, recorded while the test runs: projects with faults at places that a seed
//! chooses are built, tested, listed and searched.

use std::path::Path;
use std::process::Stdio;

use fastrand::Rng;

use super::Bench;

/// Output of a program, with the lines that must be kept.
struct Recorded {
    command: &'static str,
    text: String,
    needed: fn(&str) -> bool,
}

/// Number of recorded outputs: `ZK_RECORDED_OUTPUTS`, by default a few of each kind, which takes seconds.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign")]
fn output_count() -> usize {
    std::env::var("ZK_RECORDED_OUTPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(5 * KINDS.len())
}

type Kind = fn(&Path, &mut Rng) -> Option<Recorded>;

/// The quick ones.
const KINDS: [Kind; 10] =
    [git_status, git_log, git_diff, list, find, grep, python_tests, node_tests, make_build, npm_install];

/// `cargo` takes a second or more for each.
const SLOW: [Kind; 2] = [cargo_build, cargo_test];

#[expect(clippy::disallowed_methods, reason = "real outputs come from real programs")]
fn run(dir: &Path, program: &str, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .env("CARGO_NET_OFFLINE", "true")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn recorded(command: &'static str, text: Option<String>, needed: fn(&str) -> bool) -> Option<Recorded> {
    text.filter(|text| !text.trim().is_empty()).map(|text| Recorded { command, text, needed })
}

/// A repository with some commits and a lock file.
fn repository(dir: &Path, rng: &mut Rng) -> Option<()> {
    run(dir, "git", &["init", "-q"])?;
    for number in 0..rng.usize(4..12) {
        put(dir, &format!("src/file{number}.txt"), &"a line\n".repeat(rng.usize(3..40)));
        put(dir, "Cargo.lock", &format!("[[package]]\nversion = \"{number}\"\n").repeat(rng.usize(5..60)));
        run(dir, "git", &["add", "-A"])?;
        let identity = ["-c", "user.name=A Person", "-c", "user.email=a@example.org"];
        let message = format!("fix number {number}");
        run(dir, "git", &[&identity[..], &["commit", "-q", "-m", &message]].concat())?;
    }
    Some(())
}

fn git_status(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    repository(dir, rng)?;
    for number in 0..rng.usize(3..30) {
        put(dir, &format!("new/untracked{number}.rs"), "x\n");
        put(dir, &format!("src/file{}.txt", number % 4), "changed\n");
    }
    let text = run(dir, "git", &["status", "--untracked-files=all"]);
    recorded("git status --untracked-files=all", text, |line| {
        line.contains(".rs") || line.contains("modified:")
    })
}

fn git_log(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    repository(dir, rng)?;
    recorded("git log", run(dir, "git", &["log"]), |line| {
        line.starts_with("commit ") || line.contains("fix number")
    })
}

fn git_diff(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    repository(dir, rng)?;
    for number in 0..rng.usize(1..4) {
        put(dir, &format!("src/file{number}.txt"), &format!("an unexpected line {number}\n").repeat(3));
    }
    put(dir, "Cargo.lock", &"other = 1\n".repeat(80));
    recorded("git diff", run(dir, "git", &["diff"]), |line| {
        line.starts_with("diff --git") || line.contains("an unexpected line") || line == "-a line"
    })
}

fn tree(dir: &Path, rng: &mut Rng) {
    for number in 0..rng.usize(10..60) {
        put(dir, &format!("src/part{}/module{number}.rs", number % 5), "fn needle() {}\n");
        put(dir, &format!("node_modules/package{number}/index.js",), "x\n");
        put(dir, &format!("target/debug/deps/dep{number}.d"), "x\n");
    }
}

fn list(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    tree(dir, rng);
    recorded("ls -R", run(dir, "ls", &["-R"]), |line| line.starts_with("module"))
}

fn find(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    tree(dir, rng);
    recorded("find . -type f", run(dir, "find", &[".", "-type", "f"]), |line| line.contains("/module"))
}

fn grep(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    tree(dir, rng);
    recorded("grep -rn needle src", run(dir, "grep", &["-rn", "needle", "src"]), |line| {
        line.contains("needle")
    })
}

/// Whether a line is needed to fix a failed test, for any test runner.
fn is_of_a_failure(line: &str) -> bool {
    [
        "wrong_", "FAIL", "failed", "panicked", "Error", "error", "assert", "left:", "right:", "expected",
        "not ok",
    ]
    .iter()
    .any(|word| line.contains(word))
}

fn python_tests(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let count = rng.usize(20..120);
    let (wrong, mut text) =
        (rng.usize(0..count), "import unittest\nclass T(unittest.TestCase):\n".to_owned());
    for number in 0..count {
        let (name, value) = if number == wrong { ("wrong", 2) } else { ("right", 1) };
        text.push_str(&format!(
            "    def test_{name}_{number}(self):\n        self.assertEqual({value}, 1)\n"
        ));
    }
    put(dir, "test_it.py", &text);
    let text = run(dir, "python3", &["-m", "unittest", "-v", "test_it"]);
    recorded("python3 -m unittest -v test_it", text, is_of_a_failure)
}

fn node_tests(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let count = rng.usize(20..120);
    let (wrong, mut text) = (
        rng.usize(0..count),
        String::from("const test = require('node:test');\nconst assert = require('assert');\n"),
    );
    for number in 0..count {
        let (name, value) = if number == wrong { ("wrong", 2) } else { ("right", 1) };
        text.push_str(&format!("test('{name}_{number}', () => assert.strictEqual({value}, 1));\n"));
    }
    put(dir, "a.test.js", &text);
    let reporter = if rng.bool() { "tap" } else { "spec" };
    let text = run(dir, "node", &["--test", &format!("--test-reporter={reporter}"), "a.test.js"]);
    recorded("node --test a.test.js", text, |line| line.contains("wrong_") || line.contains("strictEqual"))
}

fn make_build(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let count = rng.usize(8..30);
    let wrong = rng.usize(0..count);
    let mut makefile = String::from("all:");
    (0..count).for_each(|number| makefile.push_str(&format!(" f{number}.o")));
    makefile.push_str("\n%.o: %.c\n\tgcc -Wall -c $< -o $@\n");
    put(dir, "Makefile", &makefile);
    for number in 0..count {
        let body = if number == wrong { "return wrong_name;" } else { "int unused = 1; return 0;" };
        put(dir, &format!("f{number}.c"), &format!("int f{number}(void) {{ {body} }}\n"));
    }
    recorded("make -k all", run(dir, "make", &["-k", "all"]), |line| {
        line.contains("error")
            || line.contains("wrong_name")
            || line.contains("Error")
            || line.contains("warning")
    })
}

fn npm_install(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let missing = format!("./no-such-package-{}", rng.u16(..));
    put(
        dir,
        "package.json",
        &format!(
            "{{\"name\":\"a\",\"dependencies\":{{\"b\":\"file:{missing}\"}},\"scripts\":{{\"test\":\"node -e 'throw new Error(1)'\"}}}}"
        ),
    );
    recorded("npm test", run(dir, "npm", &["test", "--offline", "--no-audit"]), |line| line.contains("rror"))
}

fn crate_with(dir: &Path, lib: &str) {
    put(
        dir,
        "Cargo.toml",
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    put(dir, "src/lib.rs", lib);
}

fn cargo_build(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let count = rng.usize(5..30);
    let mut lib: String =
        (0..count).map(|number| format!("pub fn f{number}() {{ let unused_{number} = 1; }}\n")).collect();
    lib.push_str("pub fn g() -> u8 { \"wrong_type\" }\n");
    crate_with(dir, &lib);
    recorded("cargo build", run(dir, "cargo", &["build", "--offline"]), |line| {
        line.contains("error") || line.contains("-->") || line.contains("wrong_type") || line.contains('^')
    })
}

fn cargo_test(dir: &Path, rng: &mut Rng) -> Option<Recorded> {
    let count = rng.usize(20..150);
    let wrong = rng.usize(0..count);
    let tests: String = (0..count)
        .map(|number| {
            let (name, value) = if number == wrong { ("wrong", 2) } else { ("right", 1) };
            format!("#[test]\nfn {name}_{number}() {{ assert_eq!({value}, 1); }}\n")
        })
        .collect();
    crate_with(dir, &tests);
    recorded("cargo test", run(dir, "cargo", &["test", "--offline", "--lib"]), is_of_a_failure)
}

#[tokio::test]
async fn outputs_of_real_programs_keep_every_line_that_somebody_needs() {
    let bench = Bench::new();
    let wanted = output_count();
    let kinds: Vec<Kind> =
        if wanted > KINDS.len() { KINDS.iter().chain(&SLOW).copied().collect() } else { KINDS.to_vec() };
    let (mut before, mut after, mut count, mut absent) = (0, 0, 0, 0);
    for number in 0..wanted {
        let Some(kind) = kinds.get(number % kinds.len()) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&dir).unwrap();
        let Some(sample) = kind(&dir, &mut Rng::with_seed(number as u64)) else {
            absent += 1;
            continue;
        };
        let result = bench.result("shell", sample.command, &sample.text).await;
        let lines: Vec<&str> = result.lines().collect();
        for line in sample.text.lines().map(|line| line.trim_end_matches('\r')) {
            let is_there = lines.contains(&line) || line.contains('\u{1b}');
            assert!(
                !(sample.needed)(line) || is_there,
                "{number}, {}: {line:?} is gone from\n{result}",
                sample.command
            );
        }
        before += sample.text.len();
        after += result.len();
        count += 1;
    }
    println!(
        "{count} recorded outputs ({absent} of programs that are not here): {before} bytes became {after}, {:.1} % saved",
        100.0 - after as f64 * 100.0 / before.max(1) as f64
    );
    assert!(count > 0, "git, ls, find and grep are on every machine that builds this");
    assert!(
        after * 10 <= before * 9,
        "a tenth of what programs print is noise: {before} bytes became {after}"
    );
}
