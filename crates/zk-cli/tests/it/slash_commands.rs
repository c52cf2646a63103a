//! Commands of a conversation, as a person types and chooses them.

use zk_testkit::{Script, Turn};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, server};

#[test]
fn the_models_of_every_provider_with_a_key_are_there_at_once_and_any_name_is_taken() {
    let server = counting();
    let person = Person::asking(&server);
    person.settings("[providers.openai]\napi_key = \"test-key\"\n");
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --model claude-opus-5 'a prompt'")
    else {
        return;
    };
    terminal.expect("1 turn ·");
    terminal.keys("/model\r");
    terminal.expect("❯ anthropic/claude-opus-5");
    terminal.expect("in use");
    terminal.keys("openai/gpt");
    terminal.expect("❯ openai/gpt");
    terminal.keys("\u{15}");
    terminal.keys("claude-of-tomorrow");
    terminal.expect("as typed");
    terminal.keys("\r");
    terminal.expect("anthropic/claude-of-tomorrow");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_question_beside_the_conversation_is_answered_and_leaves_no_trace_in_it() {
    let server = server(Script::answering(|asked| {
        let text = asked.last_user_text();
        match text.contains("The side question: which file?") {
            true if text.contains("User: look at a.txt") => Turn::new().text("It was a.txt."),
            true => Turn::new().text("Nobody said."),
            false => Turn::new().text(format!("Heard {} messages.", asked.number)),
        }
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'look at a.txt'") else { return };
    terminal.expect("Heard 1 messages.");
    terminal.expect("1 turn ·");
    terminal.keys("/btw which file?\r");
    terminal.expect("It was a.txt.");
    terminal.expect("beside the conversation");
    terminal.keys("go on\r");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let last = server.bodies().pop().unwrap().to_string();
    assert!(last.contains("look at a.txt") && !last.contains("which file?"), "{last}");
    assert_eq!(server.violations(), []);
}

#[test]
fn a_conversation_is_exported_once_and_exit_alone_ends_it() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'a prompt'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("/export talk.md\r");
    terminal.expect("the conversation is in");
    terminal.keys("/export talk.md\r");
    terminal.expect("is there already");
    terminal.keys("/status\r");
    terminal.expect("directory");
    terminal.keys("/rewind\r");
    terminal.expect("/tree goes back to an earlier prompt");
    terminal.keys("exit\r");
    assert_eq!(terminal.code(), Some(0));
    let written = std::fs::read_to_string(person.project().join("talk.md")).unwrap();
    assert!(
        written.contains("## You\n\na prompt") && written.contains("## Agent\n\nAnswer 1 to: a prompt"),
        "{written}"
    );
    assert_eq!(server.bodies().len(), 1, "`exit` is no prompt");
}

#[test]
fn review_is_a_prompt_of_zk_that_a_file_takes_the_place_of() {
    let server = counting();
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "/review main"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let asked = server.bodies().pop().unwrap().to_string();
    assert!(
        asked.contains("Review changes in this repository") && asked.contains("What to review: main"),
        "{asked}"
    );
    person.write(".zk/commands/review.md", "Our own review of $ARGUMENTS.");
    let ended = person.run(&["-p", "/review main"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let asked = server.bodies().pop().unwrap().to_string();
    assert!(asked.contains("Our own review of main.") && !asked.contains("Review changes"), "{asked}");
}

#[test]
fn a_session_gets_a_title_and_another_is_removed_in_plain_lines_too() {
    let server = counting();
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "the first"]).code, 0);
    let listed = person.run(&["sessions", "list"]).stdout;
    let id = listed.split_whitespace().next().unwrap().to_owned();
    let Some(mut terminal) = Terminal::open(&person, "--screen plain 'the second'") else { return };
    terminal.expect("1 turn ·");
    terminal.expect("› ");
    terminal.keys(&format!("/sessions rename {id} A better title\r"));
    terminal.expect("is called `A better title` now");
    terminal.expect("› ");
    terminal.keys("/sessions\r");
    terminal.expect("A better title");
    terminal.expect("› ");
    terminal.keys(&format!("/sessions remove {id}\r"));
    terminal.expect("is removed");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert!(!person.run(&["sessions", "list"]).stdout.contains("A better title"));
}

#[test]
fn earlier_sessions_are_found_by_what_was_said_in_them() {
    let server = counting();
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "the teapot is cold"]).code, 0);
    assert_eq!(person.run(&["-p", "something else"]).code, 0);
    let Some(mut terminal) = Terminal::open(&person, "--screen plain") else { return };
    terminal.expect("› ");
    terminal.keys("/search teap*\r");
    terminal.expect("the teapot is cold");
    terminal.expect("«teapot» is cold");
    terminal.expect("/resume ID goes on with one");
    terminal.expect("› ");
    terminal.keys("/search kettle\r");
    terminal.expect("no session of this directory has that in it");
    terminal.expect("› ");
    terminal.keys("/search\r");
    terminal.expect("/search takes words");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn the_arguments_of_a_command_file_are_listed_and_tab_puts_them_in() {
    let server = counting();
    let person = Person::asking(&server);
    person.write(
        ".zk/commands/ship.md",
        "---\ndescription: ships it\nargument-hint: WHERE\nargument-choices: [staging, production]\n---\nShip to $1.",
    );
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'a prompt'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("/shi");
    terminal.expect("/ship WHERE");
    terminal.keys("\t");
    terminal.expect("❯ staging");
    terminal.keys("pro\t\r");
    terminal.expect("Answer 3 to: Ship to production.");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}
