//! Permission modes, the sandbox that goes with them, the audit record, and leaving the sandbox for one command.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

const BACK_TAB: &str = "\u{1b}[Z";

/// Starts a model that calls the shell once, and then repeats the result.
fn calls(args: Value) -> FakeServer {
    server(Script::answering(move |asked| match asked.messages.len() {
        1 => Turn::new().call("shell", args.clone()),
        _ => {
            Turn::new().text(format!("Told: {}.", asked.result_of("shell").map_or(String::new(), |r| r.text)))
        }
    }))
}

/// The lines of the audit record.
pub(crate) fn audit(person: &Person) -> Vec<Value> {
    let dir = person.home().join("audit");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Somebody whose commands run wherever zk chooses, and whether that is the sandbox here.
fn with_default_context(server: &FakeServer) -> (Person, bool) {
    let person = Person::asking(server).with("ZK_CONTEXT", "");
    let told = person.run(&["doctor"]).stdout;
    let line = told.lines().find(|line| line.contains("permissions: ")).unwrap_or_else(|| panic!("{told}"));
    let has_sandbox = line.contains("mode auto, commands run in the sandbox");
    assert!(has_sandbox || line.contains("mode ask, commands run as processes of yours, since "), "{line}");
    (person, has_sandbox)
}

#[test]
fn where_the_sandbox_holds_commands_run_in_it_unasked_and_elsewhere_nothing_changes_unasked() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("made");
    let server = calls(json!({ "command": format!("touch made; touch {}", target.display()) }));
    let (person, has_sandbox) = with_default_context(&server);
    let ended = person.run(&["-p", "go"]);
    assert_eq!(person.project().join("made").exists(), has_sandbox, "{}", ended.stderr);
    assert!(!target.exists());
    let tested = person.run(&["policy", "test", "touch x"]).stdout;
    let expected = if has_sandbox { "allow (mode auto)" } else { "ask (mode ask)" };
    assert!(tested.starts_with(expected), "{tested}");
    // A mode that is named is the mode, and brings no sandbox unless it needs one.
    let tested = person.run(&["--permission-mode", "ask", "policy", "test", "touch x"]).stdout;
    assert!(tested.starts_with("ask (mode ask)"), "{tested}");
    let decided = &audit(&person)[0];
    let context = if has_sandbox { "sandbox" } else { "process" };
    assert_eq!(
        (&decided["context"], &decided["by"] == "policy"),
        (&json!(context), has_sandbox),
        "{decided}"
    );
}

/// Files that a rule denies are out of reach of a script whose words name none of them, so that it needs no question.
#[test]
fn the_sandbox_holds_rules_about_files_against_programs_that_nobody_can_see_into() {
    let server = calls(json!({ "command": "sh work.sh" }));
    let (person, has_sandbox) = with_default_context(&server);
    if !has_sandbox {
        return;
    }
    let project = person.project();
    for (directory, file) in [("private", "private/key"), ("secrets", "secrets/old")] {
        std::fs::create_dir(project.join(directory)).unwrap();
        std::fs::write(project.join(file), "CANARY").unwrap();
    }
    let script =
        "cat private/key; touch secrets/new && echo written; echo x > secrets/old; touch made; echo end";
    std::fs::write(project.join("work.sh"), script).unwrap();
    let rules = "[permissions]\ndeny = [\"read(private/**)\", \"write(secrets/**)\"]\n";
    person.settings(rules);
    let ended = person.run(&["-p", "go"]);
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!told.contains("CANARY") && !told.contains("written"), "{told}");
    assert!(project.join("made").exists() && !project.join("secrets/new").exists(), "{told}");
    assert_eq!(std::fs::read_to_string(project.join("secrets/old")).unwrap(), "CANARY");
    // Without a sandbox, nothing holds them.
    let tested = person.run(&["--permission-mode", "all", "policy", "test", "sh work.sh"]).stdout;
    assert!(tested.starts_with("ask (mode all)"), "{tested}");
}

