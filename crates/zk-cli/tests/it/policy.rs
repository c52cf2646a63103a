//! Permissions: `zk policy`, the rules of the settings, and the modes.

use serde_json::json;
use zk_testkit::Script;

use crate::zk::{Person, server};

fn first_words(person: &Person, commands: &[&str]) -> Vec<String> {
    let word = |command: &&str| {
        let ended = person.run(&["policy", "test", command]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout.split_whitespace().next().unwrap().to_owned()
    };
    commands.iter().map(word).collect()
}

#[test]
fn a_command_is_judged_by_the_rules_of_the_settings() {
    let person = Person::new();
    person.settings("[permissions]\nallow = [\"make test **\"]\nask = [\"cat *\"]\ndeny = [\"git push **\", \"read(secret/**)\"]\n");
    assert_eq!(
        first_words(
            &person,
            &["ls -la", "cat a", "rm a", "git -C x push", "ls && git push", "head secret/a", "ls $HOME"]
        ),
        ["allow", "ask", "ask", "deny", "deny", "deny", "ask"]
    );
    let ended = person.run(&["policy", "test", "git", "push", "--force"]);
    assert!(ended.stdout.starts_with("deny (mode ask)\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("rule: deny `git push **` (user settings)"), "{}", ended.stdout);
    let ended = person.run(&["policy", "list"]);
    assert!(ended.stdout.contains("allow `make test **` (user settings)"), "{}", ended.stdout);
    let ended = person.run(&["policy", "explain", "npm run *"]);
    assert!(
        ended.stdout.contains("does not match npm run one --more: it has one more argument"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_call_of_any_tool_is_judged_by_what_it_would_do() {
    let person = Person::new();
    person.settings("[permissions]\nallow = [\"write(src/**)\"]\ndeny = [\"tool(mcp_docs_*)\"]\n");
    for (tool, args, expected) in [
        ("read_file", r#"{"path": "a.txt"}"#, "allow (mode ask)\n"),
        ("write_file", r#"{"path": "src/a.rs", "content": ""}"#, "allow (mode ask)\n"),
        ("edit", r#"{"path": "a.rs", "old_string": "a", "new_string": "b"}"#, "ask (mode ask)\n"),
        ("shell", r#"{"command": "ls", "timeout_ms": 5}"#, "allow (mode ask)\n"),
        ("fetch", r#"{"url": "https://docs.rs/"}"#, "ask (mode ask)\n"),
        ("mcp_docs_search", "{}", "deny (mode ask)\n"),
        ("mcp_other_x", "{}", "ask (mode ask)\n"),
    ] {
        let told = person.run(&["policy", "test", "--tool", tool, args]);
        assert!(told.stdout.starts_with(expected), "{tool} {args}: {}{}", told.stdout, told.stderr);
    }
    let ended = person.run(&["policy", "test", "--tool", "edit", "path=a"]);
    assert_eq!(ended.code, 2, "{}", ended.stdout);
    assert!(ended.stderr.contains("the arguments of `edit` are not JSON"), "{}", ended.stderr);
}

#[test]
fn a_host_is_judged_by_the_rules_of_the_settings() {
    let person = Person::new();
    person.settings("[permissions]\nallow = [\"fetch(docs.rs)\"]\ndeny = [\"fetch(*.evil.example)\"]\n");
    let says = |host: &str| person.run(&["policy", "test", "--host", host]).stdout;
    assert!(says("docs.rs").contains("rule: allow `fetch(docs.rs)` (user settings)"), "{}", says("docs.rs"));
    assert!(says("crates.io").starts_with("ask (mode ask)\n"), "{}", says("crates.io"));
    assert!(says("www.evil.example").starts_with("deny (mode ask)\n"), "{}", says("www.evil.example"));
    let ended = person.run(&["policy", "test", "--host", "https://docs.rs/serde"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("give the host of `https://docs.rs/serde` alone"), "{}", ended.stderr);
    let ended = person.run(&["policy", "explain", "fetch(docs.rs)"]);
    assert!(ended.stdout.contains("does not match www.docs.rs: it is another host"), "{}", ended.stdout);
}

#[test]
fn rules_of_a_project_hold_once_it_is_trusted_and_take_none_away() {
    let person = Person::new();
    person.settings("[permissions]\ndeny = [\"touch x\"]\n");
    person.write(".zk/settings.toml", "[permissions]\ndeny = [\"touch y\"]\nmode = \"all\"\n");
    assert_eq!(first_words(&person, &["touch x", "touch y"]), ["deny", "ask"]);
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    assert_eq!(first_words(&person, &["touch x", "touch y", "touch z"]), ["deny", "deny", "ask"]);
}

#[test]
fn a_rule_or_mode_that_cannot_be_read_stops_the_start() {
    let person = Person::new();
    for (settings, why) in [
        ("deny = [\"git pu*\"]", "a star stands for whole arguments only"),
        ("deny = \"git push\"", "must be a list of rules"),
        ("deny = [1]", "a rule is a text in quotes"),
        ("allow = [\"**\"]", "a star cannot stand for the program"),
        ("mode = \"yolo\"", "cannot be `yolo`"),
        ("forbid = []", "unknown setting `permissions.forbid`"),
    ] {
        person.settings(&format!("[permissions]\n{settings}\n"));
        let ended = person.run(&["config", "show"]);
        assert_eq!(ended.code, 2, "{settings}");
        assert!(ended.stderr.contains(why), "{settings}: {}", ended.stderr);
    }
    person.settings("");
    let ended = person.run(&["-p", "x", "--permission-mode", "yolo"]);
    assert!(
        ended.code == 2 && ended.stderr.contains("there is no permission mode `yolo`"),
        "{}",
        ended.stderr
    );
    let ended = person.run(&["--permission-mode", "auto", "policy", "test", "ls"]);
    assert!(ended.code == 2 && ended.stderr.contains("needs the sandbox"), "{}", ended.stderr);
}

#[test]
fn an_option_of_zk_behind_the_command_of_a_policy_test_is_an_error() {
    let person = Person::new();
    for args in [
        &["rm -rf x", "--permission-mode", "read-only"][..],
        &["ls", "--permission-mode=auto"],
        &["ls -a", "--cwd", "/tmp"],
        &["--tool", "read_file", "{\"path\": \"a\"}", "--permission-mode", "ask"],
    ] {
        let ended = person.run(&[&["policy", "test"], args].concat());
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stdout);
        assert!(ended.stderr.contains("options of zk come first"), "{args:?}: {}", ended.stderr);
    }
    for args in [&["zk --permission-mode all -p x"][..], &["docker", "--config", "x", "ps"]] {
        let ended = person.run(&[&["policy", "test"], args].concat());
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn without_a_person_only_what_mode_and_rules_allow_runs() {
    for (args, made) in [
        (&["--permission-mode", "read-only"][..], false),
        (&["--permission-mode", "ask"][..], false),
        (&["--permission-mode", "all"][..], true),
        (&["--allow-all"][..], true),
    ] {
        let script = Script::new()
            .turn(|t| t.call("shell", json!({"command": "ls -a && pwd"})))
            .turn(|t| t.call("shell", json!({"command": "touch made"})))
            .turn(|t| t.text("Done."));
        let server = server(script);
        let person = Person::asking(&server);
        person.run(&[&["-p", "x"], args].concat());
        assert_eq!(person.project().join("made").exists(), made, "{args:?}");
    }
    let script =
        Script::new().turn(|t| t.call("shell", json!({"command": "touch made"}))).turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("allow.toml", "[permissions]\nallow = [\"touch *\"]\n");
    assert_eq!(person.run(&["-p", "x", "--config", "allow.toml"]).code, 0);
    assert!(person.project().join("made").exists());
}

#[test]
fn what_was_approved_is_listed_and_revoked_and_a_damaged_file_says_so() {
    let person = Person::new();
    let project = person.project().canonicalize().unwrap();
    let approvals = person.home().join("approvals.toml");
    let text = format!(
        "version = 1\n\
         [[approval]]\nkind = \"exact\"\ncommand = \"make y\"\nproject = {project:?}\ncreated = \"2026-11-22\"\n\
         [[approval]]\nkind = \"prefix\"\nwords = [\"make\", \"x\"]\nproject = {project:?}\ncreated = \"2026-11-22\"\n"
    );
    std::fs::write(&approvals, &text).unwrap();
    assert_eq!(
        first_words(&person, &["make y", "make x --y"]),
        ["allow", "ask"],
        "a prefix is for the sandbox"
    );
    let ended = person.run(&["policy", "list"]);
    assert!(
        ended
            .stdout
            .contains("2. allow `make x **` in the sandbox (approved 2026-11-22; `zk policy revoke 2`)"),
        "{}",
        ended.stdout
    );
    for example in ["   matches        make x --more\n", "   does not match make"] {
        assert!(ended.stdout.contains(example), "{example}: {}", ended.stdout);
    }
    assert_eq!(person.run(&["policy", "revoke", "1"]).code, 0);
    assert_eq!(first_words(&person, &["make y"]), ["ask"]);
    assert_eq!(person.run(&["policy", "revoke", "2"]).code, 2);
    std::fs::write(&approvals, "broken").unwrap();
    let ended = person.run(&["policy", "list"]);
    assert!(ended.code == 1 && ended.stderr.contains("nothing in them counts"), "{}", ended.stderr);
}
