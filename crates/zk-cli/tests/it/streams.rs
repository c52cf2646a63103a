//! Output of `json` and `stream-json`.

use serde_json::json;
use zk_core::model::{SessionId, StopReason};
use zk_core::service::SessionStore;
use zk_session::SqliteStore;
use zk_testkit::{Fault, RetryAfter, Script};
use zk_view::{View, rebuild};

use crate::zk::{Ended, Person, server};

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

/// The view that the printed patches make.
fn seen(ended: &Ended) -> View {
    let mut view = View::default();
    for line in ended.lines().into_iter().filter(|line| line.get("patch").is_some()) {
        view.apply(&serde_json::from_value(line).unwrap());
    }
    view
}

#[test]
fn a_stored_session_shows_the_blocks_that_were_seen_run_after_run() {
    let script = Script::new()
        .turn(|t| {
            t.thinking("Hm.")
                .text("I look.")
                .call("list_files", json!({"path": "."}))
                .call("shell", json!({"command": "seq 1 5000; exit 3"}))
                .call("write_file", json!({"path": "made", "content": "one\ntwo\n"}))
                .call("read_file", json!({"path": "missing"}))
                .call("nothing", json!({}))
        })
        .turn(|t| t.text("Cut").stop(StopReason::MaxTokens))
        .turn(|t| t.call("edit", json!({"path": "made", "old_string": "two", "new_string": "three"})))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let mut blocks = 0;
    for more in [&[][..], &["--continue"]] {
        let args = [&["go", "--allow-all", "--view", "json"][..], more].concat();
        let ended = person.run(&args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let live: Vec<_> = seen(&ended).blocks.into_iter().filter(|block| block.is_stored()).collect();
        let id = SessionId::from(ended.result()["session_id"].as_str().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = SqliteStore::new(person.home().join("sessions"));
        let stored = runtime.block_on(store.read(&id)).unwrap();
        assert_eq!(rebuild(&stored.entries), live);
        assert!(live.len() > blocks, "the second run shows the first one too");
        blocks = live.len();
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
    let view = seen(&ended);
    let kinds: Vec<_> =
        view.blocks.iter().map(|block| serde_json::to_value(&block.content).unwrap()).collect();
    let types: Vec<&str> = kinds.iter().map(|kind| kind["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["user", "answer", "call", "answer", "end"]);
    assert_eq!((&kinds[2]["body"]["total_lines"], &kinds[3]["text"]), (&json!(1000), &json!("Done.")));
    assert!(!ended.stdout.contains("stream:text"), "events are for stream-json");
}
