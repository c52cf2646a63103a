//! Work of an editor's person: questions, changes, plans, commands, several sessions.

use serde_json::{Value, json};
use zk_testkit::{Asked, Script, Turn};

use super::{Editor, choice};
use crate::zk::{Person, server};

fn editing(times: usize) -> Script {
    let mut script = Script::new();
    for n in 0..times {
        let (old, new) = (format!("v{n}\n"), format!("v{}\n", n + 1));
        script = script.turn(move |turn| {
            turn.call("edit", json!({ "path": "a.txt", "old_string": old, "new_string": new }))
        });
    }
    script.turn(|turn| turn.text("Done."))
}

#[test]
fn a_change_is_asked_about_with_its_difference_and_reason_and_shown_once_it_is_made() {
    let models = server(editing(1));
    let person = Person::asking(&models);
    person.write("a.txt", "top\nv0\n");
    let mut editor = Editor::start(&person, &json!({}));
    editor.choosing("allow_once");
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Change it."), "end_turn");
    let asked = editor.asked("session/request_permission");
    assert_eq!(asked.len(), 1);
    let (call, options) = (&asked[0]["params"]["toolCall"], &asked[0]["params"]["options"]);
    let path = person.project().join("a.txt");
    let diff = |content: &Value| {
        content.as_array().unwrap().iter().find(|part| part["type"] == "diff").cloned().unwrap()
    };
    let expected = json!({ "type": "diff", "path": path, "oldText": "top\nv0\n", "newText": "top\nv1\n" });
    assert_eq!(diff(&call["content"]), expected);
    assert!(call["content"].to_string().contains("Why: "), "{call}");
    assert_eq!(call["rawInput"]["new_string"], "v1\n");
    let kinds: Vec<&Value> = options.as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert!(kinds.contains(&&json!("allow_always")) && kinds.contains(&&json!("reject_once")), "{options}");
    let begun = editor.updates("tool_call");
    assert_eq!((begun.len(), &begun[0]["toolCallId"]), (1, &call["toolCallId"]));
    let ended = editor.updates("tool_call_update");
    let ended = ended.last().unwrap();
    assert_eq!(ended["status"], "completed");
    assert_eq!(diff(&ended["content"]), expected);
    let places: Vec<&Value> = editor
        .updates("tool_call_update")
        .into_iter()
        .chain(begun)
        .map(|update| &update["locations"])
        .collect();
    assert!(places.iter().any(|places| places[0]["path"] == json!(path)), "{places:?}");
}

#[test]
fn a_choice_for_the_session_is_not_asked_again_and_ends_with_it() {
    let models = server(Script::answering(|asked: &Asked| {
        if asked.results().is_empty() {
            Turn::new().call("shell", json!({ "command": "touch made" }))
        } else {
            Turn::new().text("Done.")
        }
    }));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    editor.choosing("allow_always");
    let session = editor.new_session(&person);
    for prompt in ["Once.", "Twice."] {
        assert_eq!(editor.prompt(&session, prompt), "end_turn");
    }
    assert_eq!(editor.asked("session/request_permission").len(), 1);
    let other = editor.new_session(&person);
    assert_eq!(editor.prompt(&other, "Elsewhere."), "end_turn");
    assert_eq!(editor.asked("session/request_permission").len(), 2);
}

#[test]
fn what_is_rejected_or_answered_with_anything_else_does_not_run() {
    for answer in [
        |request: &Value| choice(request, "reject_once"),
        |_: &Value| json!({ "outcome": { "outcome": "cancelled" } }),
        |_: &Value| json!({ "outcome": { "outcome": "selected", "optionId": "99" } }),
        |_: &Value| json!({ "outcome": "yes" }),
    ] {
        let script = Script::new()
            .turn(|turn| turn.call("shell", json!({ "command": "touch made" })))
            .turn(|turn| turn.text("Refused."));
        let models = server(script);
        let person = Person::asking(&models);
        let mut editor = Editor::start(&person, &json!({}));
        editor.answering(move |request| Some(answer(request)));
        let session = editor.new_session(&person);
        assert_eq!(editor.prompt(&session, "Make it."), "end_turn");
        assert_eq!(editor.updates("tool_call_update").last().unwrap()["status"], "failed");
        assert!(!person.project().join("made").exists());
    }
}

