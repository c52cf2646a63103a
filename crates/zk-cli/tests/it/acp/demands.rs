//! Demands of the protocol's own conformance suite, each by its name there.

use std::collections::HashSet;

use serde_json::{Value, json};
use zk_testkit::Script;

use super::Editor;
use crate::zk::{Person, server, until};

pub(super) fn nobody() -> Value {
    json!({})
}

/// Answers `text`, as often as it is asked.
pub(super) fn saying(text: &'static str) -> Script {
    Script::answering(move |_| zk_testkit::Turn::new().text(text))
}

fn hanging() -> Script {
    Script::answering(|_| zk_testkit::Turn::new().text("It takes").hang())
}

#[test]
fn transport_001_002_and_schema_001_nothing_but_messages_is_written() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    // Warnings of settings go to standard error.
    person.settings("[surely]\nunknown = true\n");
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Hi."), "end_turn");
    editor.send("no json");
    let refused = editor.until(|message| message["id"].is_null() && message.get("error").is_some());
    assert_eq!(refused["error"]["code"], -32700);
    for line in ["[]", "{}", "7", r#"{"jsonrpc":"2.0","id":{},"method":"session/list"}"#] {
        editor.send(line);
        let refused = editor.until(|message| message["id"].is_null() && message.get("error").is_some());
        assert_eq!(refused["error"]["code"], -32600, "{line}");
    }
    // The reader of the lines looked at each of them.
    assert_eq!(editor.prompt(&session, "Still there?"), "end_turn");
    assert_eq!(editor.close(), 0);
}

#[test]
fn jsonrpc_001_002_003_answers_have_the_ids_of_requests_and_one_outcome() {
    let person = Person::new();
    let mut editor = Editor::start(&person, &nobody());
    editor.send(r#"{"jsonrpc":"2.0","id":"a text","method":"session/list","params":{}}"#);
    assert!(editor.answer(&json!("a text")).get("result").is_some());
    editor.send(r#"{"jsonrpc":"2.0","id":9007199254740991,"method":"session/list","params":{}}"#);
    assert!(editor.answer(&json!(9_007_199_254_740_991_u64)).get("result").is_some());
    editor.notify("session/list", json!({}));
    editor.notify("_unknown", json!({}));
    editor.notify("session/cancel", json!({ "sessionId": "none" }));
    editor.result("session/list", json!({}));
    for message in editor.seen.iter().filter(|message| message.get("method").is_none()) {
        assert!(message.get("result").is_some() != message.get("error").is_some(), "{message}");
    }
    let ids: Vec<&Value> = editor.seen.iter().filter_map(|message| message.get("id")).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[test]
fn init_001_002_003_the_version_is_an_integer_that_zk_speaks_whatever_is_asked() {
    for asked in [1, 2, 65_535] {
        let person = Person::new();
        let mut editor = Editor::unannounced(&person);
        let agreed = editor.result("initialize", json!({ "protocolVersion": asked }));
        assert_eq!(agreed["protocolVersion"], 1);
        assert_eq!(agreed["agentInfo"]["name"], "zk");
        assert!(agreed["agentInfo"]["version"].is_string());
    }
    let person = Person::new();
    let mut editor = Editor::unannounced(&person);
    assert_eq!(editor.error("initialize", json!({ "protocolVersion": "1" })), -32602);
    assert_eq!(editor.error("session/list", json!({})), -32600);
}

#[test]
fn session_001_002_each_session_has_an_id_of_its_own_and_an_absolute_directory() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let ids: HashSet<String> = (0..3).map(|_| editor.new_session(&person)).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(editor.error("session/new", json!({ "cwd": "here", "mcpServers": [] })), -32602);
    assert_eq!(editor.error("session/new", json!({ "mcpServers": [] })), -32602);
    assert_eq!(editor.error("session/new", json!({ "cwd": "/no/such/place", "mcpServers": [] })), -32602);
}

#[test]
fn prompt_001_002_a_prompt_streams_its_answer_and_ends_with_a_reason() {
    let models = server(Script::new().turn(|turn| turn.thinking("Hm.").chunks(["Hel", "lo."])));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Hi."), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Hello.");
    assert_eq!(editor.text("agent_thought_chunk"), "Hm.");
    assert!(editor.updates("user_message_chunk").is_empty(), "the editor knows its own prompt");
    assert_eq!(editor.error("session/prompt", json!({ "sessionId": session, "prompt": [] })), -32602);
    let prompt = json!([{ "type": "text", "text": "x" }]);
    assert_eq!(editor.error("session/prompt", json!({ "sessionId": "none", "prompt": prompt })), -32002);
}

#[test]
fn cancel_001_002_a_cancelled_prompt_ends_with_that_reason_and_nothing_follows_its_answer() {
    let models = server(hanging());
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    let id = editor.begin_prompt(&session, "Take your time.");
    editor.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    assert_eq!(
        editor.error(
            "session/prompt",
            json!({
                "sessionId": session, "prompt": [{ "type": "text", "text": "and this" }],
            })
        ),
        -32600
    );
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.answer(&id)["result"]["stopReason"], "cancelled");
    let until_then = editor.seen.len();
    // Whatever was on its way comes before this answer.
    editor.result("session/list", json!({}));
    assert!(editor.seen[until_then..].iter().all(|message| message["method"] != "session/update"));
    // The session can be used again.
    let id = editor.begin_prompt(&session, "Once more.");
    editor.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    editor.notify("$/cancel_request", json!({ "requestId": id }));
    assert_eq!(editor.answer(&id)["error"]["code"], -32800);
}

