//! Conversations that an agent of another program answers.

use std::path::Path;

use zk_testkit::{FakeServer, Script};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, program, until};

/// Settings with the scripted agent of `zk-backends`.
fn settings(default: &str) -> String {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-backends/tests/it/agent.py");
    format!(
        "[backends.tester]\nacp = [\"python3\", \"{}\"]\n\n[backend]\ndefault = \"{default}\"\n",
        agent.display()
    )
}

#[test]
fn a_backend_answers_a_prompt_without_a_key_and_its_session_goes_on() {
    let person = Person::new();
    person.settings(&settings("tester"));
    let ended = person.run(&["-p", "hello"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "You said: hello"), "{}", ended.stderr);
    assert!(ended.stderr.contains("its own permissions"), "{}", ended.stderr);
    let ended = person.run(&["-p", "--continue", "again"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "You said: again"), "{}", ended.stderr);
    let ended = person.run(&["-p", "run a command"]);
    assert!(ended.stdout.contains("The answer was no."), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn a_default_that_is_not_there_and_a_runner_without_a_version_are_told() {
    let person = Person::new();
    person.settings("[backend]\ndefault = \"nobody\"\n");
    let ended = person.run(&["-p", "hello"]);
    assert!(ended.code == 2 && ended.stderr.contains("[backends.nobody]"), "{}", ended.stderr);
    person.settings("[backends.x]\nacp = [\"npx\", \"-y\", \"agent\"]\n[backend]\ndefault = \"x\"\n");
    let ended = person.run(&["-p", "hello"]);
    assert!(ended.code == 2 && ended.stderr.contains("agent@1.2.3"), "{}", ended.stderr);
}

#[test]
fn a_backend_of_a_project_counts_once_its_file_is_trusted() {
    let server = FakeServer::start(Script::new().turn(|turn| turn.text("of zk"))).unwrap();
    let person = Person::asking(&server);
    person.write(".zk/settings.toml", &settings("tester"));
    let ended = person.run(&["-p", "hello"]);
    assert_eq!(ended.stdout.trim(), "of zk", "{}", ended.stderr);
    assert!(ended.stderr.contains("not trusted"), "{}", ended.stderr);
}

#[test]
fn backends_are_switched_in_a_conversation_and_back() {
    let server = counting();
    let person = Person::asking(&server);
    person.settings(&settings("zk"));
    let Some(mut terminal) = Terminal::open(&person, "'first question'") else { return };
    terminal.expect("Answer 1 to: first question");
    terminal.expect("› ");
    terminal.keys("/backend tester\r");
    terminal.expect("its own permissions");
    terminal.expect("its process ");
    terminal.expect("› ");
    terminal.keys("second\r");
    terminal.expect("This conversation began with another agent");
    terminal.expect("second");
    terminal.expect("› ");
    terminal.keys("/backend zk\r");
    terminal.expect("zk answers from the next prompt on");
    terminal.expect("› ");
    terminal.keys("third question\r");
    terminal.expect("to: third question");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.violations(), []);
}

#[test]
fn doctor_says_which_backends_start() {
    let person = Person::new();
    person.settings(&format!("{}\n[backends.gone]\nacp = [\"no-such-agent\"]\n", settings("tester")));
    let ended = person.run(&["doctor"]);
    assert!(ended.stdout.contains("ok    backend tester: tester 1.0 starts"), "{}", ended.stdout);
    assert!(ended.stdout.contains("warn  backend gone: cannot run `no-such-agent`"), "{}", ended.stdout);
}

#[test]
fn zk_answers_zk_through_the_protocol() {
    let server = counting();
    let person = Person::asking(&server);
    let help = person.run(&["--help"]).stdout;
    if !help.lines().any(|line| line.trim_start().starts_with("acp ")) {
        return println!("skipped: this zk is no agent of the Agent Client Protocol");
    }
    let inner = person.home().join("inner");
    std::fs::create_dir(&inner).unwrap();
    person.settings(&format!(
        "[backends.inner]\nacp = [\"{}\", \"acp\"]\nsandbox = false\n\
         env = {{ ZK_HOME = \"{}\", ANTHROPIC_API_KEY = \"test-key\", ANTHROPIC_BASE_URL = \"{}\" }}\n\n\
         [backend]\ndefault = \"inner\"\n",
        program().display(),
        inner.display(),
        server.url(),
    ));
    let ended = person.run(&["-p", "first question"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("to: first question"), "{}", ended.stdout);
    let ended = person.run(&["-p", "--continue", "second question"]);
    assert!(ended.stdout.contains("Answer 3 to: second question"), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(server.violations(), []);
}

/// The card of a question, and the rows of a drawn conversation with a command that is asked about and a second prompt.
#[expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is a part of a test, which says that it is skipped"
)]
fn card_and_rows(person: &Person) -> Option<(String, String)> {
    let tmux = Path::new("/usr/bin/tmux");
    if !tmux.exists() {
        println!("skipped: there is no {}", tmux.display());
        return None;
    }
    let socket = person.home().join("tmux").display().to_string();
    let run = |args: &[&str]| {
        let args: Vec<&str> = ["-S", &socket].into_iter().chain(args.iter().copied()).collect();
        let child = person.spawn(tmux, &args, std::process::Stdio::null());
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    };
    let zk = program().display().to_string();
    run(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "50", &zk]);
    let rows = || run(&["capture-pane", "-p", "-J", "-S", "-"]);
    let see = |what: &str| until(what, || rows().contains(what));
    see("›");
    run(&["send-keys", "make the file", "Enter"]);
    see("y  Yes");
    let card = rows();
    let begun = std::time::Instant::now();
    while !rows().contains("It is made.") {
        assert!(begun.elapsed() < crate::zk::LONG, "{}", rows());
        // A key that comes before the question hears answers is typed as a draft, which is emptied.
        for key in ["C-u", "y"] {
            run(&["send-keys", key]);
            std::thread::sleep(std::time::Duration::from_millis(700));
        }
    }
    see("2 turns");
    run(&["send-keys", "C-u"]);
    run(&["send-keys", "and now", "Enter"]);
    see("Nothing more.");
    see("1 turn ");
    let all = rows();
    run(&["kill-server"]);
    assert_eq!(std::fs::read_to_string(person.project().join("made.txt")).unwrap(), "made\n");
    Some((card, all))
}

