//! `zk rpc`, driven by programs.

mod client;
mod clients;
mod dialogues;
mod refusals;

use std::process::Stdio;

use serde_json::{Value, json};
use zk_core::model::SessionId;
use zk_core::service::SessionStore;
use zk_session::SqliteStore;
use zk_testkit::{FakeServer, Script, Turn};
use zk_view::{CallState, Content, View, rebuild};

use self::client::{Client, Serving, agreed};
use crate::zk::{Person, program, server};

const SOCKET: [&str; 2] = ["--socket", "../home/run/zk.sock"];

fn attach(client: &mut Client, role: &str) -> Value {
    client.call("initialize", &json!({ "protocol_version": "1.0", "role": role })).unwrap()
}

/// Opens a conversation and follows it.
fn open(client: &mut Client) -> String {
    let opened = client.call("session/new", &json!({})).unwrap();
    let conversation = opened["conversation"].as_str().unwrap().to_owned();
    client.call("subscribe", &json!({ "conversation": conversation })).unwrap();
    conversation
}

/// Returns the first view snapshot that a new subscriber of the conversation receives.
fn view_now(serving: &Serving, conversation: &str) -> View {
    let mut other = serving.connect();
    attach(&mut other, "viewer");
    other.call("subscribe", &json!({ "conversation": conversation })).unwrap();
    other.next().unwrap();
    std::mem::take(&mut other.view)
}

fn has_running_call(view: &View) -> bool {
    let is_running =
        |content: &Content| matches!(content, Content::Call(call) if call.state == CallState::Running);
    view.blocks.iter().any(|block| is_running(&block.content))
}

/// Whether two views differ in times only.
fn is_same(one: &View, other: &View) -> bool {
    let plain = |view: &View| {
        let mut view = view.clone();
        (view.status.activity_ms, view.status.run_ms) = (0, None);
        view
    };
    plain(one) == plain(other)
}

/// A model that runs what the last prompt says after `run `, and answers anything else.
fn obedient() -> FakeServer {
    server(Script::answering(|asked| {
        let last = if asked.results().is_empty() { asked.last_user_text() } else { String::new() };
        match last.trim().strip_prefix("run ") {
            Some(command) => Turn::new().call("shell", json!({ "command": command })),
            None => Turn::new().text("Done."),
        }
    }))
}

#[test]
fn a_client_that_comes_back_rebuilds_the_view_of_all_that_happened() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    let mut client = serving.approver();
    let conversation = open(&mut client);
    let of = |fields: Value| {
        let mut all = json!({ "conversation": conversation });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };

    client.call("submit", &of(json!({ "text": "run touch made" }))).unwrap();
    let card = client.card();
    assert!(!person.project().join("made").exists());
    let mut other = agreed(&conversation, &card);
    other["digest"] = "0000000000000000".into();
    let refused = client.call("answer", &other).unwrap_err();
    assert_eq!((&refused["code"], &refused["data"]["reason"]), (&json!(-32005), &json!("wrong_digest")));
    client.call("answer", &agreed(&conversation, &card)).unwrap();
    client.settled();
    assert!(person.project().join("made").exists());

    client.call("submit", &of(json!({ "text": "run until test -e go; do sleep 0.02; done" }))).unwrap();
    let card = client.card();
    let yes = agreed(&conversation, &card);
    client.call("answer", &yes).unwrap();
    client.call("steer", &of(json!({ "text": "look" }))).unwrap();
    client.call("submit", &of(json!({ "text": "and then" }))).unwrap();
    client.until("the queue", |view, _| view.queue.len() == 2);
    let queued = client.call("queue", &of(json!({}))).unwrap();
    assert_eq!(queued["queued"][1]["text"], "and then");
    client.call("unqueue", &of(json!({ "id": queued["queued"][1]["id"] }))).unwrap();

    // The connection is lost in the middle of the run, which goes on.
    let (seq, view) = (client.seq, client.view.clone());
    drop(client);
    std::fs::write(person.project().join("go"), "").unwrap();
    let mut client = serving.approver();
    (client.seq, client.view) = (seq, view);
    let subscribed = client.call("subscribe", &of(json!({ "after": seq }))).unwrap();
    assert_eq!(subscribed["resync"], false);
    client.settled();
    let is_steered =
        |content: &Content| matches!(content, Content::Injected { text, .. } if text.as_str() == "look");
    assert!(client.view.blocks.iter().any(|block| is_steered(&block.content)), "{:?}", client.view);

    client.call("submit", &of(json!({ "text": "run sleep 1000" }))).unwrap();
    client.until("the call", |view, _| has_running_call(view));
    client.call("stop", &of(json!({}))).unwrap();
    client.settled();

    let first = client.call("settings/get", &of(json!({}))).unwrap()["session"].as_str().unwrap().to_owned();
    let before = client.view.clone();
    client.call("switch", &of(json!({ "to": "new" }))).unwrap();
    client.until("the new session", |view, _| view.switches == before.switches + 1 && view.blocks.is_empty());
    client.call("submit", &of(json!({ "text": "hello" }))).unwrap();
    client.settled();
    client.call("switch", &of(json!({ "to": { "session": first } }))).unwrap();
    client.until("the first session", |view, _| view.switches == before.switches + 2);
    client.settled();

    let is_stored =
        |view: &View| -> Vec<_> { view.blocks.iter().filter(|block| block.is_stored()).cloned().collect() };
    assert_eq!(is_stored(&client.view), is_stored(&before));
    let now = view_now(&serving, &conversation);
    assert!(is_same(&client.view, &now), "{:#?}\n{now:#?}", client.view);
    client.call("close", &of(json!({}))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::new(person.home().join("sessions"));
    let stored = runtime.block_on(store.read(&SessionId::from(first.as_str()))).unwrap();
    assert_eq!(rebuild(&stored.entries), is_stored(&before));
}