#[test]
fn cancel_001_a_cancel_that_follows_its_prompt_at_once_is_not_lost() {
    let models = server(hanging());
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    for _ in 0..5 {
        let id = editor.begin_prompt(&session, "Never mind.");
        editor.notify("session/cancel", json!({ "sessionId": session }));
        assert_eq!(editor.answer(&id)["result"]["stopReason"], "cancelled");
    }
}

#[test]
fn config_001_002_003_setting_an_option_answers_with_all_of_them_and_none_is_a_boolean() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let opened = editor.result("session/new", json!({ "cwd": person.project(), "mcpServers": [] }));
    let session = opened["sessionId"].clone();
    let options = opened["configOptions"].as_array().unwrap();
    assert!(options.iter().all(|option| option["type"] == "select"), "{options:?}");
    let ids = |options: &Value| {
        options.as_array().unwrap().iter().map(|option| option["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&opened["configOptions"]), [json!("mode"), json!("model"), json!("thinking")]);
    let set = editor.result(
        "session/set_config_option",
        json!({ "sessionId": session, "configId": "mode", "value": "read-only" }),
    );
    assert_eq!(ids(&set["configOptions"]), ids(&opened["configOptions"]));
    assert_eq!(set["configOptions"][0]["currentValue"], "read-only");
    assert_eq!(editor.updates("current_mode_update")[0]["currentModeId"], "read-only");
    for (id, value) in
        [("mode", json!("wild")), ("model", json!("none")), ("none", json!("x")), ("mode", json!(true))]
    {
        let wrong = json!({ "sessionId": session, "configId": id, "value": value });
        assert_eq!(editor.error("session/set_config_option", wrong), -32602);
    }
}

#[test]
fn auth_002_003_004_a_terminal_is_needed_only_where_the_editor_has_one() {
    let methods = |capabilities: Value| {
        let person = Person::new();
        let mut editor = Editor::unannounced(&person);
        let agreed =
            editor.result("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        agreed["authMethods"].as_array().unwrap().clone()
    };
    let plain = methods(json!({}));
    assert!(!plain.is_empty() && plain.iter().all(|method| method["type"] != "terminal"), "{plain:?}");
    let both = methods(json!({ "auth": { "terminal": true } }));
    let ids: HashSet<String> = both.iter().map(|method| method["id"].to_string()).collect();
    assert!(both.iter().any(|method| method["type"] == "terminal") && ids.len() == both.len());

    let person = Person::new();
    let mut editor = Editor::start(&person, &nobody());
    assert_eq!(editor.error("authenticate", json!({ "methodId": "zk-keys" })), -32000);
    assert_eq!(editor.error("authenticate", json!({ "methodId": "other" })), -32602);
    assert_eq!(editor.error("session/new", json!({ "cwd": person.project(), "mcpServers": [] })), -32000);

    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    editor.result("authenticate", json!({ "methodId": "zk-keys" }));
}

#[test]
fn clientcap_001_002_003_nothing_is_asked_that_the_editor_did_not_offer() {
    let script = Script::new()
        .turn(|turn| turn.call("read_file", json!({ "path": "a.txt" })))
        .turn(|turn| turn.call("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "two" })))
        .turn(|turn| turn.call("shell", json!({ "command": "echo ran" })))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    person.write("a.txt", "one\n");
    let mut editor = Editor::start(&person, &nobody());
    editor.choosing("allow_once");
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Change it."), "end_turn");
    assert_eq!(std::fs::read_to_string(person.project().join("a.txt")).unwrap(), "two\n");
    let asked =
        editor.seen.iter().filter(|message| message.get("method").is_some() && message.get("id").is_some());
    let methods: HashSet<&str> = asked.filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, HashSet::from(["session/request_permission"]));
}

#[test]
fn ext_001_methods_of_others_get_an_answer_and_requests_may_carry_more() {
    let person = Person::new();
    let mut editor = Editor::start(&person, &nobody());
    assert_eq!(editor.error("_vendor/thing", json!({})), -32601);
    assert_eq!(editor.error("session/nothing", json!({})), -32601);
    editor.result("session/list", json!({ "_meta": { "x": 1 }, "unknown": true }));
}

#[test]
fn load_001_002_the_whole_history_comes_before_the_answer() {
    let models = server(
        Script::new()
            .turn(|turn| turn.thinking("Hm.").text("I look.").call("read_file", json!({ "path": "a.txt" })))
            .turn(|turn| turn.text("It says one.")),
    );
    let person = Person::asking(&models);
    person.write("a.txt", "one\n");
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "What does it say?"), "end_turn");
    assert_eq!(editor.close(), 0);

    let mut editor = Editor::start(&person, &nobody());
    let place = json!({ "sessionId": session, "cwd": person.project(), "mcpServers": [] });
    let loaded = editor.result("session/load", place.clone());
    assert!(loaded["modes"].is_object() && loaded.get("sessionId").is_none(), "{loaded}");
    assert_eq!(editor.text("user_message_chunk"), "What does it say?");
    assert_eq!(editor.text("agent_message_chunk"), "I look.It says one.");
    let calls = editor.updates("tool_call");
    assert_eq!(
        (calls.len(), &calls[0]["status"], &calls[0]["kind"]),
        (1, &json!("completed"), &json!("read"))
    );
    // An editor may load what it has open, and gets all of it again.
    editor.seen.clear();
    editor.result("session/load", place);
    assert_eq!(editor.text("user_message_chunk"), "What does it say?");
    let unknown = json!({ "sessionId": "none", "cwd": person.project(), "mcpServers": [] });
    assert_eq!(editor.error("session/load", unknown), -32002);
}

#[test]
fn resume_001_002_a_resumed_session_goes_on_without_its_history() {
    let script = Script::new().turn(|turn| turn.text("First.")).turn(|turn| turn.text("Second."));
    let models = server(script);
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    editor.prompt(&session, "One.");
    assert_eq!(editor.close(), 0);
    let mut editor = Editor::start(&person, &nobody());
    let place = json!({ "sessionId": session, "cwd": person.project(), "mcpServers": [] });
    editor.result("session/resume", place);
    assert_eq!(editor.text("agent_message_chunk") + &editor.text("user_message_chunk"), "");
    assert_eq!(editor.prompt(&session, "Two."), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Second.");
    assert!(models.bodies().last().unwrap()["messages"].to_string().contains("First."));
}

#[test]
fn list_001_002_sessions_are_listed_by_their_directory() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    editor.prompt(&session, "Hi there.");
    let listed = editor.result("session/list", json!({ "cwd": person.project() }));
    let info = &listed["sessions"][0];
    assert_eq!((&info["sessionId"], &info["title"]), (&json!(session), &json!("Hi there.")));
    assert!(info["updatedAt"].as_str().unwrap().ends_with('Z') && info["cwd"] == json!(person.project()));
    assert_eq!(editor.result("session/list", json!({ "cwd": "/no/such/place" }))["sessions"], json!([]));
    assert_eq!(editor.error("session/list", json!({ "cwd": "here" })), -32602);
    assert_eq!(editor.error("session/list", json!({ "cursor": "x" })), -32602);
}

#[test]
fn delete_001_a_deleted_session_is_gone_and_deleting_it_again_is_fine() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    editor.prompt(&session, "Hi.");
    let named = json!({ "sessionId": session });
    editor.result("session/delete", named.clone());
    editor.result("session/delete", named);
    assert_eq!(editor.result("session/list", json!({}))["sessions"], json!([]));
}

#[test]
fn close_001_002_closing_a_session_cancels_its_prompt() {
    let models = server(hanging());
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    let id = editor.begin_prompt(&session, "Take your time.");
    editor.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let closing = editor.begin("session/close", json!({ "sessionId": session }));
    let answered = editor.until(|message| message.get("method").is_none());
    assert_eq!((&answered["id"], &answered["result"]["stopReason"]), (&id, &json!("cancelled")));
    assert_eq!(editor.answer(&closing)["result"], json!({}));
    assert_eq!(editor.error("session/close", json!({ "sessionId": session })), -32002);
}

#[test]
fn adddirs_001_other_directories_are_worked_in_where_the_editor_names_them() {
    let other = tempfile::tempdir().unwrap();
    let other = other.path().canonicalize().unwrap();
    std::fs::write(other.join("far.txt"), "far away\n").unwrap();
    let path = other.join("far.txt");
    let script = Script::new()
        .turn(|turn| turn.call("read_file", json!({ "path": path })))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let place = json!({ "cwd": person.project(), "mcpServers": [], "additionalDirectories": [other] });
    let session = editor.result("session/new", place)["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt(&session, "Read it."), "end_turn");
    assert!(models.bodies().last().unwrap()["messages"].to_string().contains("far away"));
}

#[test]
fn modes_001_002_the_mode_of_a_session_is_known_and_can_be_set() {
    let models = server(
        Script::new()
            .turn(|turn| turn.call("shell", json!({ "command": "touch made" })))
            .turn(|turn| turn.text("Refused.")),
    );
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let opened = editor.result("session/new", json!({ "cwd": person.project(), "mcpServers": [] }));
    let modes = &opened["modes"];
    let ids: Vec<&str> =
        modes["availableModes"].as_array().unwrap().iter().filter_map(|mode| mode["id"].as_str()).collect();
    assert!(ids.contains(&modes["currentModeId"].as_str().unwrap()) && ids.contains(&"plan"), "{modes}");
    let session = opened["sessionId"].as_str().unwrap();
    editor.result("session/set_mode", json!({ "sessionId": session, "modeId": "read-only" }));
    assert_eq!(editor.error("session/set_mode", json!({ "sessionId": session, "modeId": "wild" })), -32602);
    assert_eq!(editor.prompt(session, "Make it."), "end_turn");
    assert!(!person.project().join("made").exists());
}

#[test]
fn promptcap_001_002_003_images_and_resources_reach_the_model_and_other_content_is_refused() {
    let models = server(saying("I see."));
    let person = Person::asking(&models);
    let mut editor = Editor::unannounced(&person);
    let agreed = editor.result("initialize", json!({ "protocolVersion": 1 }));
    let takes = &agreed["agentCapabilities"]["promptCapabilities"];
    assert_eq!(*takes, json!({ "image": true, "audio": false, "embeddedContext": true }));
    let session = editor.new_session(&person);
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    let prompt = json!([
        { "type": "text", "text": "Look." },
        { "type": "image", "mimeType": "image/png", "data": pixel },
        { "type": "resource_link", "name": "notes", "uri": "file:///p/notes.md" },
        { "type": "resource", "resource": { "uri": "file:///p/a.rs", "text": "fn a() {}" } },
    ]);
    editor.result("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    let sent = models.bodies().last().unwrap()["messages"].to_string();
    for part in [pixel, "/p/notes.md", "fn a() {}"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    let prompt = json!([{ "type": "audio", "mimeType": "audio/wav", "data": "" }]);
    assert_eq!(editor.error("session/prompt", json!({ "sessionId": session, "prompt": prompt })), -32602);
}

/// Begins a prompt whose command runs, and gives the command's process.
fn begin_command(editor: &mut Editor, person: &Person) -> u32 {
    editor.choosing("allow_once");
    let session = editor.new_session(person);
    editor.begin_prompt(&session, "Wait.");
    let pid = person.project().join("pid");
    until("the command", || {
        if !std::fs::read_to_string(&pid).unwrap_or_default().ends_with('\n') {
            // Nothing more is asked than whether it may run.
            if let Ok(line) = editor.lines.try_recv() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["method"] == "session/request_permission" {
                    let result = super::choice(&message, "allow_once");
                    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                    editor.send(&answer.to_string());
                }
            }
            return false;
        }
        true
    });
    std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap()
}

#[test]
fn advisory_the_program_ends_soon_after_its_input_and_everything_is_stored() {
    let models = server(
        Script::new().turn(|turn| turn.call("shell", json!({ "command": "echo $$ > pid; exec sleep 1000" }))),
    );
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let command = begin_command(&mut editor, &person);
    assert_eq!(editor.close(), 0);
    assert!(!std::path::Path::new(&format!("/proc/{command}")).exists(), "the command went on");
    assert!(!std::path::Path::new(&format!("/proc/{}", editor.pid())).exists());
    let shown = person.run(&["sessions", "list"]);
    assert!(shown.stdout.contains("Wait."), "{}", shown.stdout);
}

#[test]
fn an_editor_that_is_killed_leaves_no_process() {
    let command = "sleep 1000 & echo $! > child; echo $$ > pid; wait";
    let models = server(Script::new().turn(move |turn| turn.call("shell", json!({ "command": command }))));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let shell = begin_command(&mut editor, &person);
    let child = std::fs::read_to_string(person.project().join("child")).unwrap();
    editor.vanish();
    assert!(editor.child.wait().is_ok());
    for process in [shell.to_string(), child.trim().to_owned()] {
        let stat = format!("/proc/{process}/stat");
        // One that nobody waited for is a name alone.
        let is_over = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        until("its processes to end", is_over);
    }
}
