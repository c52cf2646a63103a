use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

#[test]
fn the_version_is_one_line() {
    let ended = Person::new().run(&["--version"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, concat!("zk ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn the_help_is_as_reviewed() {
    let ended = Person::new().run(&["-h"]);
    assert_eq!(ended.code, 0);
    insta::assert_snapshot!(ended.stdout);
}

#[test]
fn wrong_usage_is_told_on_standard_error_and_ends_with_2() {
    for args in [
        &["--frobnicate"][..],
        &["-p", "x", "--max-turns", "0"],
        &["-p", "x", "--thinking", "much"],
        &["-p", "x", "--output-format", "yaml"],
        &["-p", "x", "--preset", "nothing"],
        &["fix", "demo"],
        &["-p"],
        &["-p", "x", "--cwd", "/nonexistent/dir"],
        &["config"],
    ] {
        let ended = Person::new().run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn an_unquoted_prompt_says_what_is_wrong() {
    let ended = Person::new().run(&["fix", "the", "test"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("'the'"), "{}", ended.stderr);
}

#[test]
fn the_registry_lists_what_is_registered_and_by_whom_and_hooks_only_commands() {
    let hooks = Person::new().run(&["hooks"]);
    assert_eq!(hooks.stdout, Person::new().run(&["hooks", "list"]).stdout);
    assert!(hooks.stdout.starts_with("no command is a hook"), "{}", hooks.stdout);
    let ended = Person::new().run(&["debug", "registry"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for (kind, name) in [("service", "exec"), ("tool", "read_file"), ("handler", "tool:gate")] {
        let line = ended.stdout.lines().find(|line| line.starts_with(kind) && line.contains(name));
        assert!(line.is_some(), "{kind} {name}\n{}", ended.stdout);
    }
}

#[test]
fn the_help_of_a_command_has_its_own_options_and_a_line_of_those_of_every_command() {
    let help = Person::new().run(&["sessions", "list", "--help"]).stdout;
    assert!(help.contains("--json") && help.contains("Options of every command that count here: "), "{help}");
    for option in ["--api-key", "--permission-mode", "--verbose", "--mcp-config"] {
        assert!(!help.contains(option), "{option}: {help}");
    }
    let doctor = Person::new().run(&["doctor", "--help"]).stdout;
    assert!(doctor.contains("--base-url") && doctor.contains("--permission-mode"), "{doctor}");
    let all = Person::new().run(&["--help"]).stdout;
    let (own, global) = all.split_once("Options of every command:").unwrap();
    assert!(own.contains("--print") && global.contains("--provider") && !own.contains("--provider"), "{all}");
}

#[test]
fn the_place_of_commands_is_named_by_run_in_and_by_its_name_of_before() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    for flag in ["--run-in", "--context"] {
        let ended = person.run(&["-p", "hi", flag, "nowhere"]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains("--run-in"), "{}", ended.stderr);
    }
    assert!(!person.run(&["--help"]).stdout.contains("--context"));
}

#[test]
fn a_prompt_without_quotes_and_a_resume_without_an_id_say_what_to_write() {
    for (args, hint) in [
        (
            &["-p", "what", "is", "this"][..],
            "put a prompt of several words in quotes: zk -p \"what is this\"",
        ),
        (&["--resume"], "--resume needs an ID"),
        (&["--resume", ""], "--resume needs an ID"),
    ] {
        let ended = Person::new().run(args);
        assert_eq!(ended.code, 2, "{args:?}");
        assert!(ended.stderr.contains(hint), "{args:?}: {}", ended.stderr);
    }
    let ended = Person::new().run(&["--rseume", "x"]);
    assert!(!ended.stderr.contains("quotes"), "{}", ended.stderr);
}

#[test]
fn one_word_that_is_nearly_a_command_is_an_error_that_names_it_unless_it_is_said_to_be_a_prompt() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    for (word, command) in [
        ("sessoins", "zk sessions"),
        ("model", "zk models"),
        ("Docter", "zk doctor"),
        ("login", "zk auth login"),
        ("resume", "zk --resume"),
        ("upgrade", "zk update --check"),
    ] {
        let ended = person.run(&[word]);
        assert_eq!(ended.code, 2, "{word}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("did you mean `{command}`?")), "{}", ended.stderr);
    }
    let ended = person.run(&["update"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("--check"), "{}", ended.stderr);
    assert!(server.bodies().is_empty());
    for args in [&["-p", "sessoins"][..], &["--", "sessoins"], &["explain"], &["fix"]] {
        let ended = person.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    }
    assert_eq!(server.bodies().len(), 4);
}
