//! Conversations on the inline screen.

use std::time::Duration;

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn the_inline_screen_streams_keeps_what_is_typed_and_gives_the_terminal_back() {
    let server = server(Script::answering(|asked| {
        Turn::new().text(format!(
            "# Answer\n\nTo: **{}**\n\nEnd-{}.",
            asked.last_user_text(),
            asked.messages.len()
        ))
    }));
    let person = Person::asking(&server);
    let command = format!("{} --screen inline 'first one'; stty -a", crate::zk::program().display());
    let Some(mut terminal) = Terminal::run(&person, &command) else { return };
    terminal.expect("End-1.");
    terminal.expect("1 turn ·");
    terminal.keys("second\nline\r");
    terminal.expect("End-3.");
    terminal.expect("1 turn ·");
    terminal.keys("/help\r");
    terminal.expect("/thinking");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    assert!(rest.contains("zk --resume s_") && rest.contains("\u{1b}[?2004l"), "{rest:?}");
    let (_, modes) = rest.split_once("zk --resume").unwrap();
    let is_on = |name: &str| modes.split_whitespace().any(|mode| mode == name);
    assert!(["icanon", "echo", "isig", "icrnl"].into_iter().all(is_on), "{modes}");
    for absolute in ["\u{1b}[2J", "\u{1b}[3J", "\u{1b}[H", "\u{1b}[r"] {
        assert!(!rest.contains(absolute), "{rest:?}");
    }
    assert!(server.bodies().last().unwrap().to_string().contains("second\\nline"));
    assert_eq!(server.violations(), []);
}

#[test]
fn a_question_on_the_inline_screen_is_not_answered_by_typing() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let args = "--screen inline --permission-mode ask 'do it'";
    let Some(mut terminal) = Terminal::open(&person, args) else { return };
    terminal.expect("Run? [y]es once");
    terminal.keys("yes");
    terminal.expect("Alt-Q answers");
    assert!(!person.project().join("made").exists());
    terminal.keys("\u{1b}q");
    std::thread::sleep(Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("Finished.");
    assert!(person.project().join("made").exists());
    // What was typed is still there, and Ctrl-C takes it first.
    terminal.keys("\u{3}");
    terminal.keys("\u{4}");
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn ctrl_c_stops_a_run_on_the_inline_screen_and_twice_ends_the_conversation() {
    let server = server(Script::answering(|_| Turn::new().text("On and on").hang()));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'go'") else { return };
    terminal.expect("On and");
    terminal.keys("\u{3}");
    // The end of the run, below the end of the answer.
    terminal.expect("\u{1b}[33mstopped");
    terminal.keys("\u{3}");
    terminal.expect("Ctrl-C again");
    terminal.keys("\u{3}");
    assert_eq!(terminal.code(), Some(0));
}
