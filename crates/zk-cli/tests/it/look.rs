//! Look of the drawn screen, through the program.

use serde_json::json;
use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn the_first_screen_says_the_branch_and_a_mode_that_changes_leaves_no_row() {
    let script = Script::new()
        .turn(|turn| turn.call("shell", json!({"command": "ls nothing-here"})))
        .turn(|turn| turn.text("Ended."));
    let serving = server(script);
    let person = Person::asking(&serving);
    let git = person.project().join(".git");
    std::fs::create_dir(&git).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/fix/cart\n").unwrap();
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --permission-mode all") else { return };
    terminal.see("\u{1b}]2;zk · project\u{1b}\\");
    terminal.see("? keys");
    let first = terminal.until("project · fix/cart");
    assert!(first.contains("zk 0.1.0 · ") && first.contains("\u{1b}[22;2t"), "{first:?}");
    assert!(!first.contains("session saved"), "{first:?}");
    for mode in ["plan", "read-only", "ask", "accept-edits"] {
        terminal.keys("\u{1b}[Z");
        terminal.expect(&format!("mode {mode}: "));
    }
    terminal.keys("go\r");
    terminal.expect("\u{1b}]2;● zk · project\u{1b}\\");
    terminal.expect("✗");
    let ended = terminal.until("Ended.");
    assert!(ended.contains("$ ls nothing-here") && ended.contains("exit 2"), "{ended:?}");
    terminal.expect("2 turns ·");
    // A row that stays ends with a line end; the hint stood below the composer.
    assert!(!ended.contains("mode ask: "), "{ended:?}");
    terminal.leave();
    let rest = terminal.rest();
    assert!(rest.contains("\u{1b}[23;2t"), "the title is given back: {rest:?}");
}

#[test]
fn a_title_that_is_not_wanted_is_not_told() {
    let serving = server(Script::new());
    let person = Person::asking(&serving);
    person.settings("title = false\n");
    let Some(mut terminal) = Terminal::open(&person, "--screen inline") else { return };
    terminal.expect("? keys");
    terminal.leave();
    assert!(!terminal.rest().contains("\u{1b}]2;"));
}
