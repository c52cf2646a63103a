//! Extensions: programs of settings files that take part in conversations.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Person, program, server, until};

/// An extension in shell with a gate and a tool; it writes its process id to `../pid`, and `said` to `../said`.
const SHELL: &str = r#"#!/bin/sh
echo $$ > ../pid; [ -f ../said ] || touch ../said
while IFS= read -r line; do
    id=${line#*'"id":'}; id=${id%%,*}
    case $line in
    *'"method":"hello"'*) result='{"protocol":"1.0","name":"shell","version":"1","register":{"asks":[{"event":"tool:gate"}]}}' ;;
    *out.txt*) result='{"decision":"refuse","reason":"not that file"}' ;;
    *'"id":'*) result=null ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the test looks for a program, and says so"
)]
fn runs(program: &str, args: &[&str]) -> bool {
    let found = Command::new(program).args(args).output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: no {program} for this");
    }
    found
}

/// A model that writes a file, and then says that it is done.
fn writing() -> Script {
    Script::new()
        .turn(|turn| turn.call("write_file", json!({"path": "out.txt", "content": "model"})))
        .turn(|turn| turn.text("Done."))
}

fn calling(tool: &'static str, args: serde_json::Value) -> Script {
    Script::new().turn(move |turn| turn.call(tool, args)).turn(|turn| turn.text("Done."))
}