#[test]
fn the_program_that_started_it_is_an_approver_and_ends_it_with_its_input() {
    let model = obedient();
    let person = Person::asking(&model);
    let mut child = person.spawn(program(), &["rpc", "--permission-mode", "ask"], Stdio::piped());
    let mut client = Client::new(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let early = client.call("session/new", &json!({})).unwrap_err();
    assert_eq!(early["code"], -32000);
    attach(&mut client, "approver");
    let conversation = open(&mut client);
    client.call("submit", &json!({ "conversation": conversation, "text": "run touch made" })).unwrap();
    let card = client.card();
    let yes = agreed(&conversation, &card);
    client.call("answer", &yes).unwrap();
    client.settled();
    assert!(person.project().join("made").exists());
    drop(client);
    assert!(child.wait().unwrap().success());
    assert!(std::fs::read_dir(person.home().join("auth")).is_err(), "no token is needed");
}

#[test]
fn requests_that_are_sent_at_once_are_all_answered_before_the_end() {
    let person = Person::new();
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocol_version": "1.0", "role": "driver" } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/list" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "no/such" }),
    ];
    let ended = person.run_with(&["rpc"], &lines.map(|line| line.to_string() + "\n").concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let answered: Vec<Value> = ended.lines().into_iter().filter(|line| line["id"].is_u64()).collect();
    let mut ids: Vec<u64> = answered.iter().filter_map(|line| line["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3], "{answered:?}");
}

#[test]
fn of_two_clients_that_answer_one_question_the_first_wins_and_the_other_is_told() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    let (mut one, mut other) = (serving.approver(), serving.approver());
    let conversation = open(&mut one);
    other.call("subscribe", &json!({ "conversation": conversation })).unwrap();
    one.call("submit", &json!({ "conversation": conversation, "text": "run touch made" })).unwrap();
    let (card, seen) = (one.card(), other.card());
    assert_eq!(card, seen);
    let yes = agreed(&conversation, &card);
    let ids = (one.request("answer", &yes), other.request("answer", &yes));
    let outcome = |client: &mut Client, id: u64| {
        let mut found = Value::Null;
        client.until("the outcome", |_, line| {
            found = line.clone();
            line["id"] == id
        });
        found
    };
    let outcomes = [outcome(&mut one, ids.0), outcome(&mut other, ids.1)];
    let refused: Vec<&Value> = outcomes.iter().filter_map(|line| line.get("error")).collect();
    assert_eq!(refused.len(), 1, "{outcomes:?}");
    assert_eq!(refused[0]["data"]["reason"], "not_pending");
    one.settled();
    other.settled();
    let answered = |client: &Client| {
        client.notes.iter().filter(|note| note["method"] == "conversation/answered").count()
    };
    assert_eq!((answered(&one), answered(&other)), (1, 1));
}

#[test]
fn texts_that_wait_are_bounded_and_none_of_them_is_lost() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    let mut client = serving.approver();
    let conversation = open(&mut client);
    let text = json!({ "conversation": conversation, "text": "run touch made" });
    client.call("submit", &text).unwrap();
    client.card();
    let refused = (0..1000).find_map(|_| client.call("submit", &text).err()).unwrap();
    assert_eq!(refused["code"], -32003, "{refused}");
    client.until("the queue", |view, _| view.queue.len() == 256);
    assert!(client.call("steer", &text).is_err());
}

