//! Keys stay where they are.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use zk_testkit::{Script, Turn};

use crate::sessions::walk;
use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

// Root may read everything: the program runs as somebody else here, and a command that it starts looks for the key in
// every process it can see.
#[test]
fn a_command_finds_no_key_in_the_environment_or_memory_of_any_process() {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !setpriv.exists() {
        println!("skipped: only root with {} can become somebody else", setpriv.display());
        return;
    }
    // Opening is what the system decides about: reading at 0 fails for everybody.
    let look = "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; (: <$p/mem) && echo \"open: $(cat $p/comm)\"; \
                done 2>/dev/null; tr '\\0' '\\n' <\"/proc/$PPID/environ\" 2>&1; id -u";
    let script = Script::new().turn(|t| t.call("shell", json!({"command": look}))).turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::new()
        .with("ANTHROPIC_BASE_URL", &server.url())
        .with("ANTHROPIC_API_KEY", "canary-key-in-the-environment");
    // Everybody can read this copy.
    let copy = person.project().join("zk");
    std::fs::copy(program(), &copy).unwrap();
    for dir in person.project().ancestors().take(2).chain([person.home().as_path()]) {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let args = ["--reuid=65534", "--regid=65534", "--clear-groups", copy.to_str().unwrap()];
    let run = ["-p", "x", "--allow-all", "--output-format", "stream-json"];
    let all: Vec<&str> = args.into_iter().chain(run).collect();
    let output = person.spawn(setpriv, &all, Stdio::null()).wait_with_output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{seen}{}", String::from_utf8_lossy(&output.stderr));
    assert!(seen.contains("65534") && seen.contains("ermission denied"), "{seen}");
    assert!(!seen.contains("canary-key"), "{seen}");
    // The shell itself can be opened, so that the look is one.
    assert!(seen.contains("open: bash") && !seen.contains("open: zk"), "{seen}");
}

const KEY: &str = "correct-horse-battery";

#[test]
fn a_key_that_a_tool_reads_and_the_model_repeats_is_printed_in_no_format() {
    for format in ["text", "json", "stream-json"] {
        let script = Script::new()
            .turn(|t| t.call("read_file", json!({ "path": "sub/notes.txt" })))
            .turn(|t| t.chunks(["The key is corr", "ect-horse-bat", "tery."]));
        let server = server(script);
        let person = Person::asking(&server).with("LAB_TOKEN", KEY);
        for file in ["sub/notes.txt", "sub/AGENTS.md", "AGENTS.md"] {
            person.write(file, &format!("key: {KEY}\n"));
        }
        let ended = person.run(&["-p", "which key?", "--output-format", format]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let last = ended.stdout.lines().next_back().unwrap();
        assert!(last.contains("The key is [redacted]."), "{format}: {}", ended.stdout);
        assert!(!ended.stdout.contains(KEY), "{format}: {}", ended.stdout);
        let lines = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let deltas: String = lines
            .filter(|line| line["type"] == "stream:text")
            .map(|line| line["delta"].as_str().unwrap().to_owned())
            .collect();
        let sent: Vec<String> = server.bodies().iter().map(Value::to_string).collect();
        assert!(!sent.iter().any(|body| body.contains(KEY)), "{format}: {sent:?}");
        let last = sent.last().unwrap();
        assert_eq!(last.matches("key: [redacted]").count(), 3, "{format}: {last}");
        let streamed = if format == "stream-json" { "The key is [redacted]." } else { "" };
        assert_eq!(deltas, streamed, "{format}");
    }
}

#[test]
fn a_key_is_neither_in_the_session_nor_on_standard_error_whoever_says_it_and_however_it_is_cut() {
    let script = Script::new()
        .turn(|t| t.text(format!("I take {KEY}.")).call("read_file", json!({ "path": format!("{KEY}.txt") })))
        .turn(|t| t.chunks(["The key is corr", "ect-horse-bat", "tery."]));
    let server = server(script);
    let person = Person::asking(&server).with("LAB_TOKEN", KEY);
    let ended = person.run(&["-v", "-p", &format!("is {KEY} the key?")]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("I take [redacted]."), "{}", ended.stderr);
    assert!(!ended.stderr.contains(KEY), "{}", ended.stderr);
    assert_eq!(ended.stdout, "The key is [redacted].\n");
    let id = person.run(&["sessions"]).stdout.split_whitespace().next().unwrap().to_owned();
    let shown = person.run(&["sessions", "show", &id]).stdout;
    assert!(
        shown.contains("› is [redacted] the key?") && shown.contains("The key is [redacted]."),
        "{shown}"
    );
    for path in walk(&person.home()) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", path.display());
    }
    assert!(server.bodies().iter().any(|body| body.to_string().contains(KEY)), "the model was asked");
}

#[test]
fn a_key_that_a_command_of_the_person_prints_does_not_reach_the_model() {
    let server = server(Script::answering(|_| Turn::new().text("Fine.")));
    let person = Person::asking(&server).with("LAB_TOKEN", KEY);
    person.write("notes.txt", &format!("key: {KEY}\n"));
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("!cat notes.txt; printf %s correct-horse-; echo battery\r");
    terminal.expect("key: [redacted]");
    terminal.expect("› ");
    terminal.keys("go on\r");
    terminal.expect("Fine.");
    let sent: String = server.bodies().iter().map(Value::to_string).collect();
    assert!(sent.contains("key: [redacted]") && !sent.contains(KEY), "{sent}");
}

#[test]
fn a_password_in_a_base_url_is_shown_by_no_command() {
    let person = Person::new()
        .with("OPENAI_BASE_URL", "http://me:hunter2-password@127.0.0.1:1/v1")
        .with("OPENAI_API_KEY", "k");
    for args in [&["config", "show", "--origin"][..], &["doctor"]] {
        let ended = person.run(args);
        assert!(ended.stdout.contains("me:[redacted]@127.0.0.1"), "{args:?}: {}", ended.stdout);
        assert!(!format!("{}{}", ended.stdout, ended.stderr).contains("hunter2"), "{args:?}");
    }
}
