//! Commands in the background of a conversation, through the program.

use std::process::Stdio;

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, program, server, until};

fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_model_starts_lists_reads_and_kills_a_background_command() {
    let command = "echo $$ > pid; echo ready; sleep 600";
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": command, "background": true})))
        .turn(|t| t.call("shell", json!({"command": "until [ -s pid ]; do sleep 0.02; done; sleep 0.2"})))
        .turn(|t| t.call("jobs", json!({"action": "list"})))
        .turn(|t| t.call("jobs", json!({"action": "tail", "id": "job-1"})))
        .turn(|t| t.call("jobs", json!({"action": "kill", "id": "job-1"})))
        .turn(|t| t.text("done"));
    let server = server(script);
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
    let all = serde_json::to_string(&server.bodies()).unwrap();
    for expected in [
        "job-1 started; it ends with this conversation",
        "job-1  running; 6 B printed, 6 B unread",
        "ready\\n(job-1: running)",
        "(job-1: killed after ",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    assert!(is_gone(&std::fs::read_to_string(person.project().join("pid")).unwrap()));
}

#[test]
fn a_background_command_ends_with_the_program_however_that_ends() {
    for kill in [false, true] {
        let command = "setsid sleep 600 & echo $! > inner; echo $$ > pid; wait";
        let wait = "until [ -s pid ]; do sleep 0.02; done";
        let script = Script::answering(move |asked| match asked.number {
            1 => Turn::new().call("shell", json!({"command": command, "background": true})),
            2 => Turn::new().call("shell", json!({"command": wait})),
            _ if kill => Turn::new().text("waiting").hang(),
            _ => Turn::new().text("done"),
        });
        let server = server(script);
        let person = Person::asking(&server);
        let mut child = person.spawn(program(), &["-p", "x", "--allow-all"], Stdio::null());
        if kill {
            until("the third request", || server.bodies().len() == 3);
            child.kill().unwrap();
        }
        child.wait().unwrap();
        for file in ["pid", "inner"] {
            let pid = std::fs::read_to_string(person.project().join(file)).unwrap();
            until("the end of the job", || is_gone(&pid));
        }
    }
}
