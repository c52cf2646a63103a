//! Changes that a sub-agent made in a copy and that wait for a review, over the death of the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, path, program, server, until};

/// Person whose zk was killed while a patch of `main.1` waited; the model gives `last` in the next process.
#[expect(clippy::disallowed_methods, reason = "the repository is made as a person makes it")]
fn killed(last: fn(usize) -> Turn) -> (Person, zk_testkit::FakeServer) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = server(Script::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Turn::new().call("spawn", json!({"task": "add b.txt", "isolation": "worktree"})),
        1 => Turn::new().call("write_file", json!({"path": "b.txt", "content": "two\n"})),
        2 => Turn::new().text("Added."),
        3 => Turn::new().hang(),
        number => last(number - 4),
    }));
    let person = Person::asking(&server);
    person.write("a.txt", "one\n");
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"],
    ] {
        let mut git = Command::new("git");
        let done = git.args(args).current_dir(person.project()).env("PATH", path()).status().unwrap();
        assert!(done.success(), "git {args:?}");
    }
    let mut child = person.spawn(program(), &["-p", "Add b.txt.", "--allow-all"], Stdio::null());
    until("the patch to wait", || asked.load(Ordering::SeqCst) == 4);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!person.project().join("b.txt").exists());
    (person, server)
}

/// Paths of kept patches, and of copies.
fn left(person: &Person) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_kept = path.extension().is_some_and(|name| name == "patch" || name == "changes");
            if is_kept || path.file_name().is_some_and(|name| name == "own.git") {
                found.push(path.clone());
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(person.project().parent().unwrap(), &mut found);
    found
}

#[test]
fn a_patch_that_waited_when_zk_was_killed_is_listed_shown_and_applied_by_the_next_one() {
    let (person, server) = killed(|number| match number {
        0 => Turn::new().call("apply_changes", json!({"agent": "main.1"})),
        _ => Turn::new().text("Applied."),
    });
    assert_eq!(left(&person).len(), 2, "{:?}", left(&person));
    if let Some(mut terminal) = Terminal::open(&person, "--screen plain --continue") {
        terminal.keys("/changes\r");
        terminal.expect("changes of main.1 (+1 -0 in b.txt)");
        terminal.keys("/changes main.1\r");
        terminal.expect("+two");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
    let ended = person.run(&["-p", "--continue", "--allow-all", "/changes apply main.1"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("wait for a review: /changes"), "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("applied the changes of main.1"), "{told}");
    assert_eq!(std::fs::read_to_string(person.project().join("b.txt")).unwrap(), "two\n");
    assert_eq!(left(&person), Vec::<PathBuf>::new());
}

#[test]
fn a_patch_that_is_refused_leaves_nothing_behind() {
    let (person, _server) = killed(|_| Turn::new().text("Well."));
    let Some(mut terminal) = Terminal::open(&person, "--screen plain --continue") else { return };
    terminal.keys("/changes discard main.2\r");
    terminal.expect("no changes of `main.2` wait");
    terminal.keys("/changes discard main.1\r");
    terminal.expect("changes of main.1 (+1 -0 in b.txt) are discarded");
    assert_eq!(left(&person), Vec::<PathBuf>::new());
    terminal.keys("/changes\r");
    terminal.expect("no changes of a sub-agent's copy wait");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let ended = person.run(&["-p", "--continue", "And now?"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("wait for a review"), "{}", ended.stderr);
    assert!(!person.project().join("b.txt").exists());
}
