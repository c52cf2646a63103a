//! Requirements of the protocol's own conformance suite, by their ids there.

use serde_json::json;

use super::Editor;
use super::demands::{nobody, saying};
use crate::zk::{Person, server};

/// Requirements of the protocol's own suite for version 1, and the tests that hold zk to them.
const REQUIREMENTS: [(&str, &str); 44] = [
    ("TRANSPORT-001", "transport_001_002"),
    ("TRANSPORT-002", "transport_001_002"),
    ("JSONRPC-001", "jsonrpc_001_002_003"),
    ("JSONRPC-002", "jsonrpc_001_002_003"),
    ("JSONRPC-003", "jsonrpc_001_002_003"),
    ("INIT-001", "init_001_002_003"),
    ("INIT-002", "init_001_002_003"),
    ("INIT-003", "init_001_002_003"),
    ("SCHEMA-001", "transport_001_002_and_schema_001"),
    ("SESSION-001", "session_001_002"),
    ("SESSION-002", "session_001_002"),
    ("PROMPT-001", "prompt_001_002"),
    ("PROMPT-002", "prompt_001_002"),
    ("CANCEL-001", "cancel_001_002"),
    ("CANCEL-002", "cancel_001_002"),
    ("CONFIG-001", "config_001_002_003"),
    ("CONFIG-002", "config_001_002_003"),
    ("CONFIG-003", "config_001_002_003"),
    ("AUTH-002", "auth_002_003_004"),
    ("AUTH-003", "auth_002_003_004"),
    ("AUTH-004", "auth_002_003_004"),
    ("CLIENTCAP-001", "clientcap_001_002_003"),
    ("CLIENTCAP-002", "clientcap_001_002_003"),
    ("CLIENTCAP-003", "clientcap_001_002_003"),
    ("EXT-001", "ext_001"),
    ("LOAD-001", "load_001_002"),
    ("LOAD-002", "load_001_002"),
    ("RESUME-001", "resume_001_002"),
    ("RESUME-002", "resume_001_002"),
    ("LIST-001", "list_001_002"),
    ("LIST-002", "list_001_002"),
    ("DELETE-001", "delete_001"),
    ("CLOSE-001", "close_001_002"),
    ("CLOSE-002", "close_001_002"),
    ("ADDDIRS-001", "adddirs_001"),
    ("MODES-001", "modes_001_002"),
    ("MODES-002", "modes_001_002"),
    ("PROMPTCAP-001", "promptcap_001_002_003"),
    ("PROMPTCAP-002", "promptcap_001_002_003"),
    ("PROMPTCAP-003", "promptcap_001_002_003"),
    ("advisory: agentInfo, unique ids of auth methods", "auth_002_003_004"),
    ("advisory: resource links", "promptcap_001_002_003"),
    ("advisory: deleting twice is fine", "delete_001"),
    ("advisory: the end soon after that of the input", "advisory_the_program_ends"),
];

#[test]
fn every_requirement_of_the_suite_has_a_test() {
    let tests = include_str!("demands.rs");
    for (id, test) in REQUIREMENTS {
        assert!(tests.contains(&format!("\nfn {test}")), "{id}: there is no test {test}");
    }
}

#[test]
fn advisory_errors_are_one_line_with_their_codes_and_the_session_goes_on() {
    let models = server(saying("Hello."));
    let person = Person::asking(&models);
    let mut editor = Editor::start(&person, &nobody());
    let session = editor.new_session(&person);
    let place = json!({ "sessionId": session, "cwd": person.project(), "mcpServers": [] });
    for (method, params, code) in [
        ("nothing/at_all", json!({}), -32601),
        ("session/new", json!({ "cwd": 7 }), -32602),
        ("session/prompt", json!({ "sessionId": session, "prompt": "text" }), -32602),
        ("session/load", json!({ "sessionId": "none", "cwd": person.project(), "mcpServers": [] }), -32002),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "no\nmode" }), -32602),
    ] {
        let id = editor.begin(method, params);
        let error = editor.answer(&id)["error"].clone();
        assert_eq!(error["code"], code, "{method}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains('\n'), "{method}: {message}");
    }
    let prompt = json!([{ "type": "text", "text": "Hi.", "_meta": { "a": 1 } }]);
    let meta = json!({ "sessionId": session, "prompt": prompt, "_meta": { "b": 2 } });
    assert_eq!(editor.result("session/prompt", meta)["stopReason"], "end_turn");
    assert!(editor.result("session/load", place).is_object());
}
