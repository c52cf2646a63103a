//! Files of runs that lose their worker, with real processes: a worker on another machine has an empty disk.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on fails the test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use zk_testkit::{Asked, Script, Turn};

use crate::worker::{Worker, phase, run, sent, submit};
use crate::zk::{Person, server, until};

/// Words of the message about lost changes.
const LOST: &str = "changes of files that were not stored yet went with it";

#[expect(clippy::disallowed_methods, reason = "the repository is the person's")]
fn git(dir: &Path, args: &[&str]) -> String {
    let ran = std::process::Command::new("git").args(args).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Bytes and modes of all files below a directory.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, (metadata.permissions().mode(), bytes));
        }
    }
    found
}

/// Number of turns that the model has had results of.
fn turns(asked: &Asked) -> usize {
    asked.messages.iter().filter(|message| message.results().next().is_some()).count()
}

/// A turn that is kept, one that is not, and an answer.
fn editing() -> Script {
    Script::answering(|asked: &Asked| match turns(asked) {
        0 => Turn::new().call("write_file", json!({"path": "kept.txt", "content": "kept\n"})).call(
            "shell",
            json!({"command": "mv moved now-here; rm gone; chmod 755 plain; echo x > built.log"}),
        ),
        1 => Turn::new()
            .call("write_file", json!({"path": "sub/lost.txt", "content": "lost\n"}))
            .call("shell", json!({"command": "echo x > made-by-shell; touch begun; sleep 60"})),
        _ => Turn::new().text("it is done"),
    })
}

fn project(person: &Person) {
    person
        .write("moved", "moved\n")
        .write("gone", "gone\n")
        .write("plain", "#!/bin/sh\n")
        .write("old.log", "ignored\n")
        .write(".gitignore", "*.log\n");
}

/// A worker is killed between a checkpoint and the next one, its disk is lost, and another worker goes on.
fn loses_its_worker(person: &Person, sent: impl Fn() -> String) {
    let id = submit(person, &["--keep", "Change them."]);
    let runs = person.home().join("worktrees");
    let tree = runs.join("runs").join(&id).join("tree");
    let mut first = Worker::start(person, &["--name", "first", "--permission-mode", "all"]);
    until("the second turn", || tree.join("begun").exists());
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    // The other worker is on a machine that never had the files.
    until("the end of what the worker started", || fs::remove_dir_all(&runs).is_ok());
    let second = Worker::start(person, &["--name", "second", "--permission-mode", "all"]);
    until("the end of the run", || phase(person) == "done");
    assert_eq!(run(person)["worker"], "second");
    let told = sent();
    assert_eq!(told.matches(LOST).count(), 1, "the model is told once: {told}");
    let lost = told.split(LOST).nth(1).unwrap();
    assert!(lost.contains("sub/lost.txt") && lost.contains("made-by-shell"), "{lost}");
    assert!(!lost.contains("kept.txt"), "{lost}");
    second.signal("TERM");
    second.ended();
    let brought = person.run(&["fleet", "files", &id, "out"]);
    assert_eq!(brought.code, 0, "{}", brought.stderr);
    let out = person.project().join("out");
    let mut names: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".gitignore", "kept.txt", "now-here", "plain"]);
    assert_eq!(fs::read_to_string(out.join("kept.txt")).unwrap(), "kept\n");
    assert_eq!(fs::metadata(out.join("plain")).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(!tree.exists(), "a run that is over leaves no files");
}

