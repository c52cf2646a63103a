//! zk as an MCP server, by its own client and by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::Script;

use crate::zk::{Person, program, server};

const TOKEN: &str = "a-token-that-nobody-guesses";

/// Settings with zk itself as a server, started with `args` before `mcp serve`.
fn zk_as_server(person: &Person, args: &[&str], more: &[(&str, &str)]) {
    let home = person.home();
    let mut env = vec![
        ("HOME", home.to_str().unwrap()),
        ("ZK_HOME", home.to_str().unwrap()),
        ("ZK_CONTEXT", "process"),
    ];
    env.extend_from_slice(more);
    let env: Vec<String> = env.iter().map(|(name, value)| format!("{name} = {}", json!(value))).collect();
    let args: Vec<String> = args.iter().chain(&["mcp", "serve"]).map(|arg| json!(arg).to_string()).collect();
    person.settings(&format!(
        "[mcp.servers.zk]\ncommand = {}\nargs = [{}]\nenv = {{ {} }}\n",
        json!(program()),
        args.join(", "),
        env.join(", ")
    ));
}

fn write_call(person: &Person) -> String {
    json!({"path": person.project().join("made.txt"), "content": "made\n"}).to_string()
}

#[test]
fn tools_of_a_run_or_a_person_are_not_served() {
    let person = Person::new();
    zk_as_server(&person, &[], &[]);
    let servers = std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    person.settings(&format!(
        "[tools]\nprotocols = {{ \"small/*\" = \"lookup\" }}\n[plugins.context-window]\nrequest = true\n{servers}"
    ));
    let listed = person.run(&["mcp", "tools", "zk"]);
    assert!(
        listed.code == 0 && listed.stdout.contains("mcp_zk_read_file"),
        "{}{}",
        listed.stdout,
        listed.stderr
    );
    for tool in ["conversation_recall", "load_tools", "remember", "request_compaction", "todo_write"] {
        assert!(!listed.stdout.contains(tool), "{tool}: {}", listed.stdout);
    }
}

