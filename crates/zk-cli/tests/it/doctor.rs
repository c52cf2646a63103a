use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zk_testkit::{FakeServer, Script};

use crate::terminal::Terminal;
use crate::zk::{Person, program};

#[test]
fn a_working_setup_is_told_line_by_line_and_ends_with_0() {
    let server = FakeServer::builder(Script::new()).models(["claude-x"]).start().unwrap();
    let person = Person::asking(&server);
    let ended = person.run(&["doctor", "--model", "claude-x"]);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.starts_with("ok ") || line.starts_with("warn")));
    for word in [
        "a key is set",
        "environment: ANTHROPIC_API_KEY",
        "answers and has claude-x",
        "sessions: 0",
        "bash: /",
    ] {
        assert!(ended.stdout.contains(word), "`{word}` is missing:\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("test-key"));
}

#[test]
fn what_is_missing_is_told_with_what_to_do_and_ends_with_1() {
    let person =
        Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let ended = person.run(&["doctor"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("fail  endpoint: "), "{}", ended.stdout);
}

#[test]
fn on_a_narrow_terminal_every_further_line_hangs_below_the_first_and_no_word_is_a_riddle() {
    let person = Person::new();
    let zk = program().display().to_string();
    let Some(terminal) = Terminal::run(&person, &format!("stty cols 60; {zk} doctor; true")) else { return };
    let told = terminal.rest();
    let plain = unstyled(&told);
    let lines: Vec<&str> = plain.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 8, "{plain}");
    for line in &lines {
        let begins = ["ok    ", "warn  ", "fail  ", "      "].iter().any(|begin| line.starts_with(begin));
        assert!(begins, "{line:?}\n{plain}");
    }
    // No key is set, which takes more than one line to say.
    assert!(lines.iter().any(|line| line.starts_with("fail  ")), "{plain}");
    for riddle in ["attempts to leave it failed", "not needed"] {
        assert!(!plain.contains(riddle), "{plain}");
    }
}

/// A text without the sequences for its colours.
fn unstyled(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn what_a_server_has_is_counted() {
    for (models, told) in [(vec!["a"], "answers; 1 model\n"), (vec!["a", "b"], "answers; 2 models\n")] {
        let server = FakeServer::builder(Script::new()).models(models).start().unwrap();
        let person = Person::new().with("OPENAI_BASE_URL", &server.openai_url());
        let ended = person.run(&["doctor", "--provider", "openai_compat"]);
        assert!(ended.stdout.contains(told), "{}", ended.stdout);
    }
}

/// Reads the mode of a file, and sets another one.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_repair_is_shown_asked_about_and_nobody_is_asked_without_a_terminal() {
    let server = FakeServer::builder(Script::new()).models(["claude-x"]).start().unwrap();
    let state = tempfile::tempdir().unwrap();
    let person =
        Person::asking(&server).with("ZK_HOME", "").with("XDG_STATE_HOME", state.path().to_str().unwrap());
    let dir = state.path().join("zk");
    let doctor = |more: &[&str]| person.run(&[&["doctor", "--model", "claude-x"], more].concat());

    // A directory that is not there yet is no flaw, and is made when that was asked for.
    assert!(!doctor(&[]).stdout.contains("own files"));
    assert_eq!(doctor(&["--fix", "--yes"]).code, 0);
    assert_eq!(mode(&dir), 0o700);

    std::fs::create_dir_all(dir.join("mcp")).unwrap();
    set(&dir.join("mcp"), 0o700);
    let (trust, pins) = (dir.join("trust.json"), dir.join("mcp/pins.json"));
    for (file, mode) in [(&trust, 0o644), (&pins, 0o666)] {
        std::fs::write(file, "{}").unwrap();
        set(file, mode);
    }
    let told = doctor(&[]);
    assert_eq!(told.code, 0, "{}", told.stdout);
    assert!(told.stdout.contains("`zk doctor --fix` mends 2 of these"), "{}", told.stdout);

    let refused = doctor(&["--fix"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stdout.contains("others can write to it: change its mode from 666 to 600"));
    assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert_eq!((mode(&trust), mode(&pins)), (0o644, 0o666));

    let mended = doctor(&["--fix", "--yes"]);
    assert_eq!(mended.code, 0, "{}{}", mended.stdout, mended.stderr);
    assert!(mended.stdout.contains("Mended 2 of 2."), "{}", mended.stdout);
    assert_eq!((mode(&trust), mode(&pins)), (0o600, 0o600));
    assert!(doctor(&["--fix"]).stdout.starts_with("There is nothing to mend."));
    assert_eq!(person.run(&["doctor", "--yes"]).code, 2);
}
