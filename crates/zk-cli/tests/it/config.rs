use crate::terminal::Terminal;
use crate::zk::{Person, program};

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

#[test]
fn an_edit_counts_once_the_text_is_right_and_goes_on_with_one_that_was_not() {
    let person = Person::new();
    person.settings("# mine\nmodel = \"a\" # quick\n");
    let settings = || std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    let edit = |editor: &str| {
        let command = format!("exec env EDITOR={editor:?} {} config edit", program().display());
        let terminal = Terminal::run(&person, &command)?;
        Some(terminal.rest())
    };
    let Some(shown) = edit("sed -i s/quick/slow/") else { return };
    assert!(shown.contains("is changed"), "{shown:?}");
    assert_eq!(settings(), "# mine\nmodel = \"a\" # slow\n");

    let shown = edit("sed -i s/model/max_turns/").unwrap();
    assert!(shown.contains("max_turns") && shown.contains("nothing was changed"), "{shown:?}");
    assert_eq!(settings(), "# mine\nmodel = \"a\" # slow\n");
    let shown = edit("sed -i 's/.a. /5 /'").unwrap();
    assert!(shown.contains("continues with your text") && shown.contains("is changed"), "{shown:?}");
    assert_eq!(settings(), "# mine\nmax_turns = 5 # slow\n");

    // A text that began before another change takes nothing back.
    edit("sed -i s/max_turns/no_such_key_of_zk=/").unwrap();
    assert_eq!(person.run(&["config", "set", "max_turns", "6"]).code, 0);
    let shown = edit("true").unwrap();
    assert!(shown.contains("changed since your text"), "{shown:?}");
    assert!(settings().contains("max_turns = 6"), "{}", settings());

    // A file that nothing else can read is what an editor is for.
    person.settings("max_turns = = 5\n");
    let shown = edit("sed -i 's/= =/=/'").unwrap();
    assert!(shown.contains("is changed"), "{shown:?}");
    assert_eq!(settings(), "max_turns = 5\n");
    let shown = edit("false").unwrap();
    assert!(shown.contains("the editor failed"), "{shown:?}");
    assert_eq!(settings(), "max_turns = 5\n");
    assert_eq!(person.run(&["config", "edit"]).code, 2, "without a terminal");
}