#[test]
fn the_tools_of_zk_are_served_under_its_permission_mode() {
    let person = Person::new();
    person.write("a.txt", "hello from a file\n");
    zk_as_server(&person, &[], &[]);
    let listed = person.run(&["mcp", "tools", "zk"]);
    assert_eq!(listed.code, 0, "{}{}", listed.stdout, listed.stderr);
    for tool in ["mcp_zk_read_file", "mcp_zk_shell", "mcp_zk_run"] {
        assert!(listed.stdout.contains(tool), "{tool}: {}", listed.stdout);
    }
    // The servers of the settings, this one itself among them, are not served again.
    assert!(!listed.stdout.contains("mcp_zk_mcp_"), "{}", listed.stdout);
    assert!(!listed.stdout.contains("conversation_recall"), "there is no conversation: {}", listed.stdout);
    let read = person.run(&["mcp", "call", "zk", "read_file", r#"{"path":"a.txt"}"#]);
    assert!(read.code == 0 && read.stdout.contains("hello from a file"), "{}{}", read.stdout, read.stderr);
    let wrong = person.run(&["mcp", "call", "zk", "read_file", r#"{"path":7.5e300}"#]);
    assert_eq!(wrong.code, 1, "{}", wrong.stdout);
    let written = person.run(&["mcp", "call", "zk", "write_file", &write_call(&person)]);
    assert_eq!(written.code, 1, "{}", written.stdout);
    assert!(!person.project().join("made.txt").exists(), "what asks is refused where nobody is");
    zk_as_server(&person, &["--permission-mode", "accept-edits"], &[]);
    let written = person.run(&["mcp", "call", "zk", "write_file", &write_call(&person)]);
    assert_eq!(written.code, 0, "{}{}", written.stdout, written.stderr);
    assert_eq!(std::fs::read_to_string(person.project().join("made.txt")).unwrap(), "made\n");
    // The record has the end of every call that ran.
    let records = crate::permission_modes::audit(&person);
    let of = |record: &str| {
        records
            .iter()
            .filter(|one| one["tool"] == "write_file" && one["record"] == record)
            .map(|one| (one["call"].clone(), one["is_error"].clone()))
            .collect::<Vec<_>>()
    };
    let ended = of("ended");
    assert_eq!((of("decided").len(), ended.len()), (2, 1), "{records:?}");
    assert_eq!(ended[0].1, json!(false), "{records:?}");
    assert_eq!(of("decided")[1].0, ended[0].0, "{records:?}");
}

#[test]
fn a_served_run_works_like_a_run_without_a_person_and_can_be_gone_on_with() {
    let script = Script::new()
        .turn(|turn| turn.call("write_file", json!({"path": "made.txt", "content": "x"})))
        .turn(|turn| turn.text("It was refused."))
        .turn(|turn| turn.text("As I said."));
    let models = server(script);
    let person = Person::new();
    zk_as_server(
        &person,
        &[],
        &[("ANTHROPIC_BASE_URL", &models.url()), ("ANTHROPIC_API_KEY", "test-key-of-the-served-zk")],
    );
    let first = person.run(&["mcp", "call", "zk", "run", r#"{"prompt":"make a file"}"#]);
    assert_eq!(first.code, 0, "{}{}", first.stdout, first.stderr);
    assert!(first.stdout.contains("It was refused."), "{}", first.stdout);
    assert!(!person.project().join("made.txt").exists());
    let sessions = person.run(&["sessions", "list"]);
    let id = sessions.stdout.split_whitespace().next().unwrap().to_owned();
    let again = json!({"prompt": "say it again", "session": id}).to_string();
    let second = person.run(&["mcp", "call", "zk", "run", &again]);
    assert!(second.stdout.contains("As I said."), "{}{}", second.stdout, second.stderr);
    assert!(models.bodies().last().unwrap()["messages"].to_string().contains("make a file"));
}

#[test]
fn a_served_run_goes_past_the_rules_before_anything_of_it_begins() {
    let models = server(Script::new().turn(|turn| turn.text("Never.")));
    let person = Person::new();
    let env = [("ANTHROPIC_BASE_URL", &*models.url()), ("ANTHROPIC_API_KEY", "test-key-of-the-served-zk")];
    person.write("rules.toml", "[permissions]\ndeny = [\"tool(run)\"]\n");
    zk_as_server(&person, &["--config", "rules.toml"], &env);
    let refused = person.run(&["mcp", "call", "zk", "run", r#"{"prompt":"make a file"}"#]);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(models.bodies().is_empty(), "no model was asked");
    let decided = crate::permission_modes::audit(&person);
    assert!(decided.iter().any(|one| one["record"] == "decided" && one["tool"] == "run"), "{decided:?}");
    let sessions = person.run(&["sessions", "list"]);
    assert!(!sessions.stdout.contains("make a file"), "{}", sessions.stdout);
}

/// The program as an HTTP server, ended when the test is.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(person: &Person) -> Self {
        let mut child = person.spawn(program(), &["mcp", "serve", "--http", "127.0.0.1:0"], Stdio::null());
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
        }
        let (_, url) = line.split_once("http://").unwrap();
        let address = url.trim().trim_end_matches("/mcp").to_owned();
        Self { child, address }
    }

    /// The status of a request with these headers.
    fn status(&self, headers: &[(&str, &str)]) -> u16 {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }})
        .to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        String::from_utf8_lossy(&head[9..]).parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn only_programs_of_this_machine_with_the_token_are_served_over_http() {
    let person = Person::new().with("ZK_MCP_TOKEN", TOKEN);
    let mut serving = Serving::start(&person);
    let own = serving.address.clone();
    let bearer = format!("Bearer {TOKEN}");
    let good = [("Host", own.as_str()), ("Authorization", bearer.as_str())];
    assert_eq!(serving.status(&good), 200);
    let with = |more: &[(&'static str, &'static str)]| [&good[..], more].concat();
    assert_eq!(serving.status(&with(&[("Origin", "http://localhost:5173")])), 200);
    assert_eq!(serving.status(&with(&[("Origin", "https://evil.example")])), 403);
    assert_eq!(serving.status(&with(&[("Origin", "http://localhost.evil.example")])), 403);
    assert_eq!(serving.status(&[("Host", "evil.example"), good[1]]), 403);
    assert_eq!(serving.status(&[good[0]]), 401);
    assert_eq!(serving.status(&[good[0], ("Authorization", "Bearer another-token-entirely")]), 401);
    person.write("a.txt", "over http\n");
    let client = Person::new();
    client.settings(&format!(
        "[mcp.servers.zk]\nurl = \"http://{own}/mcp\"\nheaders = {{ Authorization = \"{bearer}\" }}\n"
    ));
    let read = client.run(&["mcp", "call", "zk", "read_file", r#"{"path":"a.txt"}"#]);
    assert!(read.code == 0 && read.stdout.contains("over http"), "{}{}", read.stdout, read.stderr);
    kill_process(Pid::from_child(&serving.child), Signal::TERM).unwrap();
    assert_eq!(serving.child.wait().unwrap().code(), Some(143));
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let ended = Person::new().run(&["mcp", "serve", "--http", "0.0.0.0:0"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("only 127.0.0.1"), "{}", ended.stderr);
}
