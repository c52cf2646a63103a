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

#[test]
fn the_model_is_told_when_a_background_command_ends_unless_it_waited_for_that() {
    let told = |how: serde_json::Value| {
        let script = Script::answering(move |asked| match asked.number {
            1 => {
                let command = "until [ -e go ]; do sleep 0.02; done; echo made; exit 3";
                Turn::new().call("shell", json!({"command": command, "background": true}))
            }
            2 => Turn::new().call(
                "shell",
                json!({"command": "touch go; until [ -e none ]; do sleep 0.3; touch none; done"}),
            ),
            3 => Turn::new().call("jobs", how.clone()),
            _ => Turn::new().text("done"),
        });
        let server = server(script);
        let person = Person::asking(&server);
        let ended = person.run(&["-p", "x", "--allow-all"]);
        assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
        serde_json::Value::from(server.bodies()).to_string()
    };
    let all = told(json!({"action": "list"}));
    assert!(all.contains("job-1 has ended: exit 3 after "), "{all}");
    assert!(all.contains("`jobs` reads what it printed"), "{all}");
}

#[test]
fn what_the_model_waits_for_or_kills_is_not_told_a_second_time() {
    for action in ["wait", "kill"] {
        let script = Script::answering(move |asked| match asked.number {
            1 => Turn::new().call("shell", json!({"command": "sleep 0.5", "background": true})),
            2 => Turn::new().call("jobs", json!({"action": action, "id": "job-1"})),
            _ => Turn::new().text("done"),
        });
        let server = server(script);
        let person = Person::asking(&server);
        assert_eq!(person.run(&["-p", "x", "--allow-all"]).code, 0);
        let all = serde_json::Value::from(server.bodies()).to_string();
        assert!(all.contains("(job-1: ") && !all.contains("has ended"), "{action}: {all}");
    }
}
