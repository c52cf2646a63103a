use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
fn the_comment_of_a_file_stays_whatever_is_taken_out_below_it() {
    let person = Person::new();
    person.settings("# my settings\n\nmodel = \"a\"\nmax_turns = 1\n");
    assert_eq!(person.run(&["config", "unset", "model"]).code, 0);
    let text = std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    assert_eq!(text, "# my settings\n\nmax_turns = 1\n");
}

#[test]
fn settings_behind_a_link_are_changed_where_they_are_and_a_read_only_file_is_not() {
    let person = Person::new();
    let (link, target) = (person.home().join("settings.toml"), person.home().join("dotfiles.toml"));
    std::fs::write(&target, "# mine\nmodel = \"a\"\n").unwrap();
    std::fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("dotfiles.toml", &link).unwrap();
    for args in [
        &["config", "set", "model", "b"][..],
        &["mcp", "add", "docs", "--", "docs-server"],
        &["mcp", "remove", "docs"],
        &["ext", "add", "notes", "--", "notes-extension"],
        &["ext", "remove", "notes"],
    ] {
        let ended = person.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
        assert!(link.symlink_metadata().unwrap().is_symlink(), "{args:?}");
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o644, "{args:?}");
    }
    let text = || std::fs::read_to_string(&target).unwrap();
    assert_eq!(text().trim_end(), "# mine\nmodel = \"b\"");

    std::fs::set_permissions(&target, Permissions::from_mode(0o444)).unwrap();
    let before = text();
    for args in [&["config", "set", "model", "c"][..], &["mcp", "add", "docs", "--", "docs-server"]] {
        let ended = person.run(args);
        let names_file = ended.stderr.contains("dotfiles.toml") && ended.stderr.contains("chmod u+w");
        assert!(ended.code == 1 && names_file, "{args:?}: {} {}", ended.code, ended.stderr);
        assert_eq!(text(), before);
    }
}

#[test]
fn the_settings_of_a_project_keep_their_mode_and_nothing_else_is_put_beside_them() {
    let person = Person::new();
    let dir = person.project().join(".zk");
    let file = dir.join("settings.toml");
    assert_eq!(person.run(&["config", "set", "max_turns", "5", "--project"]).code, 0);
    let plain = person.project().join("plain");
    std::fs::write(&plain, "").unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&file), mode(&plain), "a new file is as shared as others of the project");
    std::fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
    for args in [&["config", "set", "max_turns", "6"][..], &["config", "unset", "max_turns"]] {
        assert_eq!(person.run(&[args, &["--project"]].concat()).code, 0);
        assert_eq!(mode(&file), 0o664);
        let names: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["settings.toml"]);
    }

    // Authors of a project may not aim at files of the person.
    let own = person.home().join("own.toml");
    std::fs::write(&own, "max_turns = 1\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&own, &file).unwrap();
    let ended = person.run(&["config", "set", "max_turns", "6", "--project"]);
    assert!(ended.code == 1 && ended.stderr.contains("out of the project"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "max_turns = 1\n");
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
