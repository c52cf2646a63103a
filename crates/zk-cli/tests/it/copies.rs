//! Copies of the project for sub-agents, in a conversation on a terminal.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

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
