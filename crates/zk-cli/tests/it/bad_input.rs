//! Faults of a terminal, a clipboard, a file or a name: each gets a message, and the program continues.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use zk_testkit::{Asked, Script, Turn};
use zk_tui::Size;

use crate::desk::Desk;
use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

/// File names with terminal control sequences, and the part of each that must not reach the terminal.
const NAMES: [(&str, &str); 8] = [
    ("erase\u{1b}[2J.txt", "\u{1b}[2J"),
    ("title\u{1b}]0;owned\u{7}.txt", "\u{1b}]0;owned"),
    ("clipboard\u{1b}]52;c;aGk=\u{1b}\\.txt", "\u{1b}]52;"),
    ("screen\u{1b}[?1049h.txt", "\u{1b}[?1049h"),
    ("reset\u{1b}c.txt", "\u{1b}c"),
    ("eight-bit\u{9b}2J.txt", "\u{9b}"),
    ("bidi\u{202e}txt.exe", "\u{202e}"),
    ("line\nbreak\r.txt", "break\r."),
];

fn respond(asked: &Asked) -> Turn {
    match (asked.last_user_text().as_str(), asked.results().last()) {
        (_, Some(result)) => Turn::new().text(if result.is_error { "Told: no." } else { "Told: yes." }),
        ("make", None) => Turn::new().call("shell", json!({ "command": "touch made" })),
        ("names", None) => {
            let paths = NAMES.iter().map(|(name, _)| *name);
            paths.fold(Turn::new(), |turn, path| {
                turn.call("write_file", json!({ "path": path, "content": "x" }))
            })
        }
        (_, None) => Turn::new().text("Answered."),
    }
}

#[test]
fn a_terminal_of_five_rows_of_twenty_columns_is_worked_at_and_says_where_a_question_needs_more() {
    let server = server(Script::answering(respond));
    let person = Person::asking(&server).with("ZK_SCREEN", "inline").with("SHELL", "/bin/sh");
    let Some(mut desk) = Desk::open(&person, &format!("{} --permission-mode ask", program().display()))
    else {
        return;
    };
    desk.see("Ask anything");
    desk.resize(Size::new(20, 5));
    desk.wait("a prompt", |screen| screen.contains('›'));
    desk.line("hello", "");
    desk.see_above("Answered.");
    desk.line("make", "too small");
    desk.keys("y");
    desk.wait("the draft", |screen| screen.contains("› y"));
    assert!(!person.project().join("made").exists());
    desk.keys("\u{15}");
    desk.resize(Size::new(80, 24));
    desk.question("Run this command?", &["Yes", "No", "why it asks"]);
    desk.answer("y", "Told: yes.");
    assert!(person.project().join("made").exists());
    desk.rest();
    for (width, height) in [(1, 1), (2, 40), (200, 2), (80, 24)] {
        desk.resize(Size::new(width, height));
        // The sizes come one after the other.
        std::thread::sleep(std::time::Duration::from_millis(80));
    }
    desk.see("Ask anything");
    desk.keys("\u{4}");
    desk.see("zk --resume");
}

#[test]
fn a_terminal_that_answers_no_query_is_drawn_on_in_every_way() {
    let server = server(Script::answering(respond));
    for screen in ["inline", "full", "plain"] {
        // `script` answers no queries.
        let person = Person::asking(&server).with("ZK_SCREEN", screen).with("TERM", "xterm-256color");
        let Some(mut terminal) = Terminal::open(&person, "--permission-mode ask 'hello'") else { return };
        terminal.expect("Answered.");
        terminal.keys("make\r");
        terminal.answer("y");
        terminal.expect("Told: yes.");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0), "{screen}");
    }
}

#[test]
fn an_image_of_fifty_megabytes_is_refused_in_words_from_a_file_and_from_the_clipboard() {
    let server = server(Script::answering(respond));
    let person = Person::asking(&server).with("ZK_SCREEN", "inline");
    let tool = person.home().join("bin/wl-paste");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\nhead -c 52428800 /dev/zero\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let image = std::fs::File::create(person.project().join("huge.png")).unwrap();
    image.set_len(50 << 20).unwrap();
    let person = person.with("PATH", &format!("{}:/usr/bin:/bin", tool.parent().unwrap().display()));
    let Some(mut terminal) = Terminal::open(&person, "'hello'") else { return };
    terminal.expect("Answered.");
    for (keys, said) in [
        ("\u{1b}[200~huge.png\u{1b}[201~", "cannot attach "),
        ("\u{16}", "the image in the clipboard has more than 5 MB"),
    ] {
        terminal.keys(keys);
        terminal.expect(said);
        terminal.keys("\u{15}");
    }
    terminal.keys("and on\r");
    terminal.expect("Answered.");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_name_of_control_sequences_is_asked_about_listed_and_named_without_one_of_them() {
    for screen in ["inline", "plain"] {
        let server = server(Script::answering(respond));
        let person = Person::asking(&server).with("ZK_SCREEN", screen);
        let Some(mut terminal) = Terminal::open(&person, "--permission-mode accept-edits 'names'") else {
            return;
        };
        terminal.see("Told: yes.");
        if screen == "inline" {
            terminal.keys("see @e");
            terminal.see("erase");
            terminal.keys("\u{15}");
        }
        terminal.leave();
        let seen = terminal.rest();
        for (name, acts) in NAMES {
            let begin = name.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap();
            assert!(seen.contains(begin), "{screen}: {name:?} is not named: {seen:?}");
            assert!(!seen.contains(acts), "{screen}: {name:?} came through: {seen:?}");
        }
    }
}
