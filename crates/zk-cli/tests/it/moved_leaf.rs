//! Sessions whose leaf moved: shown again, packed, exported and imported.

use serde_json::Value;

use crate::picker::choose_second_prompt;
use crate::terminal::{Terminal, counting};
use crate::zk::Person;

/// Id of a session with two branches, the present one with a prompt that was changed; `None` without a terminal.
fn branched(person: &Person) -> Option<String> {
    let mut terminal = Terminal::open(person, "--screen inline 'first prompt'")?;
    terminal.expect("1 turn ·");
    terminal.keys("second prompt\r");
    terminal.expect("Answer 3 to: second prompt");
    terminal.expect("1 turn ·");
    choose_second_prompt(&mut terminal);
    terminal.keys(" changed\r");
    terminal.expect("Answer 3 to: second prompt changed");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let listed = person.run(&["sessions", "list"]).stdout;
    Some(listed.split_whitespace().next().unwrap().to_owned())
}

#[test]
fn a_session_whose_leaf_moved_replays_and_so_does_its_pack() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(id) = branched(&person) else { return };
    let replayed = person.run(&["replay", &id]);
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    assert!(replayed.stdout.contains("to: second prompt changed"), "{}", replayed.stdout);
    let is_left = |line: &str| line.trim_end().ends_with("to: second prompt");
    assert!(!replayed.stdout.lines().any(is_left), "{}", replayed.stdout);
    let packed = person.run(&["replay", "--pack", &id, "moved.zkpack"]);
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    assert!(packed.stdout.contains("only the present one is here"), "{}", packed.stdout);
    let of_pack = person.run(&["replay", "moved.zkpack"]);
    assert_eq!((of_pack.code, &of_pack.stdout), (0, &replayed.stdout), "{}", of_pack.stderr);
}

/// Entries of an export, as they are compared.
fn exported(person: &Person, id: &str) -> Vec<Value> {
    let ended = person.run(&["sessions", "export", id, "--format", "jsonl", "--tree"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.lines()
}

#[test]
fn a_tree_that_is_exported_and_imported_elsewhere_keeps_ids_and_times() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(id) = branched(&person) else { return };
    let here = exported(&person, &id);
    let elsewhere = Person::asking(&server);
    let text: String = here.iter().map(|line| format!("{line}\n")).collect();
    elsewhere.write("talk.jsonl", &text);
    let imported = elsewhere.run(&["sessions", "import", "talk.jsonl", "--json"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let rows: Value = serde_json::from_str(&imported.stdout).unwrap();
    let there = exported(&elsewhere, rows[0]["session"].as_str().unwrap());
    let of_entries = |lines: &[Value]| -> Vec<Value> {
        lines.iter().filter(|line| line.get("time_ms").is_some()).cloned().collect()
    };
    assert!(of_entries(&here).len() > 6, "{here:?}");
    assert_eq!(of_entries(&there), of_entries(&here));
}
