//! Hosts of the Agent SDK's protocol, with the real program at the other end of their pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use zk_testkit::Script;

use crate::zk::{LONG, Person, program, server};

/// Host of the Agent SDK's protocol, which starts the program and reads its lines.
pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    pub(crate) seen: Vec<Value>,
}

impl Host {
    pub(crate) fn start(person: &Person, args: &[&str]) -> Self {
        let head: [&str; 3] = ["--output-format", "stream-json", "--verbose"];
        Self::begin(person, &[&head, args, &["--input-format", "stream-json"]].concat())
    }

    /// Starts the program with all of its arguments.
    pub(crate) fn begin(person: &Person, all: &[&str]) -> Self {
        let mut child = person.spawn(program(), all, Stdio::piped());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        Self { stdin: child.stdin.take(), child, lines, seen: Vec::new() }
    }

    pub(crate) fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn initialize(&mut self, mut request: Value) -> Value {
        request["subtype"] = "initialize".into();
        self.send(&json!({"type": "control_request", "request_id": "req_1", "request": request}));
        self.until(|line| line["type"] == "control_response" && line["response"]["request_id"] == "req_1")
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null}));
    }

    /// Answers a request of the program.
    #[expect(clippy::needless_pass_by_value, reason = "a call reads like its message")]
    pub(crate) fn answer(&mut self, request: &Value, response: Value) {
        let id = request["request_id"].clone();
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        self.send(&json!({"type": "control_response", "response": response}));
    }

    /// Reads up to the next line that `is_wanted` accepts.
    pub(crate) fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line =
                self.lines.recv_timeout(LONG).unwrap_or_else(|_| panic!("no such line: {:#?}", self.seen));
            self.seen.push(line.clone());
            if is_wanted(&line) {
                return line;
            }
        }
    }

    /// Returns the first line that `is_wanted` accepts, among those read before or still to come.
    pub(crate) fn find(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let found = self.seen.iter().find(|line| is_wanted(line)).cloned();
        found.unwrap_or_else(|| self.until(is_wanted))
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Closes the input; returns every line and the exit code.
    pub(crate) fn rest(mut self) -> (Vec<Value>, i32) {
        self.stdin = None;
        while let Ok(line) = self.lines.recv_timeout(LONG) {
            self.seen.push(line);
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (self.seen, code)
    }

    pub(crate) fn request(&mut self, subtype: &str) -> Value {
        self.until(|line| line["type"] == "control_request" && line["request"]["subtype"] == subtype)
    }

    pub(crate) fn result(&mut self) -> Value {
        self.until(|line| line["type"] == "result")
    }

    /// Closes the input; returns the exit code and standard error.
    pub(crate) fn end(mut self) -> (i32, String) {
        self.stdin = None;
        let output = self.child.wait_with_output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(crate) fn tool_result(&self) -> &Value {
        let results = self.seen.iter().rev().find(|line| line["type"] == "user");
        &results.unwrap()["message"]["content"][0]
    }
}

pub(crate) fn touching(file: &str) -> Script {
    Script::new()
        .turn(|turn| {
            turn.call_as(
                "toolu_1",
                "Bash",
                json!({"command": format!("touch {file}"), "description": "make"}),
            )
        })
        .turn(|turn| turn.text("Done."))
}

#[test]
fn a_prompt_is_answered_with_a_first_line_an_answer_and_a_result() {
    let server = server(Script::new().turn(|turn| turn.text("Hello.")).turn(|turn| turn.text("Again.")));
    let person = Person::asking(&server);
    let mut host = Host::start(&person, &["--system-prompt", ""]);
    let welcome = host.initialize(json!({"hooks": null}));
    assert_eq!(welcome["response"]["subtype"], "success");
    host.prompt("Hi.");
    let result = host.result();
    let kinds: Vec<(String, String)> = host
        .seen
        .iter()
        .skip(1)
        .map(|line| (line["type"].to_string(), line["subtype"].to_string()))
        .collect();
    assert_eq!(
        kinds.iter().map(|(kind, _)| kind.trim_matches('"')).collect::<Vec<_>>(),
        ["system", "assistant", "result"]
    );
    assert_eq!(host.seen[1]["subtype"], "init");
    let tools = host.seen[1]["tools"].as_array().unwrap();
    assert!(["Bash", "Read", "Write", "Agent"].iter().all(|name| tools.contains(&json!(name))), "{tools:?}");
    assert_eq!(
        (&result["subtype"], &result["result"], &result["is_error"]),
        (&json!("success"), &json!("Hello."), &json!(false))
    );
    assert_eq!(result["session_id"], host.seen[1]["session_id"]);
    host.prompt("Hi again.");
    let second = host.result();
    assert_eq!((&second["result"], &second["session_id"]), (&json!("Again."), &result["session_id"]));
    assert_eq!(host.end(), (0, String::new()));
    let offered = server.bodies()[0]["tools"].to_string();
    assert!(offered.contains("\"Bash\"") && !offered.contains("\"shell\""), "{offered}");
}

#[test]
fn a_host_allows_changes_and_refuses_calls() {
    let allow = |input: Option<&str>| match input {
        Some(command) => json!({"behavior": "allow", "updatedInput": {"command": command}}),
        None => json!({"behavior": "allow"}),
    };
    for (answer, made, said) in [
        (allow(None), Some("a.txt"), ""),
        (allow(Some("touch b.txt")), Some("b.txt"), ""),
        (json!({"behavior": "deny", "message": "not here"}), None, "not here"),
    ] {
        let server = server(touching("a.txt"));
        let person = Person::asking(&server);
        let mut host = Host::start(&person, &["--permission-prompt-tool", "stdio"]);
        host.initialize(json!({}));
        host.prompt("Go.");
        let asked = host.request("can_use_tool");
        assert_eq!(asked["request"]["tool_name"], "Bash");
        assert_eq!(asked["request"]["tool_use_id"], "toolu_1");
        assert_eq!(asked["request"]["input"], json!({"command": "touch a.txt", "description": "make"}));
        host.answer(&asked, answer);
        let result = host.result();
        assert_eq!(result["subtype"], "success");
        let denials = result["permission_denials"].as_array().unwrap().len();
        assert_eq!(denials, usize::from(made.is_none()), "{result}");
        for file in ["a.txt", "b.txt"] {
            assert_eq!(person.project().join(file).exists(), made == Some(file), "{file}");
        }
        if made.is_none() {
            assert_eq!(
                (&host.tool_result()["content"], &host.tool_result()["is_error"]),
                (&json!(said), &json!(true))
            );
        }
        assert_eq!(host.end().0, 0);
    }
}

#[test]
fn a_rule_that_forbids_wins_over_a_host_that_changes_a_call() {
    let server = server(touching("a.txt"));
    let person = Person::asking(&server);
    person.settings("[permissions]\ndeny = [\"touch b.txt\"]\n");
    let mut host = Host::start(&person, &["--permission-prompt-tool", "stdio"]);
    host.initialize(json!({}));
    host.prompt("Go.");
    let asked = host.request("can_use_tool");
    host.answer(&asked, json!({"behavior": "allow", "updatedInput": {"command": "touch b.txt"}}));
    host.result();
    assert!(!person.project().join("a.txt").exists() && !person.project().join("b.txt").exists());
    assert_eq!(host.tool_result()["is_error"], true);
    host.end();
}

#[test]
fn an_interrupt_takes_back_what_was_asked_and_ends_the_turn() {
    let server = server(touching("a.txt"));
    let person = Person::asking(&server);
    let mut host = Host::start(&person, &["--permission-prompt-tool", "stdio"]);
    host.initialize(json!({}));
    host.prompt("Go.");
    let asked = host.request("can_use_tool");
    host.send(&json!({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}}));
    let taken = host.until(|line| line["type"] == "control_cancel_request");
    assert_eq!(taken["request_id"], asked["request_id"]);
    let heard = host.until(|line| line["type"] == "control_response");
    assert_eq!(heard["response"]["response"], json!({"still_queued": []}));
    let result = host.result();
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_during_execution"), &json!("aborted_tools"))
    );
    assert!(!person.project().join("a.txt").exists());
    assert_eq!(host.end().0, 1);
}

