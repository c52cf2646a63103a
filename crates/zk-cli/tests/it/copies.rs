//! Copies of the project for sub-agents, in a conversation on a terminal and in runs without a person.

use assert_cmd::Command;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Ended, Person, program, server};

const SET_UP: &str = "git init -q . && git add . \
    && git -c user.name=Ada -c user.email=ada@example.org commit -qm one";

#[test]
fn a_patch_of_a_killed_zk_waits_for_the_next_one() {
    let written = json!({"path": "notes.txt", "content": "one\ntwo\n"});
    let script = Script::new()
        .turn(|turn| turn.call("spawn", json!({"task": "add a line", "isolation": "worktree"})))
        .turn(|turn| turn.call("write_file", written.clone()))
        .turn(|turn| turn.text("Added."))
        .turn(|turn| turn.text("It waits").hang());
    let server = server(script);
    let person = Person::asking(&server);
    person.write("notes.txt", "one\n");
    let begun = format!("{SET_UP} && echo $$ > ../pid && exec {} --allow-all 'go'", program().display());
    let Some(terminal) = Terminal::run(&person, &begun) else { return };
    terminal.expect("It waits");
    let pid = std::fs::read_to_string(person.project().join("../pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    terminal.rest();

    let Some(mut terminal) = Terminal::open(&person, "--allow-all --continue") else { return };
    terminal.expect("› ");
    terminal.keys("/changes\r");
    terminal.expect("changes of ");
    let agent = terminal.until(" (+1 -0 in notes.txt)");
    terminal.keys(&format!("/changes {agent}\r"));
    terminal.expect("+two");
    terminal.keys(&format!("/changes discard {agent}\r"));
    terminal.expect("are discarded");
    terminal.keys("/changes\r");
    terminal.expect("no changes of a sub-agent's copy wait for a review");
    terminal.leave();
    assert_eq!(std::fs::read_to_string(person.project().join("notes.txt")).unwrap(), "one\n");
}

/// Run without a person in which a sub-agent writes to a copy; `apply` has the model apply the changes.
fn unattended(args: &[&str], apply: bool) -> (Person, Ended) {
    let script = Script::new()
        .turn(|turn| turn.call("spawn", json!({"task": "add a line", "isolation": "worktree"})))
        .turn(|turn| turn.call("write_file", json!({"path": "notes.txt", "content": "one\ntwo\n"})))
        .turn(|turn| turn.text("Added."))
        .respond(move |asked| {
            let told = asked.result_of("spawn").unwrap().text;
            assert!(told.contains("main.1"), "{told}");
            match apply {
                true => Turn::new().call("apply_changes", json!({ "agent": "main.1" })),
                false => Turn::new().text("It waits."),
            }
        })
        .turn(|turn| turn.text("It is applied."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("notes.txt", "one\n");
    Command::new("sh").args(["-c", SET_UP]).current_dir(person.project()).assert().success();
    let ended = person.run(&[&["-p", "--allow-all"], args, &["go"]].concat());
    (person, ended)
}

fn notes(person: &Person) -> String {
    std::fs::read_to_string(person.project().join("notes.txt")).unwrap()
}

#[test]
fn a_run_without_a_person_has_changes_applied_or_says_how_they_wait() {
    let (person, ended) = unattended(&[], true);
    assert_eq!((ended.code, &*notes(&person)), (0, "one\ntwo\n"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("wait for a review"), "{}", ended.stderr);
    let (person, ended) = unattended(&[], false);
    assert_eq!((ended.code, &*notes(&person)), (0, "one\n"), "{}", ended.stderr);
    let line = ended.stderr.lines().find(|line| line.contains("(+1 -0 in notes.txt) wait for a review"));
    assert!(
        line.is_some_and(|line| line.contains("zk --resume ") && line.ends_with("/changes")),
        "{}",
        ended.stderr
    );
    let (person, ended) = unattended(&["--no-session"], false);
    let file = ended.stderr.rsplit("git apply ").next().unwrap_or_default().trim();
    Command::new("git").args(["apply", file]).current_dir(person.project()).assert().success();
    assert_eq!(notes(&person), "one\ntwo\n");
}
