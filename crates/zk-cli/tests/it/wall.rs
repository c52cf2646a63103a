//! Walls around what runs unasked: they follow the mode in force, and the files that are there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::network::sandboxed;
use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// A model that wants these commands in turn, each after `before` was told its number.
fn wants_each(
    commands: &'static [&'static str],
    before: impl Fn(usize) + Send + Sync + 'static,
) -> FakeServer {
    server(Script::answering(move |asked| {
        let done = asked.messages.len() / 2;
        match commands.get(done) {
            Some(command) => {
                before(done);
                Turn::new().call("shell", json!({ "command": command }))
            }
            None => Turn::new().text("Told."),
        }
    }))
}

#[test]
fn a_file_that_appears_under_a_denied_name_is_hidden_from_the_next_command_that_nobody_can_see_into() {
    const SCRIPT: &str = "exec 2>&1; cat missing/key sub/.env new/deep/.env; echo end";
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let project = root.clone();
    let model = wants_each(&["sh work.sh", "sh work.sh", "sh work.sh", "sh work.sh"], move |done| {
        let write = |path: &str| {
            let path = project.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "CANARY").unwrap();
        };
        match done {
            1 => ["missing/key", "sub/.env"].into_iter().for_each(write),
            2 => write("new/deep/.env"),
            // Nothing holds what a link leads to.
            3 => symlink("../work.sh", project.join("sub2/.env")).unwrap(),
            _ => fs::create_dir_all(project.join("sub2")).unwrap(),
        }
    });
    let Some(person) = sandboxed(&model) else { return };
    fs::write(root.join("work.sh"), SCRIPT).unwrap();
    person.settings("[permissions]\ndeny = [\"read(missing/**)\", \"read(**/.env)\"]\n");
    let ended = person.run(&["-p", "go", "--cwd", root.to_str().unwrap()]);
    let told = format!("{}{}", model.bodies().last().unwrap(), ended.stderr);
    assert!(!told.contains("CANARY"), "{told}");
    assert_eq!(told.matches("\\nend").count(), 3, "{told}");
    assert!(told.contains("Blocked: ") && told.contains("rule: deny `read(**/.env)`"), "{told}");
}

#[test]
fn credentials_of_the_project_that_appear_while_it_runs_are_hidden_from_every_recursion() {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let project = root.clone();
    let model = wants_each(&["grep -r KEY= .", "grep -r KEY= .", "grep -r KEY= ."], move |done| {
        let name = ["plain", "sub/.env", "sub/.ENV.local"][done];
        fs::create_dir_all(project.join("sub")).unwrap();
        fs::write(project.join(name), format!("KEY=CANARY-{done}")).unwrap();
    });
    let Some(person) = sandboxed(&model) else { return };
    for mode in ["ask", "auto"] {
        let ended = person.run(&["-p", "go", "--permission-mode", mode, "--cwd", root.to_str().unwrap()]);
        let told = format!("{}{}", model.bodies().last().unwrap(), ended.stderr);
        assert_eq!(told.matches("plain:KEY=CANARY-0").count(), 3, "{told}");
        assert!(!told.contains("CANARY-1") && !told.contains("CANARY-2"), "{told}");
        fs::remove_dir_all(root.join("sub")).unwrap();
    }
}

/// Each mode has the read-only sandbox that its reads need, whatever mode the conversation began with.
#[test]
fn a_tighter_mode_that_is_chosen_later_holds_reads_in_a_sandbox_of_its_own() {
    let command = "test -w . && echo open || echo held";
    let model = server(Script::answering(move |asked| match asked.messages.len() {
        1 | 5 => Turn::new().call("shell", json!({ "command": command })),
        _ => Turn::new().text(format!("Told: {:?}.", asked.results().last().map(|result| &result.text))),
    }));
    if sandboxed(&model).is_none() {
        return;
    }
    let person = Person::asking(&model).with("ZK_CONTEXT", "");
    let Some(mut terminal) = Terminal::open(&person, "--permission-mode all 'go'") else { return };
    terminal.expect("Told: Some(\"open");
    terminal.expect("› ");
    terminal.keys("/permissions ask\r");
    terminal.expect("ask: reads run");
    terminal.expect("› ");
    terminal.keys("again\r");
    terminal.expect("Told: Some(\"held");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

/// To git they are files that nobody may read, so that it stops where it would record them as gone.
#[test]
fn tracked_files_that_a_rule_hides_are_never_recorded_as_deleted_by_a_commit_of_everything() {
    let commands = &[
        "git status --porcelain",
        "git add -A",
        "git add .",
        "git rm -q --cached f; git add -u",
        "git -c user.name=a -c user.email=a@b commit -qam all",
        "git stash",
        "git -c user.name=a -c user.email=a@b commit -qm staged",
    ];
    for rule in ["read(private/**)", "read(.env)"] {
        let model = wants_each(commands, |_| ());
        let Some(person) = sandboxed(&model) else { return };
        let git = |args: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let child = person.spawn(Path::new("/usr/bin/git"), &[&who[..], args].concat(), Stdio::null());
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{args:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        for path in ["private/x", ".env", "f"] {
            person.write(path, "as it was");
        }
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-qm", "first"]);
        person.write("f", "changed");
        person.settings(&format!("[permissions]\ndeny = [\"{rule}\"]\n"));
        let ended = person.run(&["-p", "go"]);
        let told = model.bodies().last().unwrap()["messages"].to_string();
        let (kept, staged) = (git(&["ls-tree", "-r", "--name-only", "HEAD"]), git(&["ls-files"]));
        for name in ["private/x", ".env"] {
            assert!(
                kept.contains(name) && staged.contains(name),
                "{rule}: {kept}{staged}{told}{}",
                ended.stderr
            );
            assert_eq!(fs::read_to_string(person.project().join(name)).unwrap(), "as it was");
        }
    }
}