#[test]
fn callbacks_are_hooks_with_the_names_of_the_sdk() {
    let server = server(touching("a.txt"));
    let person = Person::asking(&server);
    let mut host = Host::start(&person, &["--allowedTools", "Bash"]);
    host.initialize(json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}]}}));
    host.prompt("Go.");
    let asked = host.request("hook_callback");
    let input = &asked["request"]["input"];
    assert_eq!((&input["hook_event_name"], &input["tool_name"]), (&json!("PreToolUse"), &json!("Bash")));
    assert_eq!(input["tool_input"], json!({"command": "touch a.txt", "description": "make"}));
    let no = json!({"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not today"});
    host.answer(&asked, json!({"hookSpecificOutput": no}));
    host.result();
    assert!(host.tool_result()["content"].to_string().contains("not today"));
    assert!(!person.project().join("a.txt").exists());
    host.end();
}

#[test]
fn tools_of_the_host_are_called_by_messages_within_the_protocol() {
    let script = Script::new()
        .turn(|turn| turn.call_as("toolu_1", "mcp__own__add", json!({"a": 1})))
        .turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let config = r#"{"mcpServers":{"own":{"type":"sdk","name":"own"}}}"#;
    let mut host = Host::start(&person, &["--mcp-config", config, "--allowedTools", "mcp__own__add"]);
    let tool = json!({"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}});
    let manifest = json!({"own": {"initializeResult": {}, "toolsListResult": {"tools": [tool]}}});
    host.initialize(json!({"sdkMcpServers": ["own"], "sdkMcpServerManifests": manifest}));
    host.prompt("Go.");
    let asked = host.request("mcp_message");
    let message = &asked["request"]["message"];
    assert_eq!((&message["method"], &message["params"]["name"]), (&json!("tools/call"), &json!("add")));
    assert_eq!(message["params"]["arguments"], json!({"a": 1}));
    let result = json!({"content": [{"type": "text", "text": "two"}]});
    host.answer(&asked, json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}));
    assert_eq!(host.result()["subtype"], "success");
    assert_eq!(host.tool_result()["content"], "two");
    assert_eq!(host.end().0, 0);
}