/// Returns the rows from the first prompt to the last answer, without times and expected differences: the other agent's
/// permissions, its note about the sandbox, and its exit codes.
fn conversation(rows: &str) -> Vec<String> {
    assert!(rows.contains("› make the file"), "{rows}");
    let (_, rows) = rows.split_once("› make the file").unwrap_or_default();
    let is_told = |row: &&str| {
        let told = [
            "its own permissions",
            "tools of its own",
            "hold for that",
            "your permission mode",
            "without a card",
            "limits of zk",
            "runs as you",
        ];
        told.iter().any(|words| row.contains(words))
    };
    let plain = |row: &str| {
        let row = row.replace(", outside the sandbox", "").replace("no output", "").replace("lines", "");
        let is_word =
            |word: &&str| !word.chars().any(|c| c.is_ascii_digit()) && !["·", "s", "ms"].contains(word);
        row.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
    };
    let rows = rows.lines().take_while(|row| !row.starts_with('─'));
    let mut rows: Vec<String> = rows.filter(|row| !is_told(row)).map(plain).collect();
    rows.dedup();
    rows
}

fn work() -> Script {
    let command = serde_json::json!({"command": "echo made > made.txt"});
    Script::new()
        .turn(|turn| turn.text("I make it.").call("shell", command))
        .turn(|turn| turn.text("It is made."))
        .turn(|turn| turn.text("Nothing more."))
}

#[test]
fn one_conversation_looks_the_same_with_the_built_in_agent_and_with_another_one() {
    let server = crate::zk::server(work());
    let person = Person::asking(&server).with("ZK_SCREEN", "inline");
    let Some((own_card, own)) = card_and_rows(&person) else { return };
    let server = crate::zk::server(work());
    let person = Person::new().with("ZK_SCREEN", "inline");
    let inner = person.home().join("inner");
    std::fs::create_dir(&inner).unwrap();
    person.settings(&format!(
        "[backends.inner]\nacp = [\"{}\", \"acp\"]\nsandbox = false\n\
         env = {{ ZK_HOME = \"{}\", ZK_CONTEXT = \"process\", ANTHROPIC_API_KEY = \"test-key\", ANTHROPIC_BASE_URL = \"{}\" }}\n\n\
         [backend]\ndefault = \"inner\"\n",
        program().display(),
        inner.display(),
        server.url(),
    ));
    let Some((card, other)) = card_and_rows(&person) else { return };
    assert_eq!(conversation(&own), conversation(&other), "{own}\n{other}");
    for part in ["$ echo made > made.txt", "y  Yes", "n  No", "this session", "why it asks"] {
        assert!(own_card.contains(part) && card.contains(part), "{part}: {own_card}\n{card}");
    }
    // Expected differences.
    for part in ["agent: inner", "inner runs without a sandbox", "its own permissions"] {
        assert!(!own_card.contains(part) && card.contains(part), "{part}: {own_card}\n{card}");
    }
}