/// The self-test of the sandbox needs the directory of state.
#[test]
fn the_first_thing_that_is_asked_in_a_new_home_is_answered_as_any_later_one() {
    let server = calls(json!({ "command": "touch x" }));
    let (person, _) = with_default_context(&server);
    let tested = || person.run(&["policy", "test", "touch x"]).stdout;
    let first = tested();
    assert!(person.run(&["-p", "go"]).stdout.contains("Told"));
    assert_eq!(first, tested());
}

/// Whether a directory is written is told by the kernel, whatever the judge takes the command for.
#[test]
fn a_call_that_runs_unasked_as_a_read_writes_nothing_whatever_mode_was_named() {
    let command = "test -w . && echo open || echo held";
    let server = calls(json!({ "command": command }));
    let (person, has_sandbox) = with_default_context(&server);
    if !has_sandbox {
        return;
    }
    for mode in ["read-only", "ask", "accept-edits", "auto"] {
        let ended = person.run(&["-p", "--permission-mode", mode, "go"]);
        assert!(ended.stdout.contains("Told: held"), "{mode}: {}{}", ended.stdout, ended.stderr);
        let tested = person.run(&["--permission-mode", mode, "policy", "test", command]).stdout;
        assert!(tested.starts_with("allow (mode "), "{tested}");
        assert!(tested.ends_with("it would run in a read-only sandbox\n"), "{tested}");
    }
    let ended = person.run(&["-p", "go", "--permission-mode", "ask", "--context", "sandbox"]);
    assert!(ended.stdout.contains("Told: held"), "{}{}", ended.stdout, ended.stderr);
    // A person's own word.
    for args in [["--context", "process"], ["--permission-mode", "all"]] {
        let ended = person.run(&["-p", args[0], args[1], "go"]);
        assert!(ended.stdout.contains("Told: open"), "{args:?}: {}{}", ended.stdout, ended.stderr);
    }
}

/// The self-test of the sandbox needs a place beside zk's own files where commands do not write.
#[test]
fn where_zk_keeps_its_files_in_the_project_a_sandbox_says_so_and_how_to_move_them() {
    let server = calls(json!({ "command": "touch made" }));
    let (person, has_sandbox) = with_default_context(&server);
    if !has_sandbox {
        return;
    }
    let own = person.project().join("own");
    std::fs::create_dir(&own).unwrap();
    let person = person.with("ZK_HOME", own.to_str().unwrap());
    let ended = person.run(&["-p", "go", "--context", "sandbox"]);
    let parts = [
        format!("cannot contain commands in {}", person.project().display()),
        format!("the state directory {} lies in it", own.display()),
        "set ZK_HOME or XDG_STATE_HOME".to_owned(),
    ];
    assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{}", ended.stderr);
    assert!(ended.code != 0 && !person.project().join("made").exists());
}

/// As in a container that shows a part of `/proc` only.
#[test]
fn where_there_is_no_proc_of_its_own_auto_refuses_and_says_so() {
    const COVERED: &str = "mount -t tmpfs none /proc/sys && exec \"$@\"";
    let server = calls(json!({ "command": "touch made" }));
    let person = Person::asking(&server);
    if !Path::new("/usr/bin/unshare").exists() {
        return;
    }
    let zk = program().to_str().unwrap();
    let wrapped = ["--user", "--map-root-user", "--mount", "sh", "-c", COVERED, "sh", zk, "-p", "x"];
    let asked = ["--context", "sandbox", "--permission-mode", "auto"];
    let child = person.spawn(Path::new("/usr/bin/unshare"), &[&wrapped[..], &asked].concat(), Stdio::null());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("unshare: ") || told.contains("mount: ") {
        // This machine lets nobody try.
        return;
    }
    assert!(!output.status.success() && told.contains("cannot mount a fresh /proc"), "{told}");
    assert!(!person.project().join("made").exists() && server.bodies().is_empty());
}

