//! Goals without a person, and the list of conversations over processes, through the program.

use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use zk_core::model::ErrorKind;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, program, server, until};

/// Settings without pauses between runs.
const AT_ONCE: &str = "[goals]\npause_ms = 0\n";

/// Model that reaches its goal with the answer of this number; the supervisor holds it for not achieved.
fn reaching(last: usize) -> Script {
    let answers = Arc::new(AtomicUsize::new(0));
    Script::answering(move |asked| {
        if asked.system.starts_with("You judge whether a goal") {
            return Turn::new().text(r#"{"achieved": false, "reason": "two tests fail"}"#);
        }
        match answers.fetch_add(1, Ordering::SeqCst) + 1 {
            number if number >= last => Turn::new().text("All is done.\n\nThe goal is reached."),
            number => Turn::new().text(format!("Step {number}.")),
        }
    })
}

#[test]
fn a_goal_ends_with_0_when_reached_1_without_progress_and_3_at_a_cap() {
    let cases: [(Script, &[&str], i32, &str); 4] = [
        (reaching(3), &[], 0, ""),
        (Script::answering(|_| Turn::new().text("Working.")), &[], 1, "stuck: 3 equal answers in a row"),
        (reaching(100), &["--max-turns", "4"], 3, "capped: 4 turns are over"),
        (
            Script::answering(|_| Turn::new().error(ErrorKind::Rejected, "no")),
            &[],
            1,
            "stuck: 5 failures in a row",
        ),
    ];
    for (script, args, code, told) in cases {
        let server = server(script);
        let person = Person::asking(&server);
        person.settings(AT_ONCE);
        let ended = person.run(&[&["-p", "--goal", "make the tests pass"][..], args].concat());
        assert_eq!(ended.code, code, "{told}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
}

#[test]
fn a_goal_is_reached_once_all_of_its_plan_is_done_and_not_before() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let plan = |last: &str| json!({"todos": [{"content": "write", "status": "completed"}, {"content": "test", "status": last}]});
    let server = server(Script::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Turn::new().call("todo_write", plan("in_progress")),
        1 => Turn::new().text("One of two is done."),
        2 => Turn::new().call("todo_write", plan("completed")),
        3 => Turn::new().text("That was all."),
        _ => Turn::new().text("This goes on for ever."),
    }));
    let person = Person::asking(&server);
    person.settings(AT_ONCE);
    let ended = person.run(&["-p", "--goal", "make the tests pass", "--output-format", "stream-json"]);
    assert_eq!((ended.code, asked.load(Ordering::SeqCst)), (0, 4), "{}", ended.stderr);
    let changed = ended.lines().into_iter().rfind(|line| line["type"] == "goal:changed").unwrap();
    let (state, reason) = (&changed["state"], &changed["reason"]);
    assert_eq!((state.as_str(), reason.as_str()), (Some("completed"), Some("all of the plan is done")));
}

