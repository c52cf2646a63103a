use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use zk_testkit::{Script, Turn};

use crate::zk::{Person, program, server, until};

fn kill(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn endless() -> Script {
    Script::answering(|_| Turn::new().text("Some text, and then nothing more").hang())
}

/// Starts a run and waits for the first text of its answer.
fn in_mid_stream(person: &Person) -> (Child, BufReader<std::process::ChildStdout>) {
    let args = ["-p", "x", "--output-format", "stream-json"];
    let mut child = person.spawn(program(), &args, Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("stream:text") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the output ended");
    }
    (child, lines)
}

fn rest(mut lines: BufReader<std::process::ChildStdout>) -> Value {
    let mut text = String::new();
    lines.read_to_string(&mut text).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn an_interrupt_in_mid_stream_ends_with_130_and_still_tells_the_result() {
    let server = server(endless());
    let person = Person::asking(&server);
    let (mut child, lines) = in_mid_stream(&person);
    kill(&child, Signal::INT);
    let result = rest(lines);
    assert_eq!((&result["type"], &result["stop_reason"]), (&json!("result"), &json!("aborted")));
    assert_eq!(result["is_error"], true);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("the server seeing it", || server.abandoned() > 0);
}

#[test]
fn a_termination_ends_with_143() {
    let server = server(endless());
    let person = Person::asking(&server);
    let (mut child, lines) = in_mid_stream(&person);
    kill(&child, Signal::TERM);
    assert_eq!(rest(lines)["stop_reason"], "aborted");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn an_interrupted_command_is_gone_with_all_its_children() {
    let script =
        Script::new().turn(|t| t.call("shell", json!({"command": "sleep 600 & echo $! >pid; wait"})));
    let server = server(script);
    let person = Person::asking(&server);
    let mut child = person.spawn(program(), &["-p", "x", "--allow-all"], Stdio::null());
    let file = person.project().join("pid");
    until("the command", || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    let pid = std::fs::read_to_string(&file).unwrap();
    kill(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    until("the end of its child", gone);
}

/// Whatever a command does to get away: its own session, no environment, no parent.
#[test]
fn a_command_that_hid_is_gone_however_the_program_ends() {
    for signal in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP), Some(Signal::KILL)] {
        let hide = json!({"command": "env -i setsid bash -c 'echo $$ >pid; exec sleep 600' >log 2>&1 &"});
        let wait = json!({"command": "until [ -s pid ]; do sleep 0.01; done; sleep 600"});
        let script = Script::new().turn(|t| t.call("shell", hide));
        let server = server(match signal {
            Some(_) => script.turn(|t| t.call("shell", wait)),
            None => script.turn(|t| t.text("Done.")),
        });
        let person = Person::asking(&server);
        let mut child = person.spawn(program(), &["-p", "x", "--allow-all"], Stdio::null());
        let file = person.project().join("pid");
        until("the command", || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
        let pid = std::fs::read_to_string(&file).unwrap();
        if let Some(signal) = signal {
            kill(&child, signal);
        }
        child.wait().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        until("the end of what it started", gone);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_as_a_broken_pipe_does() {
    let deltas: Vec<String> = (0..20_000).map(|n| format!("word {n} ")).collect();
    let server = server(Script::new().turn(|t| t.chunks(deltas)));
    let person = Person::asking(&server);
    let args = ["-p", "x", "--output-format", "stream-json"];
    let mut child = person.spawn(program(), &args, Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_reader_that_takes_one_line_ends_the_run_before_its_commands_are_done() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "sleep 600 & echo $! >pid; wait"})))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let args = ["-p", "x", "--output-format", "stream-json", "--allow-all"];
    let mut child = person.spawn(program(), &args, Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    let file = person.project().join("pid");
    until("the command", || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(141), 0));
    assert_eq!(server.bodies().len(), 1, "the model is not asked again");
}

#[test]
fn help_into_a_closed_pipe_is_quiet() {
    let person = Person::new();
    let mut child = person.spawn(program(), &["config", "show"], Stdio::null());
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: there is no {}", full.display());
        return;
    }
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    for args in ["-p hi", "-p hi --output-format json", "config show"] {
        let command = format!("{} {args} >{}", program().display(), full.display());
        let output =
            person.spawn(Path::new("/bin/sh"), &["-c", &command], Stdio::null()).wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {told}");
        assert!(told.contains("cannot write the output"), "{args}: {told}");
    }
}
