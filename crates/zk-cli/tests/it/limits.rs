//! `[limits]` of the settings, through the program.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

/// Returns the answer to a command that goes over a limit, in the context that is named.
fn answer(limits: &str, context: &str, command: &'static str) -> String {
    let script = Script::answering(move |asked| match asked.number {
        1 => Turn::new().call("shell", json!({ "command": command })),
        _ => Turn::new().text("done"),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.settings(&format!("[limits]\n{limits}\n"));
    let ended = person.run(&["-p", "x", "--permission-mode", "all", "--context", context]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
    serde_json::Value::from(server.bodies()).to_string()
}

#[test]
fn a_command_over_a_limit_is_ended_and_model_and_person_are_told_which() {
    let note = |limit: &str| {
        format!("(stopped by a limit: {limit} (of one command); do it in smaller parts, or raise `[limits]`")
    };
    let many = "while :; do sleep 100 & done";
    for context in ["process", "sandbox"] {
        let told = answer("processes = 30", context, many);
        assert!(told.contains(&note("more than 30 processes")), "{context}: {told}");
        assert!(told.contains("(killed)") && !told.contains("not by zk"), "{told}");
    }
    let told = answer("output_mb = 1", "process", "yes");
    assert!(told.contains(&note("output above 1 MiB")), "{} bytes", told.len());
    let told = answer("seconds = 1", "process", "sleep 100");
    assert!(told.contains("took longer than 1000ms"), "{told}");
}

#[test]
fn the_time_limit_holds_for_commands_in_the_background() {
    let script = Script::answering(move |asked| match asked.number {
        1 => Turn::new().call("shell", json!({ "command": "sleep 100", "background": true })),
        2 => Turn::new().call("jobs", json!({ "action": "wait", "id": "job-1" })),
        _ => Turn::new().text("done"),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[limits]\nseconds = 1\n");
    let ended = person.run(&["-p", "x", "--permission-mode", "all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = serde_json::Value::from(server.bodies()).to_string();
    assert!(told.contains("(job-1: took too long and was ended after "), "{told}");
}

#[test]
fn a_misspelt_limit_is_refused_and_a_project_sets_none() {
    let server = server(Script::new().turn(|t| t.text("done")));
    let person = Person::asking(&server);
    person.settings("[limits]\nmemory = 5\n");
    let ended = person.run(&["-p", "x"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("unknown setting `limits.memory`"), "{}", ended.stderr);
    person.settings("");
    person.write(".zk/settings.toml", "[limits]\nseconds = 1\n");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let ended = person.run(&["-p", "x"]);
    assert!(ended.stderr.contains("`limits.seconds` is ignored"), "{}", ended.stderr);
}

#[test]
fn a_command_can_be_asked_for_outside_of_a_container() {
    let server = server(Script::new().turn(|t| t.text("done")));
    let person = Person::asking(&server);
    let socket = person.home().join("engine.sock");
    let _engine = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    person.settings(&format!("[docker]\nsocket = \"{}\"\n", socket.display()));
    let ended = person.run(&["-p", "x", "--context", "docker:debian"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let asked = serde_json::Value::from(server.bodies()).to_string();
    assert!(asked.contains("after it was denied something"), "{asked}");
}

#[test]
fn a_container_engine_that_nobody_answers_for_is_refused_at_the_start() {
    let server = server(Script::new().turn(|t| t.text("done")));
    let person = Person::asking(&server);
    person.settings("[docker]\nsocket = \"/nowhere/docker.sock\"\n");
    let ended = person.run(&["-p", "x", "--context", "docker:debian"]);
    assert_eq!((ended.code, server.bodies().len()), (1, 0), "{}", ended.stderr);
    let why = "cannot reach the container engine at /nowhere/docker.sock";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    let ended = person.run(&["-p", "x", "--context", "docker:"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let ended = person.run(&["-p", "x", "--context", "docker:debian", "--permission-mode", "auto"]);
    assert!(ended.stderr.contains("the permission mode auto needs the sandbox"), "{}", ended.stderr);
}