#[test]
fn a_question_is_withdrawn_when_its_prompt_is_cancelled() {
    let models = server(Script::new().turn(|turn| turn.call("shell", json!({ "command": "touch made" }))));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    editor.answering(|_| None);
    let session = editor.new_session(&person);
    let id = editor.begin_prompt(&session, "Make it.");
    let asked = editor.until(|message| message["method"] == "session/request_permission");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.answer(&id)["result"]["stopReason"], "cancelled");
    let withdrawn = editor.asked("$/cancel_request");
    assert_eq!(withdrawn[0]["params"]["requestId"], asked["id"]);
    // An answer that comes late is nobody's.
    let late = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": choice(&asked, "allow_once") });
    editor.send(&late.to_string());
    editor.result("session/list", json!({}));
    assert!(!person.project().join("made").exists());
}

#[test]
fn the_list_of_what_is_to_be_done_is_a_plan() {
    let items = json!([
        { "content": "look", "status": "completed" },
        { "content": "change", "status": "in_progress" },
        { "content": "test", "status": "pending" },
    ]);
    let script = Script::new()
        .turn(|turn| turn.call("todo_write", json!({ "todos": items })))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Plan it."), "end_turn");
    let plans = editor.updates("plan");
    let entries = plans.last().unwrap()["entries"].as_array().unwrap();
    let told: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (entry["content"].as_str().unwrap(), entry["status"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("look", "completed"), ("change", "in_progress"), ("test", "pending")]);
}

