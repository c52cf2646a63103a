//! Sessions, streams, settings and messages recorded from earlier programs: read and written as then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use insta::{assert_json_snapshot, assert_snapshot};
use rusqlite::Connection;
use serde_json::{Value, json};
use zk_testkit::{Fault, RetryAfter, Script};

use crate::zk::{Person, server};

/// Keys whose values differ from run to run.
const VARIES: [&str; 8] = ["bytes", "chain", "delay", "digest", "hash", "host", "seed", "version"];

/// Length of an id after its kind and `_`, in characters.
const ID_CHARS: usize = 17;

fn corpus(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(path)
}

/// Runs `check` with the recordings as its snapshots.
fn beside_recordings(check: impl FnOnce()) {
    insta::with_settings!({
        snapshot_path => corpus(""), prepend_module_to_snapshot => false, omit_expression => true
    }, { check() });
}

/// Blanks the values that differ from run to run, and names the person's directories.
fn settle(value: &mut Value, person: &Person) {
    match value {
        Value::String(text) => *text = settled(text, person),
        Value::Array(items) => items.iter_mut().for_each(|item| settle(item, person)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_time = name.ends_with("_ms") || name.ends_with("_at");
                if (is_time || VARIES.contains(&name.as_str())) && !value.is_null() {
                    *value = json!("…");
                } else {
                    settle(value, person);
                }
            }
        }
        _ => {}
    }
}

fn settled(text: &str, person: &Person) -> String {
    let project = person.project();
    let home = project.with_file_name("home");
    let text = text.replace(project.to_str().unwrap(), "PROJECT").replace(home.to_str().unwrap(), "HOME");
    let mut words: Vec<&str> =
        text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    for word in &mut words {
        let is_id = |word: &str| {
            word.split_once('_').is_some_and(|(kind, rest)| {
                kind.len() == 1 && rest.len() == ID_CHARS && rest.bytes().any(|byte| byte.is_ascii_digit())
            })
        };
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_id(bare) {
            *word = if bare == *word { "ID" } else { "ID " };
        }
    }
    let text = words.concat();
    match text.split_once("Date: ") {
        Some((before, after)) => {
            format!("{before}Date: DAY{}", after.get("2000-00-00".len()..).unwrap_or_default())
        }
        None => text,
    }
}

fn conversation() -> Script {
    Script::new()
        .turn(|t| {
            t.thinking("The file first.")
                .text("I look.")
                .call("read_file", json!({ "path": "cart.txt" }))
                .call("read_file", json!({ "path": "missing.txt" }))
        })
        .turn(|t| t.call("edit", json!({ "path": "cart.txt", "old_string": "two", "new_string": "three" })))
        .turn(|t| t.call("write_file", json!({ "path": "made.txt", "content": "one\n" })))
        .turn(|t| t.call("shell", json!({ "command": "cat cart.txt made.txt; exit 3" })))
        .turn(|t| t.call("todo_write", json!({ "todos": [{ "content": "look", "status": "completed" }] })))
        .turn(|t| t.call("no_such_tool", json!({})))
        .turn(|t| t.text("Done: **three**.\n\n- one\n- two\n"))
}

#[test]
fn a_conversation_is_streamed_asked_and_stored_as_before() {
    let model = server(conversation());
    model.fault_on(3, Fault::RateLimited(RetryAfter::Seconds(0)));
    let person = Person::asking(&model);
    // The time that a command took differs.
    person.settings("[tools]\nshell_footer = false\n").write("cart.txt", "one\ntwo\n");
    let ended = person.run(&["-p", "go", "--allow-all", "--output-format", "stream-json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    // Some that do not wait for each other come in another order each time.
    let mut events = BTreeMap::new();
    for mut line in ended.lines() {
        settle(&mut line, &person);
        events.entry(line["type"].as_str().unwrap().to_owned()).or_insert(line);
    }
    let mut asked = model.bodies();
    for body in &mut asked {
        // They name the machine and the day; other tests are about them.
        for field in ["system", "tools", "metadata"] {
            body.as_object_mut().unwrap().remove(field);
        }
        settle(body, &person);
    }
    let id = ended.result()["session_id"].as_str().unwrap().to_owned();
    let shown = person.run(&["sessions", "show", &id]);
    beside_recordings(|| {
        assert_json_snapshot!("stream", events);
        assert_json_snapshot!("requests", asked);
        assert_json_snapshot!("stored", stored(&person, &id));
        assert_snapshot!("shown", settled(&shown.stdout, &person));
    });
}

/// Entries of a session as they are in its file.
fn stored(person: &Person, id: &str) -> Vec<Value> {
    let of_project = fs::read_dir(person.home().join("sessions")).unwrap().next().unwrap().unwrap();
    let session = Connection::open(of_project.path().join(format!("{id}.db"))).unwrap();
    let mut rows = session.prepare("SELECT kind FROM entries ORDER BY seq").unwrap();
    let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut entries: Vec<Value> = rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect();
    entries.iter_mut().for_each(|entry| settle(entry, person));
    entries
}

#[test]
fn sessions_of_earlier_programs_are_shown_and_gone_on_with() {
    for program in PROGRAMS {
        let model = server(Script::new().turn(|t| t.text("Gone on.")));
        let person = Person::asking(&model);
        let sessions = person.home().join("sessions").join(DIRECTORY);
        fs::create_dir_all(&sessions).unwrap();
        let recorded = fs::read_to_string(corpus(&format!("sessions/{program}.sql"))).unwrap();
        let id = recorded.lines().next().unwrap().trim_start_matches("-- ");
        let session = Connection::open(sessions.join(format!("{id}.db"))).unwrap();
        session.execute_batch(&recorded).unwrap();
        drop(session);
        let shown = person.run(&["sessions", "show", id]);
        assert_eq!(shown.code, 0, "{program}: {}", shown.stderr);
        let ended = person.run(&["-p", "and on", "--resume", id]);
        assert_eq!((ended.code, ended.stdout.trim()), (0, "Gone on."), "{program}: {}", ended.stderr);
        let mut asked = model.bodies().pop().unwrap()["messages"].take();
        settle(&mut asked, &person);
        beside_recordings(|| {
            assert_snapshot!(format!("shown-{program}"), settled(&shown.stdout, &person));
            assert_json_snapshot!(format!("gone-on-{program}"), asked);
        });
    }
}

/// Commits whose programs recorded a session in `/tmp/golden`.
const PROGRAMS: [&str; 2] = ["0909d312", "775d64f9"];

/// Name of the recorded directory among the sessions.
const DIRECTORY: &str = "golden-cffccfa9035d";

#[test]
fn settings_are_shown_as_before_and_faults_in_them_told_in_the_same_words() {
    let mut documents: Vec<PathBuf> =
        fs::read_dir(corpus("settings")).unwrap().map(|entry| entry.unwrap().path()).collect();
    documents.sort();
    assert!(documents.len() >= 4, "{documents:?}");
    for document in documents {
        let name = document.file_stem().unwrap().to_str().unwrap().to_owned();
        let person = Person::new();
        person.settings(&fs::read_to_string(&document).unwrap());
        let ended = person.run(&["config", "show", "--origin"]);
        let told = format!("{}\n[exit code {}]\n{}", ended.stdout, ended.code, ended.stderr);
        beside_recordings(|| assert_snapshot!(format!("settings-{name}"), settled(&told, &person)));
    }
}