#[test]
fn a_role_goes_as_far_as_its_token_and_no_token_widens_another_one() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
    for token in [None, Some(serving.token("driver").to_owned()), Some("0".repeat(64))] {
        let mut client = serving.connect();
        let mut params = json!({ "protocol_version": "1.0", "role": "approver" });
        if let Some(token) = token {
            params["token"] = token.into();
        }
        assert_eq!(client.call("initialize", &params).unwrap_err()["code"], -32001);
    }
    let mut driver = serving.connect();
    attach(&mut driver, "driver");
    let conversation = open(&mut driver);
    driver.call("submit", &json!({ "conversation": conversation, "text": "run touch made" })).unwrap();
    let card = driver.card();
    for (method, params) in [
        ("answer", agreed(&conversation, &card)),
        ("settings/set", json!({ "mode": "all" })),
        ("settings/set", json!({ "add_directory": "/" })),
        ("command", json!({ "line": "/permissions all" })),
        ("command", json!({ "line": " /add-dir /" })),
        ("command", json!({ "line": "/model other/model" })),
        ("command", json!({ "line": "/export /tmp/anywhere" })),
        ("command", json!({ "line": "/resume s_1" })),
        ("command", json!({ "line": "/backend other" })),
        ("command", json!({ "line": "/jobs start touch made" })),
    ] {
        let mut params = params;
        params["conversation"] = conversation.clone().into();
        assert_eq!(driver.call(method, &params).unwrap_err()["code"], -32001, "{method} {params}");
    }
    for params in [
        json!({ "settings": { "permissions.mode": "all" } }),
        json!({ "settings": { "permissions.allow_all": true } }),
        json!({ "settings": { "preset": "build" } }),
        json!({ "settings": { "provider": "other" } }),
        json!({ "settings": { "max_budget_usd": 1000 } }),
        json!({ "cwd": "/" }),
        json!({ "add_directories": ["/"] }),
    ] {
        assert_eq!(driver.call("session/new", &params).unwrap_err()["code"], -32001, "{params}");
    }
    // A line that no command begins runs none, however it is spelled.
    for line in ["/ permissions all", "// permissions all", "/\u{a0}/permissions all", "/ /add-dir /"] {
        let params = json!({ "conversation": conversation, "line": line });
        assert!(driver.call("command", &params).is_err(), "{line}");
    }
    let settings = driver.call("settings/get", &json!({ "conversation": conversation })).unwrap();
    assert_eq!(settings["mode"], "ask");
    let mut viewer = serving.connect();
    let attached = attach(&mut viewer, "viewer");
    assert_eq!(attached["conversations"][0]["conversation"], conversation);
    let refused = viewer.call("stop", &json!({ "conversation": conversation })).unwrap_err();
    assert_eq!((&refused["code"], &refused["data"]["role"]), (&json!(-32001), &json!("driver")));
    let clients = viewer.call("clients", &json!({})).unwrap();
    let roles: Vec<&str> = clients["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|client| client["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["driver", "viewer"]);
    assert!(!person.project().join("made").exists());
}

