//! Conversations that an agent of another program answers.

use std::path::Path;

use zk_testkit::{FakeServer, Script};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, program};

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
