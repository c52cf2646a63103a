//! Input on the inline screen.

use rustix::process::{Pid, Signal, kill_process};

use crate::colours::has_colour;
use crate::terminal::{Terminal, counting};
use crate::zk::{Person, program};

#[test]
fn a_draft_is_edited_in_the_editor_of_the_person_and_a_failing_one_keeps_it() {
    let server = counting();
    let person = Person::asking(&server);
    person.write(
        "edit.sh",
        "[ -t 0 ] && printf 'on a terminal: %s\\n' \"$(cat \"$1\")\"; read -r line; printf '%s\\n' \"$line\" > \"$1\"",
    );
    let editor = format!("sh {}/edit.sh", person.project().display());
    let person = person.with("EDITOR", &editor).with("ZK_SCREEN", "inline");
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("a draft\u{7}");
    terminal.expect("on a terminal: a draft");
    terminal.keys("typed at the editor\r");
    terminal.expect("\u{1b}[?2004h");
    terminal.expect("typed at the editor");
    terminal.keys(" and behind\r");
    terminal.expect("Answer 3 to: typed at the editor and behind");
    terminal.expect("1 turn ·");
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));

    let person = Person::asking(&server).with("EDITOR", "false").with("ZK_SCREEN", "inline");
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("kept draft\u{18}\u{5}");
    terminal.expect("the editor ended with 1; the draft is as it was");
    terminal.expect("kept draft");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn files_commands_and_models_are_listed_while_they_are_typed() {
    let server = counting();
    let person = Person::asking(&server).with("ZK_SCREEN", "inline");
    person
        .write("src/deep/needle.rs", "x")
        .write("ignored/needle.log", "x")
        .write(".gitignore", "ignored/\n");
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("see @ndl");
    terminal.expect("❯ src/deep/needle.rs");
    terminal.keys("\t");
    // Text that stands in the row already is not written again.
    terminal.expect("src/deep/needle.rs");
    terminal.keys("\u{15}/thi");
    terminal.expect("❯ /thinking");
    terminal.keys("\t");
    terminal.expect("❯ off");
    terminal.keys("hig\t\r");
    terminal.expect("› /thinking high");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn the_programs_of_the_path_are_completed_behind_an_exclamation_mark() {
    use std::os::unix::fs::PermissionsExt;

    let server = counting();
    let person = Person::asking(&server).with("ZK_SCREEN", "inline");
    for (name, mode) in [("bin/needle-program", 0o755), ("bin/needle-plain", 0o644)] {
        let file = person.write(name, "#!/bin/sh\necho ran-by-name\n").project().join(name);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = format!("{}/bin:/usr/bin:/bin", person.project().display());
    let person = person.with("PATH", &path);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("!needle-p\t");
    terminal.expect("❯ needle-program");
    terminal.keys("\t");
    terminal.expect("rogram");
    terminal.keys("\r");
    terminal.expect("ran-by-name");
    // The key is heard once the command is over.
    terminal.press_until("\u{4}", "to go on: zk --resume");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_draft_outlives_a_crash_in_its_directory() {
    ["inline", "plain"].into_iter().for_each(check_draft_after_crash);
}

/// Clears the draft and ends the conversation. The line editor reads no keys between two lines.
pub(crate) fn leave(terminal: &mut Terminal, screen: &str) {
    terminal.keys("\u{3}");
    if screen == "plain" {
        terminal.expect("Ctrl-C again");
        terminal.expect("› ");
    }
    terminal.leave();
}

fn check_draft_after_crash(screen: &str) {
    let server = counting();
    let person = Person::asking(&server).with("ZK_SCREEN", screen);
    let zk = program().display();
    let Some(mut terminal) =
        Terminal::run(&person, &format!("sh -c 'echo pid=$$.; exec {zk} first'; stty sane"))
    else {
        return;
    };
    terminal.expect("pid=");
    let pid = terminal.until(".").parse().unwrap();
    terminal.expect("1 turn ·");
    terminal.keys("half a thought");
    let drafts = person.home().join("drafts");
    let is_stored = || {
        let files = std::fs::read_dir(&drafts).into_iter().flatten().filter_map(Result::ok);
        files.into_iter().any(|file| {
            std::fs::read_to_string(file.path()).is_ok_and(|text| text.ends_with("\nhalf a thought"))
        })
    };
    let begun = std::time::Instant::now();
    while !is_stored() {
        assert!(begun.elapsed() < crate::zk::LONG);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    terminal.rest();
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    if screen == "plain" {
        // The draft stands beside the status first, before keys are read.
        terminal.expect("› half a thought");
        terminal.expect("\u{1b}[?2004h");
    }
    terminal.expect("half a thought");
    leave(&mut terminal, screen);
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(std::fs::read_dir(&drafts).unwrap().count(), 0);
}

#[test]
fn the_last_answer_goes_to_the_clipboard_and_a_theme_chooses_the_colours() {
    let server = counting();
    let person = Person::asking(&server).with("ZK_SCREEN", "inline");
    person.settings("theme = \"mono\"\n");
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("/copy\r");
    // Answer 1 to: first
    terminal.expect("\u{1b}]52;c;QW5zd2VyIDEgdG86IGZpcnN0\u{1b}\\");
    let before = terminal.until("in the clipboard of the terminal");
    assert!(!has_colour(&before), "{before:?}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn plain_lines_break_at_a_backslash_and_put_a_text_aside() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first'") else { return };
    terminal.expect("1 turn ·");
    terminal.expect("› ");
    terminal.keys("one\\");
    terminal.expect("one\\");
    terminal.keys("\r");
    terminal.keys("two\r");
    terminal.expect("Answer 3 to: one");
    terminal.expect("1 turn ·");
    terminal.expect("› ");
    terminal.keys("for later\u{13}");
    terminal.keys("now\r");
    terminal.expect("Answer 5 to: now");
    terminal.expect("1 turn ·");
    terminal.expect("› ");
    terminal.keys("\u{13}");
    terminal.expect("for later");
    terminal.keys("\r");
    terminal.expect("Answer 7 to: for later");
    terminal.expect("1 turn ·");
    terminal.expect("› ");
    terminal.keys("\u{4}");
    assert_eq!(terminal.code(), Some(0));
    assert!(server.bodies()[1].to_string().contains("one\\ntwo"), "{}", server.bodies()[1]);
}
