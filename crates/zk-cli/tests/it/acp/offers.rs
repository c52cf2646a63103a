//! Abilities of an editor that the program uses: buffers, notices, servers that it names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};
use zk_testkit::{FakeMcpScript, Script};

use super::{Editor, choice};
use crate::zk::{Person, server};

#[test]
fn file_tools_read_and_write_the_buffers_of_the_editor() {
    let script = Script::new()
        .turn(|turn| turn.call("read_file", json!({ "path": "a.txt" })))
        .turn(|turn| {
            turn.call("edit", json!({ "path": "a.txt", "old_string": "typed", "new_string": "mended" }))
        })
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    person.write("a.txt", "saved\n");
    let path = person.project().join("a.txt").display().to_string();
    let buffers = Rc::new(RefCell::new(HashMap::from([(path.clone(), "typed, not saved\n".to_owned())])));
    let fs = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
    let mut editor = Editor::start(&person, &fs);
    let own = buffers.clone();
    editor.answering(move |request| {
        let params = &request["params"];
        let path = params["path"].as_str().unwrap_or_default().to_owned();
        match request["method"].as_str().unwrap() {
            "fs/read_text_file" => Some(json!({ "content": own.borrow()[&path] })),
            "fs/write_text_file" => {
                own.borrow_mut().insert(path, params["content"].as_str().unwrap().to_owned());
                Some(json!({}))
            }
            _ => Some(choice(request, "allow_once")),
        }
    });
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Mend it."), "end_turn");
    assert!(models.bodies().last().unwrap()["messages"].to_string().contains("typed, not saved"));
    assert_eq!(buffers.borrow()[&path], "mended, not saved\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mended, not saved\n");
    let named = editor.asked("fs/read_text_file");
    assert!(named.iter().all(|request| request["params"]["sessionId"] == session), "{named:?}");
}

#[test]
fn an_editor_that_has_no_buffer_or_no_answer_leaves_files_as_they_are_on_disk() {
    let script = Script::new()
        .turn(|turn| turn.call("read_file", json!({ "path": "a.txt" })))
        .turn(|turn| turn.call("read_file", json!({ "path": ".env" })))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    person.write("a.txt", "saved\n").write(".env", "SECRET=1\n");
    let mut editor = Editor::start(&person, &json!({ "fs": { "readTextFile": true } }));
    editor.answering(|request| match request["method"].as_str().unwrap() {
        "fs/read_text_file" if request["params"]["path"].as_str().unwrap().ends_with(".env") => {
            panic!("no buffer is read of what tools may not read")
        }
        "fs/read_text_file" => Some(json!({ "nothing": true })),
        _ => Some(choice(request, "reject_once")),
    });
    let session = editor.new_session(&person);
    assert_eq!(editor.prompt(&session, "Read it."), "end_turn");
    let sent = models.bodies().last().unwrap()["messages"].to_string();
    assert!(sent.contains("saved") && !sent.contains("SECRET=1"), "{sent}");
}

#[test]
fn servers_that_the_editor_names_give_their_tools() {
    let mcp = crate::mcp::definition(&FakeMcpScript::default());
    let env: Vec<Value> = mcp["env"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let models = server(Script::answering(|_| zk_testkit::Turn::new().text("Hello.")));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &json!({}));
    let named = json!([{ "name": "my tools", "command": mcp["command"], "args": mcp["args"], "env": env }]);
    let opened = editor.result("session/new", json!({ "cwd": person.project(), "mcpServers": named }));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(editor.prompt(&session, "/mcp"), "end_turn");
    assert!(
        editor.text("agent_message_chunk").contains("my-tools"),
        "{}",
        editor.text("agent_message_chunk")
    );
    let wrong = json!([{ "name": "old", "type": "sse", "url": "http://127.0.0.1:1/", "headers": [] }]);
    assert_eq!(editor.error("session/new", json!({ "cwd": person.project(), "mcpServers": wrong })), -32602);
}