/// The repository is above the directory that zk was started in.
#[test]
fn a_commit_in_a_directory_of_a_repository_needs_no_question() {
    let who = "git -c user.name=a -c user.email=a@b";
    let server =
        calls(json!({ "command": format!("git add -A . && {who} commit -qm done && git log --oneline") }));
    let (person, has_sandbox) = with_default_context(&server);
    person.write("member/file", "x");
    let exec = |args: &[&str]| {
        let child = person.spawn(Path::new("/usr/bin/git"), args, Stdio::null());
        assert!(child.wait_with_output().unwrap().status.success(), "{args:?}");
    };
    exec(&["init", "-q"]);
    let member = person.project().join("member");
    let ended = person.run(&["-p", "go", "--cwd", member.to_str().unwrap()]);
    assert_eq!(ended.stdout.contains(" done"), has_sandbox, "{} {}", ended.stdout, ended.stderr);
    assert!(!person.project().join(".bashrc").exists() && !member.join(".bashrc").exists());
}

fn wants_outside(target: &Path) -> FakeServer {
    calls(
        json!({ "command": format!("touch {}", target.display()), "outside": { "reason": "it is denied" } }),
    )
}

#[test]
fn a_command_leaves_the_sandbox_only_if_a_person_says_so() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("made");
    let server = wants_outside(&target);
    let (person, has_sandbox) = with_default_context(&server);
    if !has_sandbox {
        println!("skipped: there is no sandbox here");
        return;
    }
    let denied = |args: &[&str]| {
        let ended = person.run(&[&["-p", "go", "--output-format", "json"], args].concat());
        assert_eq!(ended.code, 5, "{}", ended.stdout);
        assert!(!target.exists());
        ended.result()["permission_denials"][0].clone()
    };
    let denial = denied(&[]);
    assert_eq!(denial["flag"], "--permission-mode all", "{denial}");
    assert_eq!(audit(&person)[0]["verdict"], "deny");
    // Alone that mode has no sandbox; who names both stays in it.
    denied(&["--permission-mode", "all", "--context", "sandbox"]);

    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let shown = terminal.until("?  why it asks");
    assert!(shown.contains("it is denied") && shown.contains("$ touch "), "{shown}");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(target.exists(), "it ran outside");
    let records = audit(&person);
    let [.., decided, ended] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((&decided["context"], &decided["by"]), (&json!("outside"), &json!("person")), "{decided}");
    assert_eq!(ended["exit"], "exit code 0", "{ended}");
}

/// A model whose sub-agent wants to leave the sandbox, and says what it was told.
fn sub_agent_wants_outside(target: &Path) -> FakeServer {
    let args =
        json!({ "command": format!("touch {}", target.display()), "outside": { "reason": "it is denied" } });
    server(Script::answering(move |asked| {
        let is_child = asked.messages[0].text().contains("the subtask");
        match (is_child, asked.messages.len()) {
            (false, 1) => Turn::new().call("spawn", json!({ "task": "the subtask" })),
            (true, 1) => Turn::new().call("shell", args.clone()),
            (true, _) => Turn::new().text("The child is done."),
            (false, _) => Turn::new().text("Told: all."),
        }
    }))
}

#[test]
fn a_sub_agent_leaves_the_sandbox_only_if_a_person_says_so_to_its_name() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("made");
    let server = sub_agent_wants_outside(&target);
    let (person, has_sandbox) = with_default_context(&server);
    if !has_sandbox {
        println!("skipped: there is no sandbox here");
        return;
    }
    let ended = person.run(&["-p", "go", "--output-format", "json"]);
    assert!(!target.exists(), "{}", ended.stdout);
    let denial = &ended.result()["permission_denials"][0];
    assert_eq!(denial["flag"], "--permission-mode all", "{denial}");

    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let shown = terminal.until("y  Yes");
    let (_, question) = shown.rsplit_once("┏ ").unwrap();
    let (agent, _) = question.split_once(": Run OUTSIDE the sandbox?").unwrap();
    assert!(question.contains("it is denied") && question.contains("$ touch "), "{question}");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(target.exists(), "it ran outside");
    let records = audit(&person);
    let decided: Vec<&Value> =
        records.iter().filter(|r| r["record"] == "decided" && r["tool"] == "shell").collect();
    let [denied, allowed] = decided.as_slice() else { panic!("{records:?}") };
    let brief = |r: &Value| json!([r["verdict"], r["by"], r["context"]]);
    assert_eq!(brief(denied), json!(["deny", "nobody", "outside"]), "{denied}");
    assert_eq!(brief(allowed), json!(["allow", "person", "outside"]), "{allowed}");
    assert_eq!(allowed["agent"], agent, "{allowed}");
    assert_ne!(agent, "main");
}

