//! Connections of single commands in the sandbox, for which a person is asked.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;
use zk_testkit::{CountingHost, FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Starts a model that runs `command` once, and then repeats the result.
pub(crate) fn wants(command: &str) -> FakeServer {
    let args = json!({ "command": command });
    server(Script::answering(move |asked| match asked.messages.len() {
        1 => Turn::new().call("shell", args.clone()),
        _ => {
            Turn::new().text(format!("Told: {}.", asked.result_of("shell").map_or(String::new(), |r| r.text)))
        }
    }))
}

/// A repository as a web server without git has it.
fn repository_host() -> CountingHost {
    CountingHost::start(|mut stream| {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).unwrap();
        let asked = String::from_utf8_lossy(&head[..read]).into_owned();
        let body = if asked.contains("/info/refs") {
            format!("{}\trefs/heads/greeting\n", "1".repeat(40))
        } else {
            "greeting\n".to_owned()
        };
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let _ = stream.write_all(answer.as_bytes());
    })
    .unwrap()
}

/// Person whose commands run in the sandbox; `None` on a machine without one.
pub(crate) fn sandboxed(server: &FakeServer) -> Option<Person> {
    let person = Person::asking(server).with("ZK_CONTEXT", "sandbox");
    let told = person.run(&["doctor"]).stdout;
    if told.contains("mode auto, commands run in the sandbox") {
        return Some(person);
    }
    println!("skipped: there is no sandbox here: {told}");
    None
}

/// Answers the question about the one call with yes, and gives back the question.
pub(crate) fn agree(person: &Person, args: &str) -> Option<String> {
    let mut terminal = Terminal::open(person, args)?;
    let shown = terminal.until("y  Yes");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    Some(shown + &end(terminal))
}

/// Ends the program once the model has told of its call, and returns what came up to there.
pub(crate) fn end(mut terminal: Terminal) -> String {
    let told = terminal.until("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    told
}

#[test]
fn a_command_reaches_the_hosts_it_names_once_a_person_agreed_and_nobody_else() {
    let host = repository_host();
    let port = host.port();
    for command in [
        format!("curl -sS http://127.0.0.1:{port}/x"),
        format!("git ls-remote http://127.0.0.1:{port}/x.git"),
    ] {
        let server = wants(&command);
        let Some(person) = sandboxed(&server) else { return };
        let asked = person.run(&["policy", "test", &command]).stdout;
        let named = format!("it would run in the sandbox, connected to 127.0.0.1:{port}");
        assert!(asked.starts_with("ask (mode auto)") && asked.contains(&named), "{asked}");
        let before = host.connections();
        for refused in [&["-p", "go"][..], &["-p", "--permission-mode", "read-only", "go"]] {
            let ended = person.run(refused);
            assert!(!ended.stdout.contains("greeting"), "{refused:?}: {}", ended.stdout);
        }
        assert_eq!(host.connections(), before, "nobody agreed");
        // In the mode that asks about nothing the sandbox stays, and lets it through.
        let ended = person.run(&["-p", "--permission-mode", "all", "go"]);
        assert!(ended.stdout.contains("greeting"), "{}{}", ended.stdout, ended.stderr);
        for mode in ["auto", "ask", "accept-edits"] {
            let before = host.connections();
            let Some(shown) = agree(&person, &format!("--permission-mode {mode} 'go'")) else { return };
            assert!(host.connections() > before && shown.contains(&format!("127.0.0.1:{port}")), "{shown}");
        }
    }
}

#[test]
fn a_host_that_a_command_does_not_name_is_refused_by_its_name_with_what_to_do() {
    let (named, other) = (repository_host(), repository_host());
    let (named, other_port) = (named.port(), other.port());
    // The second one is named in a file, where nobody reads it.
    let command = format!("curl -sS http://127.0.0.1:{named}/x && sh ./second.sh; exit 3");
    let server = wants(&command);
    let Some(person) = sandboxed(&server) else { return };
    person.write("second.sh", &format!("curl -sS http://127.0.0.1:{other_port}/y\n"));
    let ended = person.run(&["-p", "--permission-mode", "all", "go"]);
    let told = format!("connect to 127.0.0.1:{other_port}");
    assert!(ended.stdout.contains("greeting"), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains(&told) && ended.stdout.contains("name the host in the command"),
        "{}",
        ended.stdout
    );
    assert_eq!(other.connections(), 0);
}

#[test]
fn the_model_is_told_what_the_sandbox_allows() {
    let server = wants("true");
    let Some(person) = sandboxed(&server) else { return };
    person.run(&["-p", "go"]);
    let sent = server.bodies().first().map(ToString::to_string).unwrap_or_default();
    assert!(sent.contains("Runs in a sandbox: writes only to the project and /tmp"), "{sent}");
    assert!(sent.contains("there is no network, and what one command names"), "{sent}");
    // Nothing is said of a sandbox where none holds commands.
    let person = Person::asking(&server);
    person.run(&["-p", "--context", "process", "go"]);
    let sent = server.bodies().last().map(ToString::to_string).unwrap_or_default();
    assert!(!sent.contains("Runs in a sandbox"), "{sent}");
}

#[test]
fn a_command_that_needs_credentials_is_asked_about_as_one_outside_of_the_sandbox() {
    let server = wants("ssh -o BatchMode=yes nobody@127.0.0.1 true");
    let Some(person) = sandboxed(&server) else { return };
    for command in ["gh pr list", "git push git@example.org:a/b.git", "npm publish"] {
        let told = person.run(&["policy", "test", command]).stdout;
        assert!(told.starts_with("ask (mode auto)"), "{told}");
        assert!(told.contains("it would run in a process of yours, outside of the sandbox"), "{told}");
    }
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let shown = terminal.until("y  Yes");
    assert!(shown.contains("credentials of yours, which the sandbox hides"), "{shown}");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("n");
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}
