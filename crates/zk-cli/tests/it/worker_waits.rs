//! Waits of runs without a worker: answers that last, questions of the model, times. A canary in the files of the engine.
#![expect(clippy::unwrap_used, reason = "a helper of a test that cannot go on fails the test")]

use std::path::Path;

use serde_json::{Value, json};
use zk_testkit::{Asked, Script, Turn};

use crate::worker::{phase, run, sent, submit};
use crate::zk::{Ended, Person, server};

/// A model that makes these calls, one in a turn, and then says that it is done.
fn calling(calls: Vec<(&'static str, Value)>) -> Script {
    Script::answering(move |asked: &Asked| {
        let results = asked.messages.iter().map(|message| message.results().count()).sum::<usize>();
        match calls.get(results) {
            Some((name, args)) => Turn::new().call(*name, args.clone()),
            None => Turn::new().text("it is done"),
        }
    })
}

/// Serves what is ready on a worker of its own, which asks about each command.
fn serve(person: &Person) -> Ended {
    let ended = person.run(&["worker", "--once", "--permission-mode", "ask"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended
}

fn succeeds(person: &Person, args: &[&str]) -> String {
    let ended = person.run(args);
    assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    ended.stdout
}

fn fails(person: &Person, args: &[&str], words: &str) {
    let ended = person.run(args);
    assert_ne!(ended.code, 0, "{args:?}: {}", ended.stdout);
    assert!(ended.stderr.contains(words), "{args:?}: {words}: {}", ended.stderr);
}

fn digest(person: &Person, id: &str) -> String {
    let shown = succeeds(person, &["fleet", "approve", id, "--show"]);
    shown.lines().find_map(|line| line.strip_prefix("digest ")).unwrap().to_owned()
}

fn lines(person: &Person, file: &str) -> usize {
    std::fs::read_to_string(person.project().join(file)).map_or(0, |text| text.lines().count())
}

#[test]
fn an_approval_for_the_session_is_told_and_holds_on_later_workers() {
    let shell = |command: &str| ("shell", json!({ "command": command }));
    let server =
        server(calling(vec![shell("echo x >> one"), shell("echo x >> one"), shell("echo x >> two")]));
    let person = Person::asking(&server);
    let id = submit(&person, &["Mark it twice."]);
    serve(&person);
    let listed = succeeds(&person, &["fleet", "ls"]);
    assert!(
        listed.contains("echo x >> one") && listed.contains(&format!("zk fleet approve {id}")),
        "{listed}"
    );
    let shown = succeeds(&person, &["fleet", "approve", &id, "--show"]);
    assert!(shown.contains("--for-session    from now on: exactly this call"), "{shown}");
    let digest_of_one = digest(&person, &id);
    fails(&person, &["fleet", "approve", &id, "--for-session", "--no"], "cannot be used with");
    fails(&person, &["fleet", "approve", &id, "--for-session", "--digest", "0"], "another call");
    fails(&person, &["fleet", "answer", &id, "yes"], "zk fleet approve");
    let told = succeeds(&person, &["fleet", "approve", &id, "--for-session", "--digest", &digest_of_one]);
    assert!(told.contains("allowed from now on, on every worker of the run: exactly this call"), "{told}");
    serve(&person);
    assert_eq!((lines(&person, "one"), lines(&person, "two")), (2, 0), "the equal call asked nobody");
    assert_eq!(phase(&person), "parked");
    let other = digest(&person, &id);
    let told = succeeds(&person, &["fleet", "approve", &id, "--always", "--digest", &other]);
    assert!(told.contains("in later sessions too"), "{told}");
    serve(&person);
    assert_eq!((phase(&person).as_str(), lines(&person, "two")), ("done", 1));
}

/// An ask rule asks about each call, so nothing that lasts is offered.
#[test]
fn an_ask_rule_offers_nothing_that_lasts() {
    let server = server(calling(vec![("shell", json!({"command": "echo x >> one"}))]));
    let person = Person::asking(&server);
    person.settings("[permissions]\nask = [\"echo **\"]\n");
    let id = submit(&person, &["Mark it."]);
    serve(&person);
    let digest = digest(&person, &id);
    fails(&person, &["fleet", "approve", &id, "--always", "--digest", &digest], "offers yes or no");
    assert_eq!(phase(&person), "parked");
    succeeds(&person, &["fleet", "approve", &id, "--digest", &digest]);
    serve(&person);
    assert_eq!((phase(&person).as_str(), lines(&person, "one")), ("done", 1));
}

#[test]
fn a_question_of_the_model_is_shown_and_answered_by_number() {
    let options = json!([{"label": "8080", "description": "as before"}, "9090"]);
    let server = server(calling(vec![("ask_user", json!({"question": "Which port?", "options": options}))]));
    let person = Person::asking(&server);
    let id = submit(&person, &["Start it."]);
    serve(&person);
    assert_eq!(phase(&person), "parked");
    let listed = succeeds(&person, &["fleet", "ls"]);
    assert!(
        listed.contains("Which port?") && listed.contains(&format!("zk fleet answer {id} ANSWER")),
        "{listed}"
    );
    let watched = person.run(&["fleet", "watch", &id]);
    assert_eq!(watched.code, 5, "{}", watched.stderr);
    for words in ["Which port?", "1. 8080  (as before)", "2. 9090", "from 1 to 2, a text, or no"] {
        assert!(watched.stdout.contains(words), "{words}: {}", watched.stdout);
    }
    fails(&person, &["fleet", "approve", &id, "--digest", &digest(&person, &id)], "offers the number");
    fails(&person, &["fleet", "answer", &id, " "], "offers the number");
    fails(&person, &["fleet", "answer", "r_none", "1"], "no run has an id");
    succeeds(&person, &["fleet", "answer", &id, "2"]);
    fails(&person, &["fleet", "answer", &id, "1"], "waits for no answer");
    serve(&person);
    assert_eq!(phase(&person), "done");
    assert!(sent(&server).contains("The user answers: 9090"), "{}", sent(&server));
}

#[test]
fn a_wait_parks_its_run_and_a_message_ends_it_early() {
    let server = server(calling(vec![("wait", json!({"hours": 3, "reason": "the build"}))]));
    let person = Person::asking(&server);
    let id = submit(&person, &["Look at it later."]);
    let told = serve(&person).stderr;
    assert!(told.contains("`wait` waits until ") && told.contains("the build"), "{told}");
    let parked = run(&person);
    assert_eq!((&parked["phase"], &parked["wait"]["for"]), (&json!("parked"), &json!("until")), "{parked}");
    let listed = succeeds(&person, &["fleet", "ls"]);
    assert!(listed.contains(" UTC"), "{listed}");
    // Not before its time, and not without a message.
    serve(&person);
    assert_eq!(phase(&person), "parked");
    succeeds(&person, &["fleet", "steer", &id, "It is built."]);
    serve(&person);
    assert_eq!(phase(&person), "done");
    let sent = sent(&server);
    assert!(sent.contains("Ended early: the user sent a message") && sent.contains("It is built."), "{sent}");
}

/// Returns the files below a directory whose bytes have the canary.
fn files_with(dir: &Path, canary: &[u8]) -> (usize, Vec<String>) {
    let (mut read, mut found) = (0, Vec::new());
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (more, below) = files_with(&path, canary);
            read += more;
            found.extend(below);
        } else if path.is_file() {
            read += 1;
            if std::fs::read(&path).unwrap().windows(canary.len()).any(|bytes| bytes == canary) {
                found.push(path.display().to_string());
            }
        }
    }
    (read, found)
}

/// Promise: an engine holds ids. No prompt, answer, result, path, question, message or reason is in its files.
#[test]
fn no_file_of_the_engine_holds_what_was_said() {
    const CANARY: &str = "xq7canary41z";
    let shell = json!({"command": format!("echo {CANARY}-result; touch {CANARY}-path")});
    let asked = json!({"question": format!("Is it {CANARY}?"), "options": [CANARY, "no"]});
    let wait = json!({"minutes": 5, "reason": CANARY});
    let task = json!({"task": format!("Find {CANARY}."), "background": true});
    let calls =
        [("shell", shell.clone()), ("shell", shell), ("ask_user", asked), ("wait", wait), ("spawn", task)];
    let server = server(Script::answering(move |asked: &Asked| {
        let results = asked.messages.iter().map(|message| message.results().count()).sum::<usize>();
        let is_child = format!("{:?}", asked.messages).contains("Find ") && results == 0;
        match calls.get(results).filter(|_| !is_child) {
            Some((name, args)) => Turn::new().text(CANARY).call(*name, args.clone()),
            None => Turn::new().text(format!("it is {CANARY}")),
        }
    }));
    let person = Person::asking(&server);
    let id = submit(&person, &[&format!("Look for {CANARY}s.")]);
    let engine = person.home().join("engine");
    let check = |at: &str| {
        let (read, found) = files_with(&engine, CANARY.as_bytes());
        assert!(read > 0, "{at}: no file of the engine in {}", engine.display());
        assert_eq!(found, [""; 0], "{at}");
        assert!(!run(&person).to_string().contains(CANARY), "{at}");
    };
    check("submitted");
    serve(&person);
    check("parked at a call");
    succeeds(&person, &["fleet", "approve", &id, "--digest", &digest(&person, &id)]);
    serve(&person);
    check("parked at a second call");
    succeeds(&person, &["fleet", "approve", &id, "--no", "--because", CANARY]);
    serve(&person);
    check("parked at a question");
    succeeds(&person, &["fleet", "answer", &id, &format!("neither {CANARY}")]);
    serve(&person);
    check("parked until a time");
    succeeds(&person, &["fleet", "steer", &id, CANARY]);
    let schedule = ["fleet", "schedule", "often", CANARY, "--every", "1h"];
    succeeds(&person, &schedule);
    serve(&person);
    serve(&person);
    check("with a child and a schedule");
    let (_, found) = files_with(&person.home(), CANARY.as_bytes());
    assert!(!found.is_empty(), "the sessions hold it");
    assert!(person.project().join(format!("{CANARY}-path")).exists(), "the approved call ran");
}