#[test]
fn a_session_goes_on_by_its_id_and_an_unknown_one_is_told() {
    let server = server(
        Script::new()
            .turn(|turn| turn.text("one"))
            .turn(|turn| turn.text("two"))
            .turn(|turn| turn.text("three")),
    );
    let person = Person::asking(&server);
    let mut ids = Vec::new();
    for args in [vec![], vec!["resume"], vec!["resume", "fork"]] {
        let resume = ids.first().map(|id: &String| format!("--resume={id}"));
        let mut flags: Vec<&str> =
            resume.as_deref().filter(|_| args.contains(&"resume")).into_iter().collect();
        flags.extend(args.contains(&"fork").then_some("--fork-session"));
        let mut host = Host::start(&person, &flags);
        host.initialize(json!({}));
        host.prompt("Go.");
        ids.push(host.result()["session_id"].as_str().unwrap().to_owned());
        assert_eq!(host.end().0, 0);
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    let mut host = Host::start(&person, &["--resume=11111111-2222-3333-4444-555555555555"]);
    host.send(
        &json!({"type": "control_request", "request_id": "req_1", "request": {"subtype": "initialize"}}),
    );
    let result = host.result();
    assert!(
        result["errors"][0].as_str().unwrap().starts_with("No conversation found with session ID"),
        "{result}"
    );
    assert_eq!(host.end().0, 1);
}

#[test]
fn limits_and_errors_have_their_own_results() {
    let calling = || Script::new().turn(|turn| turn.call("Bash", json!({"command": "echo hi"})));
    let server_of_limit = server(calling());
    let person = Person::asking(&server_of_limit);
    let mut host = Host::start(&person, &["--max-turns", "1"]);
    host.prompt("Go.");
    let result = host.result();
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_max_turns"), &json!("max_turns"))
    );
    assert_eq!(host.end().0, 1);
    let script = Script::new().turn(|turn| turn.call("StructuredOutput", json!({"n": 4})));
    let server_of_schema = server(script);
    let person = Person::asking(&server_of_schema);
    let schema = r#"{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}"#;
    let mut host = Host::start(&person, &["--json-schema", schema]);
    host.prompt("Go.");
    assert_eq!(host.result()["structured_output"], json!({"n": 4}));
    assert_eq!(host.end().0, 0);
}

#[test]
fn a_line_that_is_none_of_the_protocol_ends_the_program_with_a_word() {
    let person = Person::new();
    let mut host = Host::start(&person, &[]);
    writeln!(host.stdin.as_mut().unwrap(), "hello").unwrap();
    let (code, stderr) = host.end();
    assert_eq!(code, 1);
    assert!(stderr.contains("cannot read a line of the SDK host"), "{stderr}");
}