#[test]
fn a_run_goes_on_with_the_files_of_its_last_commit() {
    let server = server(editing());
    let person = Person::asking(&server).with("ZK_PERMISSION_MODE", "all");
    project(&person);
    let remote = person.home().join("remote.git");
    git(&person.home(), &["init", "-q", "--bare", "remote.git"]);
    person.settings(&format!("[fleet]\nworkspaces = \"git:{}\"\n", remote.display()));
    let dir = person.project();
    git(&dir, &["init", "-q", "-b", "main"]);
    git(&dir, &["add", "-A"]);
    git(&dir, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"]);
    let before = everything(&dir);
    loses_its_worker(&person, || sent(&server));
    fs::remove_dir_all(dir.join("out")).unwrap();
    assert_eq!(everything(&dir), before, "the person's files and repository are as they were");
    let refs = git(&remote, &["for-each-ref", "--format=%(refname)"]);
    assert!(
        refs.lines().all(|name| name.starts_with("refs/zk/runs/r_")) && refs.lines().count() >= 2,
        "{refs}"
    );
}

#[test]
fn a_run_goes_on_with_the_files_of_its_last_snapshot() {
    let server = server(editing());
    let person = Person::asking(&server).with("ZK_PERMISSION_MODE", "all");
    project(&person);
    let store = person.home().join("shared");
    fs::create_dir(&store).unwrap();
    person.settings(&format!("[fleet]\nworkspaces = \"files:{}\"\n", store.display()));
    loses_its_worker(&person, || sent(&server));
}

/// A worker that is started again on the same machine has all files: nothing is lost.
#[test]
fn a_worker_that_starts_again_goes_on_with_its_files() {
    let server = server(editing());
    let person = Person::asking(&server).with("ZK_PERMISSION_MODE", "all");
    project(&person);
    fs::create_dir(person.home().join("shared")).unwrap();
    person.settings(&format!("[fleet]\nworkspaces = \"files:{}\"\n", person.home().join("shared").display()));
    let id = submit(&person, &["--keep", "Change them."]);
    let tree = person.home().join("worktrees/runs").join(&id).join("tree");
    let mut first = Worker::start(&person, &["--name", "same", "--permission-mode", "all"]);
    until("the second turn", || tree.join("begun").exists());
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let second = Worker::start(&person, &["--name", "same", "--permission-mode", "all"]);
    until("the end of the run", || phase(&person) == "done");
    assert!(!sent(&server).contains(LOST), "{}", sent(&server));
    second.signal("TERM");
    second.ended();
    assert_eq!(person.run(&["fleet", "files", &id, "out"]).code, 0);
    let out = person.project().join("out");
    assert_eq!(fs::read_to_string(out.join("sub/lost.txt")).unwrap(), "lost\n");
    assert!(out.join("made-by-shell").exists());
}

/// A checkpoint that fails is told, and the next one has the files of both turns.
#[test]
fn files_that_are_not_kept_are_told_and_kept_later() {
    let server = server(Script::answering(|asked: &Asked| match turns(asked) {
        0 => Turn::new().call("shell", json!({"command": "echo 1 > one; mv $HOME/shared $HOME/away"})),
        1 => Turn::new().call("shell", json!({"command": "echo 2 > two; mv $HOME/away $HOME/shared"})),
        _ => Turn::new().text("it is done"),
    }));
    let person = Person::asking(&server).with("ZK_PERMISSION_MODE", "all");
    fs::create_dir(person.home().join("shared")).unwrap();
    person.settings(&format!("[fleet]\nworkspaces = \"files:{}\"\n", person.home().join("shared").display()));
    let id = submit(&person, &["--keep", "Change them."]);
    let ended = person.run(&["worker", "--once", "--permission-mode", "all"]);
    assert_eq!(phase(&person), "done", "{}", ended.stderr);
    assert!(ended.stderr.contains("the files are not kept after this turn"), "{}", ended.stderr);
    assert_eq!(person.run(&["fleet", "files", &id, "out"]).code, 0);
    let out = person.project().join("out");
    assert!(out.join("one").exists() && out.join("two").exists());
    let again = person.run(&["fleet", "files", &id, "out"]);
    assert!(again.code == 2 && again.stderr.contains("is not empty"), "{}", again.stderr);
}

/// A run that is pinned to a host is handed back by the others; bad input has clear errors.
#[test]
fn what_a_run_with_files_lacks_is_said() {
    let server = server(Script::new().turn(|turn| turn.text("asked on its host")));
    let person = Person::asking(&server);
    let fails = |args: &[&str], words: &str| {
        let ended = person.run(args);
        assert_ne!(ended.code, 0, "{args:?}: {}", ended.stdout);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    };
    fails(&["fleet", "submit", "x", "--keep"], "fleet.workspaces");
    fails(&["fleet", "submit", "x", "--keep", "--workspace", "w"], "cannot be used with");
    person.settings("[fleet]\nworkspaces = \"files:relative\"\n");
    fails(&["fleet", "submit", "x", "--keep"], "begins with / or ~/");
    person.settings("[fleet]\nworkspaces = \"git:/nowhere/at-all.git\"\nhost = \"one\"\n");
    fails(&["fleet", "submit", "x", "--keep"], "is in no git repository");
    let id = submit(&person, &["x", "--workspace", "kept"]);
    fails(&["fleet", "files", &id, "out"], "submitted without `--keep`");
    assert_eq!(person.run(&["worker", "--once"]).code, 0);
    assert_eq!(run(&person)["failure"]["why"], "no_files");

    let id = submit(&person, &["x", "--pin"]);
    let pinned = run(&person);
    assert_eq!(pinned["job"]["queue"], "host:one", "{pinned}");
    person.settings("[fleet]\nhost = \"two\"\n");
    let ended = person.run(&["worker", "--once"]);
    assert!(ended.stderr.contains("its files are on `host:one`"), "{}", ended.stderr);
    assert_eq!(run(&person)["wait"]["for"], "until", "it is handed back for a while");
    person.settings("[fleet]\nhost = \"one\"\n");
    assert_eq!(person.run(&["fleet", "steer", &id, "Go on."]).code, 0);
    let ended = person.run(&["worker", "--once"]);
    assert_eq!(phase(&person), "done", "{}", ended.stderr);
}
