//! What `json` and `stream-json` print.

use serde_json::json;
use zk_testkit::{Fault, RetryAfter, Script};

use crate::zk::{Person, server};

#[test]
fn what_a_tool_printed_is_in_the_stream_once() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "echo first-$((40+2)); echo second-$((50+5))"})))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--allow-all", "--output-format", "stream-json"]);
    assert_eq!(ended.stdout.matches("second-55").count(), 1, "{}", ended.stdout);
}

#[test]
fn durations_are_whole_milliseconds() {
    let server = server(Script::new().turn(|t| t.text("Done.")));
    server.fault_on(1, Fault::RateLimited(RetryAfter::Seconds(1)));
    let ended = Person::asking(&server).run(&["-p", "x", "--output-format", "stream-json"]);
    let lines = ended.lines();
    let retry = lines.iter().find(|line| line["type"] == "provider:retry").unwrap();
    assert!(retry["retry"]["delay_ms"].as_u64().unwrap() >= 1000, "{retry}");
    assert!(!ended.stdout.contains("\"nanos\""), "{}", ended.stdout);
}

#[test]
fn characters_that_act_on_a_terminal_are_escaped_in_json() {
    let hostile = "a\u{9b}2J\u{85}\u{202e}\u{e0100}\u{3164}\u{7f}b";
    for format in ["json", "stream-json"] {
        let server = server(Script::new().turn(|t| t.text(hostile)));
        let ended = Person::asking(&server).run(&["-p", "x", "--output-format", format]);
        let is_safe = |c: char| c == '\n' || (!c.is_control() && !"\u{202e}\u{e0100}\u{3164}".contains(c));
        assert!(ended.stdout.chars().all(is_safe), "{:?}", ended.stdout);
        assert_eq!(ended.result()["result"], hostile);
    }
}

#[test]
fn the_view_is_printed_as_patches_that_replay_to_what_a_person_sees() {
    let script = Script::new()
        .turn(|t| t.text("Let me look.").call("shell", json!({"command": "seq 1 1000"})))
        .turn(|t| t.text("Done\u{9b}2J."));
    let server = server(script);
    let ended = Person::asking(&server).run(&["x", "--allow-all", "--view", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines = ended.lines();
    assert_eq!(
        (&lines[0]["subtype"], &lines.last().unwrap()["subtype"]),
        (&json!("init"), &json!("success"))
    );
    let mut view = zk_view::View::default();
    for line in lines.iter().filter(|line| line.get("patch").is_some()) {
        view.apply(&serde_json::from_value(line.clone()).unwrap());
    }
    let kinds: Vec<_> =
        view.blocks.iter().map(|block| serde_json::to_value(&block.content).unwrap()).collect();
    let types: Vec<&str> = kinds.iter().map(|kind| kind["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["user", "answer", "call", "answer", "end"]);
    assert_eq!((&kinds[2]["body"]["total_lines"], &kinds[3]["text"]), (&json!(1000), &json!("Done.")));
    assert!(!ended.stdout.contains("stream:text"), "events are for stream-json");
}
