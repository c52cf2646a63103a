//! Look of the drawn screen, through the program.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::desk::Desk;
use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

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

/// Number of rows of the terminal, scrolled ones included, that begin with a text.
fn rows_with(desk: &mut Desk, text: &str) -> usize {
    desk.screen();
    desk.all().lines().filter(|row| row.starts_with(text)).count()
}

#[test]
fn a_prompt_that_is_typed_beside_a_question_about_trust_stands_once() {
    for screen in ["inline", "full"] {
        let serving = server(Script::answering(|_| Turn::new().text("Answered.")));
        let person = Person::asking(&serving).with("ZK_SCREEN", screen);
        person.write(".mcp.json", r#"{"mcpServers": {"ev": {"command": "touch", "args": ["started"]}}}"#);
        let Some(mut desk) = Desk::open(&person, &program().display().to_string()) else { return };
        desk.question(
            "This project wants to start an MCP server: ev",
            &["y  Yes, trust it exactly as it is"],
        );
        desk.keys("what is here?");
        desk.see("› what is here?");
        desk.press("\r");
        // One Enter sends nothing while a question waits.
        desk.see("draft kept · question waits");
        desk.settle();
        desk.press("\r");
        desk.answer_until("n", |_, screen| screen.contains("Answered."));
        desk.rest();
        assert_eq!(rows_with(&mut desk, "› what is here?"), 1, "{screen}: {}", desk.all());
        assert_eq!(serving.bodies().len(), 1);
        desk.keys("\u{4}");
        desk.see("zk --resume");
    }
}

#[test]
fn a_command_file_is_shown_as_it_was_typed_and_not_by_its_prompt() {
    let serving = server(Script::answering(|_| Turn::new().text("Answered.")));
    let person = Person::asking(&serving).with("ZK_SCREEN", "inline");
    let Some(mut desk) = Desk::open(&person, &program().display().to_string()) else { return };
    desk.rest();
    for command in ["/review src", "/init"] {
        desk.line(command, "");
        desk.see_above(&format!("› {command}\n  its prompt: "));
        desk.rest();
        assert_eq!(rows_with(&mut desk, &format!("› {command}")), 1, "{}", desk.all());
    }
    let all = desk.all();
    assert_eq!(all.matches("its prompt: ").count(), 2, "{all}");
    assert!(!all.contains("AGENTS.md"), "the prompt of /init names the file: {all}");
    assert!(serving.bodies()[1].to_string().contains("AGENTS.md"), "the model gets it");
    desk.keys("\u{4}");
    desk.see("zk --resume");
}

#[test]
fn a_directory_that_no_sandbox_can_hold_is_told_in_one_sentence_at_the_margin() {
    let serving = server(Script::new());
    let person = Person::asking(&serving).with("ZK_SCREEN", "inline").with("ZK_CONTEXT", "");
    let Some(mut desk) = Desk::open(&person, &program().display().to_string()) else { return };
    desk.rest();
    if !desk.screen().contains("auto · sandbox") {
        println!("skipped: no sandbox here");
        return;
    }
    desk.line("/add-dir /etc", "read anew");
    desk.rest();
    let all = desk.all();
    let told = "  warning: commands run without the sandbox and zk asks about them (mode ask):";
    assert!(all.contains(told), "{all}");
    assert!(!all.contains("\nwarning"), "{all}");
    desk.keys("\u{4}");
    desk.see("zk");
}
