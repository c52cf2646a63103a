//! A sandbox that stops working in the middle of a conversation.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::network::sandboxed;
use crate::servers::has;
use crate::terminal::Terminal;
use crate::zk::{Person, program, server, until};

/// End of a question of a command.
const ASKED: &str = "y  Yes";

/// Parent of a process, and the name it was started by.
fn parent_and_name(pid: i32) -> Option<(i32, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    Some((parent, line.split('\0').next()?.to_owned()))
}

/// Kills the processes with which this zk holds its commands, and waits for their end.
fn kill_helpers(zk: i32) {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_helper = |pid: &i32| parent_and_name(*pid) == Some((zk, "cmd-supervisor".to_owned()));
    let helpers: Vec<i32> = pids.filter(is_helper).collect();
    assert!(!helpers.is_empty(), "a command ran, so that there is one");
    for helper in helpers {
        kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
        // One that nobody has waited for has no command line.
        until("the end of a helper", || !is_helper(&helper));
    }
}

/// Lets everything in the user namespace of this zk make as many namespaces.
#[expect(clippy::disallowed_methods, reason = "the machine of the program is changed from outside")]
fn allow_namespaces(zk: i32, most: u32) {
    let target = zk.to_string();
    let order = format!("echo {most} > /proc/sys/user/max_user_namespaces");
    let args = ["--user", "--target", &target, "--preserve-credentials", "sh", "-c", &order];
    assert!(Command::new("nsenter").args(args).stdin(Stdio::null()).status().unwrap().success());
}

/// A model that wants these commands in turn; once as many are done, the machine of the program is `changed`.
fn wants_each(
    commands: &'static [&'static str],
    changed: impl Fn(usize, i32) + Send + Sync + 'static,
) -> FakeServer {
    let zk = OnceLock::<i32>::new();
    server(Script::answering(move |asked| {
        let done = asked.messages.len() / 2;
        if let Some(result) = asked.results().last() {
            // The first command tells the number of the program.
            changed(done, *zk.get_or_init(|| result.text.lines().next().unwrap().trim().parse().unwrap()));
        }
        match commands.get(done) {
            Some(command) => Turn::new().call("shell", json!({ "command": command })),
            None => {
                let told = asked.results().iter().map(|result| result.text.clone()).collect::<Vec<_>>();
                Turn::new().text(format!("Told: {told:?}"))
            }
        }
    }))
}

/// The program in a user namespace of its own; its number is in the project's `pid`.
fn open(person: &Person, args: &str) -> Option<Terminal> {
    let zk = program().display();
    let inner = format!("echo \\$\\$ > pid; exec {zk} {args}");
    Terminal::run(person, &format!("exec unshare --user --map-root-user sh -c \"{inner}\""))
}

/// Whether this machine lets somebody without rights have a user namespace with a sandbox in it.
fn can_nest() -> bool {
    has("unshare", &["--user", "--map-root-user", "true"]) && has("nsenter", &["--version"])
}

#[test]
fn a_sandbox_that_cannot_be_set_up_any_more_has_each_command_ask_and_nothing_runs_in_its_place() {
    if !can_nest() {
        return;
    }
    let model =
        wants_each(&["cat pid", "echo two > two", "echo three > three", "echo four > four"], |done, zk| {
            if done == 1 {
                allow_namespaces(zk, 0);
                kill_helpers(zk);
            }
        });
    let Some(person) = sandboxed(&model) else { return };
    let made = |name: &str| person.project().join(name).exists();
    let Some(mut terminal) = open(&person, "'go'") else { return };
    let mut shown = terminal.until(ASKED);
    for (key, name, next) in [("n", "three", ASKED), ("y", "four", "Told: ")] {
        assert!(shown.contains("the sandbox cannot be set up") && shown.contains("as you"), "{shown}");
        assert!(!made("two") && !made(name), "it ran unasked: {shown}");
        shown = terminal.answer_until(key, next);
    }
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!made("two") && !made("three") && made("four"));
    let told = model.bodies().last().unwrap().to_string();
    assert!(told.contains("cannot make a user namespace"), "the model is told why: {told}");
}

#[test]
fn a_lost_sandbox_that_can_be_set_up_again_holds_the_next_command_and_nobody_is_asked() {
    if !can_nest() {
        return;
    }
    let commands =
        &["cat pid", "echo two > two", "echo three > three", "echo in > in; echo out > ../outside"];
    let model = wants_each(commands, |done, zk| match done {
        1 => {
            allow_namespaces(zk, 0);
            kill_helpers(zk);
        }
        3 => allow_namespaces(zk, 10_000),
        _ => {}
    });
    let Some(person) = sandboxed(&model) else { return };
    let Some(mut terminal) = open(&person, "'go'") else { return };
    let asked = terminal.until(ASKED);
    assert!(asked.contains("until the sandbox can be set up again"), "{asked}");
    let shown = terminal.answer_until("n", "Told: ");
    assert!(shown.contains("the sandbox is set up again: commands run in it from now on"), "{shown}");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let made = |name: &str| person.project().join(name).exists();
    assert!(made("in") && !made("../outside") && !made("two") && !made("three"));
}

#[test]
fn a_sandbox_whose_helper_was_killed_is_set_up_anew_and_holds_the_next_command() {
    if !can_nest() {
        return;
    }
    let model = wants_each(&["cat pid", "echo in > in; echo out > ../outside"], |done, zk| {
        if done == 1 {
            kill_helpers(zk);
        }
    });
    let Some(person) = sandboxed(&model) else { return };
    let Some(mut terminal) = open(&person, "'go'") else { return };
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(person.project().join("in").exists());
    assert!(!Path::new(&person.project()).parent().unwrap().join("outside").exists());
}

#[test]
fn a_read_only_sandbox_that_was_lost_leaves_plain_reads_and_is_set_up_again_when_it_can_be() {
    const WRITES: &str = "test -w . && echo open || echo held";
    if !can_nest() {
        return;
    }
    let commands = &["cat pid", WRITES, WRITES, "git log -1", WRITES, WRITES];
    let model = wants_each(commands, |done, zk| match done {
        1 => {
            allow_namespaces(zk, 0);
            kill_helpers(zk);
        }
        4 => allow_namespaces(zk, 10_000),
        _ => {}
    });
    if sandboxed(&model).is_none() {
        return;
    }
    let person = Person::asking(&model).with("ZK_CONTEXT", "");
    for (path, text) in [("HEAD", "ref: refs/heads/main"), ("config", ""), ("objects/x", ""), ("refs/x", "")]
    {
        person.write(&format!(".git/{path}"), text);
    }
    let Some(terminal) = open(&person, "-p --permission-mode ask 'go'") else { return };
    let shown = terminal.rest();
    assert!(shown.contains("commands that only read are asked about, but for programs"), "{shown}");
    assert!(shown.contains("the read-only sandbox is set up again"), "{shown}");
    let told = model.bodies().last().unwrap().to_string();
    assert!(told.contains("cannot make a user namespace"), "the one that found out fails: {told}");
    assert!(told.contains("no sandbox is there to hold them"), "{told}");
    // The shorter list needs no sandbox; afterwards there is one again.
    assert_eq!((told.matches("open\\n").count(), told.matches("held\\n").count()), (1, 2), "{told}");
}