#[test]
fn the_lines_of_a_run_tell_each_change_of_its_goal_and_the_verdicts() {
    let server = server(reaching(7));
    let person = Person::asking(&server);
    person.settings(AT_ONCE);
    let ended = person.run(&["-p", "--goal", "make the tests pass", "--output-format", "stream-json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["type"] == kind).collect() };
    let states: Vec<&str> = of("goal:changed").iter().filter_map(|line| line["state"].as_str()).collect();
    assert_eq!(states, ["active", "completed"]);
    let verdicts = of("goal:verdict");
    assert!(verdicts.iter().all(|line| line["achieved"] == false && line["turns"] == 5), "{verdicts:?}");
}

#[test]
fn a_goal_that_makes_no_sense_is_refused_before_anything_is_asked() {
    let server = server(reaching(1));
    let person = Person::asking(&server);
    for (args, told) in [
        (&["-p", "--goal", "  "][..], "a goal needs a text"),
        (&["-p", "--goal", "x", "--json-schema", "a.json"], "cannot be used with"),
        (&["--goal", "x", "sessions"], "--goal need a prompt"),
        (&["-p", "/goal create --auto x"], "`autonomous = true` under [goals]"),
        (&["fleet", "stop", "nobody"], "no conversation is listed as `nobody`"),
    ] {
        let ended = person.run(args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{args:?}: {}", ended.stderr);
    }
    assert!(server.bodies().is_empty());
}

#[test]
fn a_killed_goal_is_listed_as_orphaned_and_goes_on_where_it_was() {
    let hangs = Arc::new(AtomicUsize::new(0));
    let asked = hangs.clone();
    let script = Script::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Turn::new().text("Step 1."),
        1 => Turn::new().hang(),
        2 => Turn::new().text("Step 3."),
        _ => Turn::new().text("Done.\n\nThe goal is reached."),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.settings(AT_ONCE);
    let mut child = person.spawn(program(), &["-p", "--goal", "make the tests pass"], Stdio::null());
    let listed = || -> Vec<Value> {
        let ended = person.run(&["fleet", "--json"]);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr))
    };
    until("a run in the list", || {
        hangs.load(Ordering::SeqCst) == 2 && listed().first().is_some_and(|one| one["state"] == "running")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let left = listed();
    assert_eq!(left.len(), 1, "{left:?}");
    let (state, goal) = (&left[0]["state"], &left[0]["goal"]);
    assert_eq!((state.as_str(), goal["text"].as_str()), (Some("orphaned"), Some("make the tests pass")));
    let session = left[0]["session"].as_str().unwrap();
    let ended = person.run(&["-p", "--resume", session]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("The goal is reached."), "{}", ended.stdout);
}

#[test]
fn another_process_stops_a_goal_which_pauses() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = server(Script::answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Turn::new().hang()
    }));
    let person = Person::asking(&server);
    let run = ["-p", "--goal", "make the tests pass", "--output-format", "stream-json"];
    let mut child = person.spawn(program(), &run, Stdio::null());
    let first = || -> Option<Value> {
        serde_json::from_str::<Vec<Value>>(&person.run(&["fleet", "--json"]).stdout).ok()?.into_iter().next()
    };
    until("a run in the list", || {
        asked.load(Ordering::SeqCst) == 1 && first().is_some_and(|one| one["state"] == "running")
    });
    let id = first().unwrap()["id"].as_str().unwrap().to_owned();
    let stopped = person.run(&["fleet", "stop", &id]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    let mut lines = String::new();
    child.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    // Exit code of a run that failed: nobody at this process stopped it.
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changed = lines.iter().rfind(|line| line["type"] == "goal:changed").unwrap();
    assert_eq!(changed["state"], "paused", "{changed}");
    assert_eq!(first().map(|left| left["state"].clone()), Some("paused".into()));
}

#[test]
fn a_hang_up_ends_a_run_in_order_and_leaves_no_entry_in_the_list() {
    let server = server(Script::answering(|_| Turn::new().hang()));
    let person = Person::asking(&server);
    let listed = || -> Vec<Value> {
        serde_json::from_str(&person.run(&["fleet", "--json"]).stdout).unwrap_or_default()
    };
    let mut child = person.spawn(program(), &["-p", "go on"], Stdio::null());
    until("a run in the list", || listed().first().is_some_and(|one| one["state"] == "running"));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(listed(), Vec::<Value>::new());
}

#[test]
fn an_open_goal_is_told_when_its_session_is_opened_and_stays_in_the_list_after_a_look() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = server(Script::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Turn::new().text("Step 1."),
        1 => Turn::new().hang(),
        _ => Turn::new().text("Done.\n\nThe goal is reached."),
    }));
    let person = Person::asking(&server);
    person.settings(AT_ONCE);
    let mut child = person.spawn(program(), &["-p", "--goal", "make the tests pass"], Stdio::null());
    until("the second turn", || asked.load(Ordering::SeqCst) == 2);
    let listed = || -> Vec<Value> { serde_json::from_str(&person.run(&["fleet", "--json"]).stdout).unwrap() };
    until("a run in the list", || listed().first().is_some_and(|one| !one["session"].is_null()));
    child.kill().unwrap();
    child.wait().unwrap();
    let session = listed()[0]["session"].as_str().unwrap().to_owned();
    let Some(mut terminal) = Terminal::open(&person, &format!("--screen inline --resume {session}")) else {
        return;
    };
    terminal.expect("the goal of this session is active: /goal resume goes on with it");
    terminal.leave();
    let left = listed();
    assert_eq!((left.len(), left[0]["state"].as_str()), (1, Some("paused")), "{left:?}");
    assert_eq!(left[0]["goal"]["text"], "make the tests pass");
    let mut terminal = Terminal::open(&person, &format!("--screen inline --resume {session}")).unwrap();
    terminal.expect("the goal of this session is");
    terminal.keys("/goal resume\r");
    terminal.expect("The goal is reached.");
    terminal.leave();
    assert!(listed().is_empty());
}

#[test]
fn a_goal_created_on_a_terminal_goes_on_by_itself_until_it_is_reached() {
    let server = server(reaching(3));
    let person = Person::asking(&server);
    person.settings("[goals]\npause_ms = 0\nautonomous = true\n");
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.see("› ");
    terminal.keys("/goal create --auto make the tests pass\r");
    terminal.expect("Step 2.");
    terminal.expect("The goal is reached.");
    terminal.expect("completed");
    terminal.leave();
    let sent = server.bodies().pop().unwrap().to_string();
    assert!(sent.contains("make the tests pass"), "{sent}");
}

#[test]
fn an_orphan_whose_session_was_deleted_leaves_the_list() {
    let server = server(Script::answering(|_| Turn::new().hang()));
    let person = Person::asking(&server);
    let mut child = person.spawn(program(), &["-p", "work"], Stdio::null());
    let list = || person.run(&["fleet", "--json"]).stdout;
    let of_session = || -> Option<String> {
        let listed: Vec<Value> = serde_json::from_str(&list()).unwrap();
        Some(listed.first()?["session"].as_str()?.to_owned())
    };
    until("a run in the list", || of_session().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let path = std::fs::read_dir(person.home().join("fleet")).unwrap().map(|entry| entry.unwrap().path());
    let path = path.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
    // One turn was answered, so that the entry counts.
    let mut entry: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    entry["turns"] = json!(1);
    std::fs::write(&path, entry.to_string()).unwrap();
    let session = of_session().unwrap();
    let deleted = person.run(&["sessions", "delete", &session]);
    assert_eq!(deleted.code, 0, "{}", deleted.stderr);
    assert_eq!(of_session(), None);
}