#[test]
fn a_first_extension_is_written_tried_added_used_and_removed() {
    if !runs("python3", &["--version"]) {
        return;
    }
    let server = server(
        Script::new()
            .turn(|turn| turn.call("shell", json!({"command": "git push --force"})))
            .turn(|turn| turn.call("word_count", json!({"text": "one two three"})))
            .turn(|turn| turn.text("Done.")),
    );
    let person = Person::asking(&server);
    let written = person.run(&["ext", "new", "first", "--lang", "python"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let again = person.run(&["ext", "new", "first"]);
    assert!(again.code == 2 && again.stderr.contains("exists already"), "{}", again.stderr);
    let script = person.project().join("first/extension.py");
    let tried = person.run(&["ext", "test", "--", "python3", script.to_str().unwrap()]);
    for row in ["first 0.1.0, protocol 1.1", "ask       tool:gate", "command   shout", "tool      word_count"]
    {
        assert!(tried.stdout.contains(row), "{row}: {}{}", tried.stdout, tried.stderr);
    }
    let added = person.run(&["ext", "add", "first", "--", "python3", "first/extension.py"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    let listed = person.run(&["ext", "list"]).stdout;
    assert!(listed.contains("counts") && listed.contains(script.to_str().unwrap()), "{listed}");
    let called = person.run(&["ext", "test", "first", "--call", "word_count", "--args", r#"{"text":"a b"}"#]);
    assert_eq!(called.stdout.trim(), "2 words", "{}", called.stderr);
    let called = person.run(&["ext", "test", "first", "--call", "/shout", "--args", "hey"]);
    assert_eq!(called.stdout.trim(), "HEY!", "{}", called.stderr);

    let ended = person.run(&["-p", "Count, then push.", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("3 words") && told.contains("no force push here"), "{told}");

    assert_eq!(person.run(&["ext", "remove", "first"]).code, 0);
    assert!(person.run(&["ext", "list"]).stdout.contains("no extension is set up"));
}

#[test]
fn typescript_and_javascript_run_as_they_are() {
    if !runs("node", &["--version"]) {
        return;
    }
    let server = server(calling("roll", json!({"dice": 2})));
    let person = Person::asking(&server);
    let sdk = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-extensions/sdk");
    for file in ["examples/abilities.mjs", "typescript/zk-extension.mjs"] {
        let text = std::fs::read_to_string(sdk.join(file)).unwrap();
        person.write(file.rsplit('/').next().unwrap(), &text);
    }
    assert_eq!(person.run(&["ext", "add", "abilities", "--", "node", "abilities.mjs"]).code, 0);
    let ended = person.run(&["-p", "Roll.", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let body = server.bodies().last().unwrap().clone();
    assert!(body["messages"].to_string().contains("three ones"), "{body}");
    assert!(body["system"].to_string().contains("Write tests first."), "{body}");
}

#[test]
fn an_extension_that_does_not_start_refuses_calls_unless_it_guards_nothing() {
    for (guards, is_written) in [("", false), ("guards = false\n", true)] {
        let server = server(writing());
        let person = Person::asking(&server);
        person.settings(&format!("[[extensions]]\nname = \"broken\"\ncommand = [\"false\"]\n{guards}"));
        let ended = person.run(&["-p", "Write it.", "--allow-all"]);
        assert_eq!(person.project().join("out.txt").exists(), is_written, "{}", ended.stderr);
        assert!(ended.stderr.contains("extension `broken`: it does not run"), "{}", ended.stderr);
        let told = server.bodies().last().unwrap()["messages"].to_string();
        assert_eq!(told.contains("extension `broken` does not run"), !is_written, "{told}");
    }
}

#[test]
fn an_extension_of_a_project_runs_once_exactly_it_is_trusted() {
    let first = server(writing());
    let person = Person::asking(&first);
    let settings = "[[extensions]]\nname = \"shell\"\ncommand = [\"sh\", \"ext/shell.sh\"]\n";
    person.write(".zk/settings.toml", settings).write("ext/shell.sh", SHELL).write("ext/beside.sh", "1");
    let paths = [person.project().join("../said"), person.project().join("out.txt")];
    let has_run = || paths.iter().any(|path| path.exists());
    let ended = person.run(&["-p", "Write it.", "--allow-all"]);
    assert!(ended.stderr.contains("wants to start an extension of zk: shell"), "{}", ended.stderr);
    assert!(!person.project().join("../said").exists());
    std::fs::remove_file(person.project().join("out.txt")).unwrap();
    let shown = person.run(&["trust"]).stdout;
    assert!(shown.contains("ext/shell.sh") && shown.contains("ext/beside.sh"), "{shown}");
    assert!(person.run(&["ext", "list"]).stdout.contains("not trusted"));
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let second = zk_testkit::FakeServer::start(writing()).unwrap();
    let person = person.with("ANTHROPIC_BASE_URL", &second.url());
    let ended = person.run(&["-p", "Write it.", "--allow-all"]);
    if ended.stderr.contains("extensions of the project are not started") {
        println!("skipped: no sandbox here: {}", ended.stderr);
        return;
    }
    let told = second.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("not that file"), "{told}\n{}", ended.stderr);
    // The sandbox lets it write nothing outside of the project.
    assert!(!has_run(), "{}", ended.stderr);
    person.write("ext/beside.sh", "2");
    let third = zk_testkit::FakeServer::start(writing()).unwrap();
    let person = person.with("ANTHROPIC_BASE_URL", &third.url());
    let ended = person.run(&["-p", "Write it.", "--allow-all"]);
    assert!(ended.stderr.contains("wants to start an extension"), "{}", ended.stderr);
    assert!(!third.bodies().last().unwrap()["messages"].to_string().contains("not that file"));
}

#[test]
fn what_a_project_cannot_have_approved_is_said_and_not_started() {
    let person = Person::new();
    person.write("main.sh", "").write("ext/main.sh", "");
    for (command, said) in
        [(r#"["sh", "main.sh"]"#, "root of the project"), (r#"["no-such-program-x"]"#, "is not there")]
    {
        person.write(".zk/settings.toml", &format!("[[extensions]]\nname = \"x\"\ncommand = {command}\n"));
        let ended = person.run(&["ext", "list"]);
        assert!(ended.stderr.contains(said), "{command}: {}", ended.stderr);
    }
    for (entry, said) in [
        ("name = \"x\"\ncommand = [\"npx\", \"x@1.2.3\"]", "nobody can approve by its bytes"),
        ("name = \"x\"\ncomand = [\"x\"]", "unknown field `comand`"),
    ] {
        person.write(".zk/settings.toml", &format!("[[extensions]]\n{entry}\n"));
        let ended = person.run(&["ext", "list"]);
        assert!(ended.code == 2 && ended.stderr.contains(said), "{entry}: {}", ended.stderr);
    }
}

#[test]
fn an_extension_ends_with_zk_however_zk_ends() {
    let server = server(Script::new().turn(|turn| turn.hang()));
    let person = Person::asking(&server);
    person.write("ext/shell.sh", SHELL);
    person.settings("[[extensions]]\nname = \"shell\"\ncommand = [\"sh\", \"ext/shell.sh\"]\n");
    let mut child = person.spawn(program(), &["-p", "Say hi.", "--allow-all"], Stdio::piped());
    let pid = person.project().join("../pid");
    until("the extension runs", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let pid = std::fs::read_to_string(pid).unwrap();
    until("it ended", || !std::path::Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn standard_error_of_an_extension_is_kept_without_keys() {
    let server = server(Script::new().turn(|turn| turn.text("Hi.")));
    let person = Person::asking(&server);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol":"1.0"}}"#;
    let command = format!("echo key $KEY >&2; env > ../env; read line; echo '{answer}'; cat > /dev/null");
    person.settings(&format!(
        "[[extensions]]\nname = \"loud\"\ncommand = [\"sh\", \"-c\", '''{command}''']\nenv = {{ KEY = \"sk-very-secret-value-1234\" }}\n"
    ));
    let ended = person.run(&["-p", "Hi.", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let log = person.run(&["ext", "logs", "loud"]).stdout;
    assert!(log.contains("key ") && !log.contains("very-secret"), "{log}");
    let env = std::fs::read_to_string(person.project().join("../env")).unwrap();
    assert!(!env.contains("ANTHROPIC") && env.contains("ZK_PROJECT_DIR"), "{env}");
}

#[test]
fn a_background_task_of_an_extension_begins_a_run() {
    if !runs("python3", &["--version"]) {
        return;
    }
    let server = server(Script::new().turn(|turn| turn.text("The build is green again.")));
    let person = Person::asking(&server);
    let sdk =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-extensions/sdk/python/zk_extension.py");
    person.write("zk_extension.py", &std::fs::read_to_string(sdk).unwrap());
    person.write(
        "ci.py",
        "import os, time\nfrom zk_extension import Extension\next = Extension('ci')\n\n\n@ext.start\ndef watch():\n    \
         while not os.path.exists('green'):\n        time.sleep(0.01)\n    ext.deliver('CI is green.')\n\n\next.run()\n",
    );
    assert_eq!(person.run(&["ext", "add", "ci", "--", "python3", "ci.py"]).code, 0);
    let person = person.with("ZK_SCREEN", "inline");
    let Some(mut terminal) = Terminal::open(&person, "--allow-all") else { return };
    terminal.expect("›");
    person.write("green", "");
    terminal.expect("The build is green again.");
    assert!(server.bodies()[0]["messages"].to_string().contains("CI is green."));
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

/// The example of a backend in Python, added as the extension `counter`.
#[expect(clippy::unwrap_used, reason = "it is a part of a test")]
fn counter(person: &Person) {
    let sdk = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-extensions/sdk");
    for (file, name) in [("python/zk_extension.py", "zk_extension.py"), ("examples/backend.py", "backend.py")]
    {
        person.write(name, &std::fs::read_to_string(sdk.join(file)).unwrap());
    }
    person.write("three.txt", "1\n2\n3\n");
    assert_eq!(person.run(&["ext", "add", "counter", "--", "python3", "backend.py"]).code, 0);
}

#[test]
fn an_agent_of_an_extension_answers_without_a_key_and_its_session_goes_on() {
    if !runs("python3", &["--version"]) {
        return;
    }
    let person = Person::new();
    counter(&person);
    let settings = std::fs::read_to_string(person.home().join("settings.toml")).unwrap_or_default();
    person.settings(&format!("{settings}\n[backend]\ndefault = \"counter\"\n"));
    let ended = person.run(&["-p", "count three.txt"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "Counted: 3"), "{}", ended.stderr);
    assert!(ended.stderr.contains("pass zk's permissions"), "{}", ended.stderr);
    let ended = person.run(&["-p", "--continue", "count gone.txt"]);
    assert!(ended.stdout.contains("It cannot be counted"), "{} {}", ended.stdout, ended.stderr);
    // A deny rule holds for what the agent wants run.
    let ended = person.run(&["-p", "count three.txt", "--disallowed-tools", "shell"]);
    assert!(ended.stdout.contains("It cannot be counted"), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(person.run(&["ext", "remove", "counter"]).code, 0);
    let ended = person.run(&["-p", "count three.txt"]);
    assert!(ended.code == 2 && ended.stderr.contains("[backends.counter]"), "{}", ended.stderr);
}

#[test]
fn an_agent_of_an_extension_is_chosen_in_a_conversation_and_left_again() {
    if !runs("python3", &["--version"]) {
        return;
    }
    let server = server(Script::new().turn(|turn| turn.text("The model is back.")));
    let person = Person::asking(&server);
    counter(&person);
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/backend counter\r");
    terminal.expect("zk's permissions");
    terminal.expect("› ");
    terminal.keys("count three.txt\r");
    terminal.expect("Counted: 3");
    terminal.expect("› ");
    terminal.keys("/backend zk\r");
    terminal.expect("zk answers from the next prompt on");
    terminal.expect("› ");
    terminal.keys("and now?\r");
    terminal.expect("The model is back.");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.violations(), []);
    assert!(server.bodies()[0]["messages"].to_string().contains("Counted: 3"));
}