#[test]
fn shift_tab_and_a_command_change_the_mode_and_show_it() {
    let server = calls(json!({ "command": "touch made" }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("mode ask: ");
    terminal.expect("› ");
    terminal.keys("kept");
    terminal.expect("kept");
    terminal.keys(BACK_TAB);
    terminal.expect("mode accept-edits: ");
    terminal.expect("kept");
    terminal.keys(BACK_TAB);
    terminal.expect("mode plan: ");
    terminal.expect("kept");
    terminal.keys(BACK_TAB);
    terminal.expect("mode read-only: ");
    terminal.expect("kept");
    terminal.keys("\u{15}/permissions auto\r");
    terminal.expect("the mode auto needs the sandbox");
    terminal.expect("› ");
    terminal.keys("/permissions all\r");
    terminal.expect("all: nothing asks");
    terminal.expect("› ");
    terminal.keys("go\r");
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(person.project().join("made").exists(), "nobody was asked");
}

#[test]
fn shift_tab_during_a_run_tightens_the_mode_for_the_next_call() {
    let server = server(Script::answering(|asked| match asked.messages.len() {
        1 => Turn::new()
            .text("Begun …\n")
            .delay(Duration::from_millis(1500))
            .call("shell", json!({ "command": "touch made" })),
        _ => Turn::new().text("Told."),
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--permission-mode all 'go'") else { return };
    terminal.expect("Begun");
    terminal.keys(BACK_TAB);
    terminal.expect("mode plan: ");
    terminal.expect("Told.");
    terminal.expect("\u{1b}[?2004h");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!person.project().join("made").exists());
}

#[test]
fn what_runs_is_in_the_audit_record_before_it_runs_without_secrets_and_for_nobody_else() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({ "command": "cat ../home/audit/* > seen; echo test-key; exit 3" })))
        .turn(|t| t.call("write_file", json!({ "path": ".git/config", "content": "x".repeat(9000) })))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[permissions]\nallow = [\"tool(shell)\"]\n");
    person.run(&["-p", "x"]);
    let records = audit(&person);
    let brief: Vec<Value> = records
        .iter()
        .map(|r| json!([r["record"], r["tool"], r["verdict"], r["by"], r["context"], r["exit"]]))
        .collect();
    assert_eq!(
        brief,
        [
            json!(["decided", "shell", "allow", "policy", "process", null]),
            json!(["ended", "shell", null, null, null, "exit code 3"]),
            json!(["decided", "write_file", "deny", "nobody", "process", null]),
        ]
    );
    assert!(
        records[0]["reasons"][0].as_str().unwrap().contains("rule: allow `tool(shell)`"),
        "{}",
        records[0]
    );
    assert!(records[0]["session"].as_str().unwrap().starts_with("s_") && records[0]["time"].is_string());
    let cut = records[2]["args"]["content"].as_str().unwrap();
    assert!(cut.ends_with("… (9000 bytes)") && cut.len() < 5000, "{}", cut.len());
    let seen = std::fs::read_to_string(person.project().join("seen")).unwrap();
    assert!(seen.contains("\"decided\"") && !seen.contains("\"ended\""), "{seen}");
    let all = records.iter().map(Value::to_string).collect::<String>();
    assert!(!all.contains("test-key"), "{all}");
    let dir = person.home().join("audit");
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(dir).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn where_no_record_can_be_written_nothing_runs() {
    let server = calls(json!({ "command": "touch made" }));
    let person = Person::asking(&server);
    std::fs::write(person.home().join("audit"), "in the way").unwrap();
    let ended = person.run(&["-p", "go", "--allow-all"]);
    assert!(ended.stdout.contains("cannot write the audit record "), "{}", ended.stdout);
    assert!(!person.project().join("made").exists());
    person.settings("[permissions]\naudit = false\n");
    person.run(&["-p", "go", "--allow-all"]);
    assert!(person.project().join("made").exists());
}

#[test]
fn where_no_state_can_be_kept_at_all_that_is_said_once_and_calls_run() {
    let server = calls(json!({ "command": "touch made" }));
    let person = Person::asking(&server);
    let file = person.project().join("file");
    std::fs::write(&file, "no directory").unwrap();
    let person = person.with("ZK_HOME", file.join("state").to_str().unwrap());
    for session in [&["--no-session"][..], &[]] {
        let made = person.project().join("made");
        let _ = std::fs::remove_file(&made);
        let ended = person.run(&[&["-p", "go", "--allow-all"], session].concat());
        assert!(made.exists(), "{}", ended.stderr);
        let said = format!("{} cannot be written (", file.display());
        assert_eq!(ended.stderr.matches(&said).count(), 1, "{}", ended.stderr);
    }
    // A record that was asked for is written, or nothing runs.
    std::fs::remove_file(person.project().join("made")).unwrap();
    let settings = person.project().join("asked.toml");
    std::fs::write(&settings, "[permissions]\naudit = true\n").unwrap();
    let ended = person.run(&["-p", "go", "--allow-all", "--config", settings.to_str().unwrap()]);
    assert!(ended.stdout.contains("cannot write the audit record "), "{}", ended.stdout);
    assert!(!person.project().join("made").exists());
}

/// On a machine that refuses namespaces, as some distributions do to programs without a profile.
#[test]
fn where_namespaces_are_refused_auto_refuses_and_a_named_sandbox_says_what_is_left_of_it() {
    const REFUSING: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = outside.path().join("outside");
    let command = format!("echo in > in; echo out > {}", outside.display());
    let run = |args: &[&str]| {
        let command = command.clone();
        let server = server(Script::answering(move |asked| match asked.number {
            1 => Turn::new().call("shell", json!({ "command": command })),
            _ => Turn::new().text("done"),
        }));
        let person = Person::asking(&server);
        let zk = program().to_str().unwrap();
        let wrapped =
            ["--user", "--map-root-user", "sh", "-c", REFUSING, "sh", zk, "-p", "x", "--context", "sandbox"];
        let all: Vec<&str> = wrapped.iter().chain(args).copied().collect();
        let child = person.spawn(Path::new("/usr/bin/unshare"), &all, Stdio::null());
        let output = child.wait_with_output().unwrap();
        let written = person.project().join("in").exists();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
            written,
            server.bodies().len(),
        )
    };
    if !Path::new("/usr/bin/unshare").exists() {
        return;
    }
    let (code, told, written, requests) = run(&["--permission-mode", "auto"]);
    assert_eq!((written, requests), (false, 0), "{told}");
    assert!(code != Some(0) && told.contains("the sandbox cannot be set up"), "{code:?} {told}");
    assert!(told.contains("`sysctl user.max_user_namespaces=10000` allows it"), "{told}");
    let (code, told, written, _) = run(&["--permission-mode", "all"]);
    assert_eq!((code, written), (Some(0), true), "{told}");
    assert!(told.contains("commands are held by Landlock and seccomp alone"), "{told}");
    assert!(!outside.exists(), "it was written to");
    let (_, told, written, _) = run(&[]);
    assert!(!written && told.contains("commands are held by Landlock and seccomp alone"), "it asks: {told}");
}
