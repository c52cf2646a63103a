use crate::zk::Person;

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
fn hooks_lists_what_is_registered_and_by_whom() {
    let ended = Person::new().run(&["hooks"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for (kind, name) in [("service", "exec"), ("tool", "read_file"), ("handler", "tool:gate")] {
        let line = ended.stdout.lines().find(|line| line.starts_with(kind) && line.contains(name));
        assert!(line.is_some(), "{kind} {name}\n{}", ended.stdout);
    }
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
