use crate::zk::Person;

#[test]
fn a_setting_is_changed_shown_and_taken_out_and_comments_stay() {
    let person = Person::new();
    person.settings("# mine\nmodel = \"a\" # quick\n\n[permissions]\n# careful\nmode = \"ask\"\n");
    let file = || std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    for (args, expected) in [
        (&["config", "set", "model", "b"][..], "model = \"b\" # quick"),
        (&["config", "set", "permissions.mode", "read-only"], "mode = \"read-only\""),
        (&["config", "set", "max_turns", "7"], "max_turns = 7"),
        (&["config", "set", "tools.disallowed", "[\"shell\"]"], "disallowed = [\"shell\"]"),
    ] {
        let ended = person.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
        let text = file();
        assert!(text.contains(expected) && text.contains("# mine") && text.contains("# careful"), "{text}");
    }
    let shown = person.run(&["config", "get", "permissions.mode", "--origin"]);
    assert!(shown.stdout.contains("read-only") && shown.stdout.contains("settings.toml"), "{}", shown.stdout);
    assert_eq!(person.run(&["config", "unset", "max_turns"]).code, 0);
    assert!(!file().contains("max_turns"), "{}", file());
}

#[test]
fn what_no_setting_takes_is_refused_and_the_file_stays_as_it_was() {
    let person = Person::new();
    person.settings("model = \"a\"\n");
    for (args, word) in [
        (&["config", "set", "modle", "b"][..], "model"),
        (&["config", "set", "max_turns", "many"], "max_turns"),
        (&["config", "set", "permissions.mode", "yolo"], "read-only"),
        (&["config", "set", "permissions.allow_all", "true", "--project"], "ignored"),
        (&["config", "unset", "max_turns"], "max_turns"),
        (&["config", "get", "nothing.such"], "config keys"),
        (&["config", "set", "a..b", "1"], "no key"),
    ] {
        let ended = person.run(args);
        assert!(ended.code == 2 && ended.stderr.contains(word), "{args:?}: {} {}", ended.code, ended.stderr);
    }
    assert_eq!(std::fs::read_to_string(person.home().join("settings.toml")).unwrap(), "model = \"a\"\n");
    assert!(!person.project().join(".zk").exists());
}