#[test]
fn prompts_may_be_commands_of_which_the_editor_is_told() {
    let models = server(Script::answering(|asked: &Asked| Turn::new().text(asked.last_user_text())));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    let session = editor.new_session(&person);
    let told =
        editor.until(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
    let names: Vec<&str> = told["params"]["update"]["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|command| command["name"].as_str())
        .collect();
    assert!(
        names.contains(&"compact") && names.contains(&"model") && !names.contains(&"screen"),
        "{names:?}"
    );
    assert_eq!(editor.prompt(&session, "/model"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("anthropic/"));
    assert_eq!(editor.prompt(&session, "/thinking low"), "end_turn");
    let options = editor.updates("config_option_update");
    assert_eq!(options.last().unwrap()["configOptions"][2]["currentValue"], "low");
    editor.seen.clear();
    assert_eq!(editor.prompt(&session, "/new"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("terminal"));
    editor.seen.clear();
    assert_eq!(editor.prompt(&session, "/etc/hosts: what is it?"), "end_turn");
    assert!(editor.text("agent_message_chunk").contains("/etc/hosts"));
    assert_eq!(models.bodies().len(), 1, "commands of zk itself ask no model");
}

#[test]
fn two_sessions_work_side_by_side_and_each_hears_of_itself_alone() {
    let models = server(Script::answering(|asked: &Asked| {
        let text = asked.last_user_text();
        if asked.results().is_empty() {
            Turn::new().call("shell", json!({ "command": format!("echo {text} > {text}") }))
        } else {
            Turn::new().text(format!("made {text}"))
        }
    }));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    // Both wait for their answers at the same time.
    let (one, two) = (editor.new_session(&person), editor.new_session(&person));
    editor.answering(|_| None);
    let prompts = [editor.begin_prompt(&one, "first"), editor.begin_prompt(&two, "second")];
    let asks = |message: &Value, session: &str| {
        message["method"] == "session/request_permission" && message["params"]["sessionId"] == session
    };
    let mut open = Vec::new();
    while open.len() < 2 {
        let asked = editor.until(|message| asks(message, &one) || asks(message, &two));
        open.push(asked);
    }
    for asked in open.iter().rev() {
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": choice(asked, "allow_once") });
        editor.send(&answer.to_string());
    }
    let mut left = prompts.to_vec();
    while !left.is_empty() {
        let answer = editor.until(|message| message.get("method").is_none());
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        left.retain(|id| *id != answer["id"]);
    }
    for (session, own, other) in [(&one, "first", "second"), (&two, "second", "first")] {
        let updates = editor.seen.iter().filter(|message| message["params"]["sessionId"] == **session);
        let told: String = updates.map(|message| message["params"].to_string()).collect();
        assert!(told.contains(own) && !told.contains(other), "{told}");
        assert!(person.project().join(own).exists());
    }
}

#[test]
fn a_fork_goes_on_from_the_same_history_as_a_session_of_its_own() {
    let models = server(Script::answering(|_| Turn::new().text("Noted.")));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    let session = editor.new_session(&person);
    editor.prompt(&session, "Remember one.");
    let place = json!({ "sessionId": session, "cwd": person.project(), "mcpServers": [] });
    let forked = editor.result("session/fork", place)["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(forked, session);
    editor.prompt(&forked, "And two.");
    assert!(models.bodies().last().unwrap()["messages"].to_string().contains("Remember one."));
    editor.prompt(&session, "And three.");
    assert!(!models.bodies().last().unwrap()["messages"].to_string().contains("And two."));
}

#[test]
fn a_failed_request_is_an_error_in_words_and_a_usage_is_told() {
    use zk_core::model::{ErrorKind, Usage};

    let usage = Usage { input: 1000, output: 10, ..Usage::default() };
    let script = Script::new()
        .turn(move |turn| turn.text("Fine.").usage(usage))
        .turn(|turn| turn.error(ErrorKind::Rejected, "no such thing"))
        .turn(|turn| turn.error(ErrorKind::Auth, "a wrong key"))
        .turn(|turn| turn.text("Fine again."));
    let models = server(script);
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "One."), "end_turn");
    let usage = editor.updates("usage_update");
    assert!(usage.last().unwrap()["used"].as_u64().unwrap() > 0, "{usage:?}");
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Two." }] });
    assert_eq!(editor.error("session/prompt", prompt.clone()), -32603);
    assert_eq!(editor.error("session/prompt", prompt), -32000);
    assert_eq!(editor.prompt(&session, "Three."), "end_turn");
}

#[test]
fn a_question_that_takes_words_is_a_form_where_the_editor_has_forms() {
    let open = json!({ "question": "Which colour?" });
    let choice = json!({ "question": "Which colour?", "options": ["green", "blue"] });
    let accepted = |content: Value| json!({ "action": "accept", "content": content });
    for (question, answer, told) in [
        (&open, accepted(json!({ "answer": "blue" })), "blue"),
        (&choice, accepted(json!({ "choice": "1" })), "The user answers: blue"),
        (&choice, accepted(json!({ "choice": "0", "answer": "red" })), "The user answers: red"),
        (&choice, accepted(json!({ "choice": "7" })), "does not want to answer"),
        (&open, json!({ "action": "decline" }), "does not want to answer"),
        (&open, json!({ "action": "accept" }), "does not want to answer"),
    ] {
        let question = question.clone();
        let script =
            Script::new().turn(move |turn| turn.call("ask_user", question)).turn(|turn| turn.text("Done."));
        let models = server(script);
        let person = Person::asking(&models);
        let mut editor = Editor::start(&person, &json!({ "elicitation": { "form": {} } }));
        editor.answering(move |_| Some(answer.clone()));
        let session = editor.new_session(&person);
        assert_eq!(editor.prompt(&session, "Ask."), "end_turn");
        let asked = editor.asked("elicitation/create");
        assert_eq!(asked.len(), 1);
        let params = &asked[0]["params"];
        assert_eq!((&params["mode"], &params["sessionId"]), (&json!("form"), &json!(session)));
        assert!(params["message"].as_str().unwrap().contains("Which colour?"), "{params}");
        assert_eq!(params["requestedSchema"]["properties"]["answer"]["type"], "string");
        let results = models.bodies()[1]["messages"].to_string();
        assert!(results.contains(told), "{results}");
    }
}

#[test]
fn parts_of_a_project_that_nobody_approved_are_told_with_the_way_to_approve_them() {
    let models = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&models);
    person.write(".zk/agents/helper.md", "---\nname: helper\ndescription: helps\n---\nHelp.");
    let mut editor = Editor::start(&person, &json!({}));
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Hi."), "end_turn");
    let said = editor.text("agent_message_chunk");
    assert!(said.contains(".zk/agents/helper.md") && said.contains("`zk trust add` approves them"), "{said}");
}