#[test]
fn a_client_that_vanishes_stops_nothing_unless_it_asked_for_that() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "all"]].concat());
    for stops in [false, true] {
        let mut client = serving.connect();
        let params = json!({ "protocol_version": "1.0", "role": "driver", "stop_on_disconnect": stops });
        client.call("initialize", &params).unwrap();
        let conversation = open(&mut client);
        let go = format!("go-{stops}");
        client
            .call(
                "submit",
                &json!({ "conversation": conversation, "text": format!("run until test -e {go}; do sleep 0.02; done") }),
            )
            .unwrap();
        client.until("the call", |view, _| has_running_call(view));
        drop(client);
        let mut watching = serving.approver();
        watching.call("subscribe", &json!({ "conversation": conversation })).unwrap();
        if !stops {
            std::fs::write(person.project().join(go), "").unwrap();
        }
        watching.until("the end of the run", |view, _| {
            view.blocks.iter().any(|block| matches!(block.content, Content::End(_)))
        });
        let end = watching.view.blocks.iter().find_map(|block| match &block.content {
            Content::End(end) => Some(serde_json::to_value(end.status).unwrap()),
            _ => None,
        });
        assert_eq!(end.unwrap(), if stops { "aborted" } else { "completed" });
        watching.call("close", &json!({ "conversation": conversation })).unwrap();
    }
}

#[test]
fn the_tokens_are_private_and_gone_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let model = obedient();
    let person = Person::asking(&model);
    let mut serving = Serving::start(&person, &SOCKET);
    let mode = serving.access_file.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let pid = rustix::process::Pid::from_child(&serving.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    serving.child.wait().unwrap();
    assert!(!serving.access_file.exists());
    assert!(!person.home().join("run/zk.sock").exists());
}

#[test]
fn neither_a_tool_nor_a_command_in_the_sandbox_reads_a_token() {
    let path = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = path.clone();
    let model = server(Script::answering(move |asked| {
        let path = known.get().unwrap();
        match asked.messages.len() {
            1 => Turn::new().call("read_file", json!({ "path": path })),
            3 => Turn::new()
                .call("shell", json!({ "command": format!("cat {path}; env; ls -l $(dirname {path})") })),
            _ => Turn::new().text("Done."),
        }
    }));
    let Some(person) = crate::network::sandboxed(&model) else { return };
    let serving = Serving::start(&person, &SOCKET);
    path.set(serving.access_file.to_str().unwrap().to_owned()).unwrap();
    let mut client = serving.approver();
    let conversation = open(&mut client);
    client.call("submit", &json!({ "conversation": conversation, "text": "go" })).unwrap();
    loop {
        client.until("a question or the end", |view, line| {
            !view.cards.is_empty() || line["method"] == "conversation/settled"
        });
        let Some(card) = client.view.cards.first().cloned() else { break };
        let yes = agreed(&conversation, &card);
        client.call("answer", &yes).unwrap();
        client.until("the answer", |view, _| view.cards.is_empty());
    }
    let told = model.bodies().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    assert!(told.contains(serving.access_file.to_str().unwrap()), "{told}");
    for role in ["driver", "approver"] {
        assert!(!told.contains(serving.token(role)), "{told}");
    }
}

#[test]
fn what_a_driven_conversation_does_is_in_the_log() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &[&SOCKET[..], &["--log", "info=driven.log"]].concat());
    let mut client = serving.approver();
    let conversation = open(&mut client);
    client.call("submit", &json!({ "conversation": conversation, "text": "hello" })).unwrap();
    client.settled();
    let log = std::fs::read_to_string(person.project().join("driven.log")).unwrap();
    assert!(log.contains("session:start") && log.contains("turn:before"), "{log}");
}

#[test]
fn safe_mode_holds_for_conversations_that_programs_drive() {
    let model = obedient();
    let person = Person::asking(&model);
    person.write("AGENTS.md", "agents-of-project\n");
    for (flags, has_project) in [(&[][..], true), (&["--safe-mode"][..], false)] {
        let serving = Serving::start(&person, &[&SOCKET[..], flags].concat());
        let mut client = serving.approver();
        let conversation = open(&mut client);
        client.call("submit", &json!({ "conversation": conversation, "text": "hello" })).unwrap();
        client.until("the answer", |view, _| !view.blocks.is_empty());
        client.settled();
        let body = model.bodies().last().unwrap().to_string();
        assert_eq!(body.contains("agents-of-project"), has_project, "{flags:?}");
    }
}
