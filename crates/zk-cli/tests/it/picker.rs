//! Choosing on the inline screen what to go on with.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, server};

/// Goes back before the second prompt, which `/tree` lists.
pub(crate) fn choose_second_prompt(terminal: &mut Terminal) {
    terminal.keys("/tree\r");
    terminal.expect("second prompt");
    terminal.keys("second\r");
    terminal.expect("the prompt is typed again below");
    terminal.expect("second prompt");
}

#[test]
fn a_person_goes_back_to_an_earlier_prompt_in_a_branch_and_changes_it() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'first prompt'") else { return };
    terminal.expect("Answer 1 to: first prompt");
    terminal.expect("1 turn ·");
    terminal.keys("second prompt\r");
    terminal.expect("Answer 3 to: second prompt");
    terminal.expect("1 turn ·");
    choose_second_prompt(&mut terminal);
    // The caret stands at the end of the earlier prompt.
    terminal.keys(" changed\r");
    terminal.expect("Answer 3 to: second prompt changed");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
    // One session has both branches.
    let listed = person.run(&["sessions", "list"]);
    assert_eq!(listed.stdout.matches("first prompt").count(), 1, "{}", listed.stdout);
    assert!(listed.stdout.contains("(2 branches)"), "{}", listed.stdout);
    let id = listed.stdout.split_whitespace().next().unwrap();
    let tree = person.run(&["sessions", "show", id, "--tree"]).stdout;
    assert!(tree.contains("  · › second prompt\n") && tree.contains("│ › second prompt changed"), "{tree}");
    let present = person.run(&["sessions", "show", id]).stdout;
    assert_eq!(present.matches("› second prompt").count(), 1, "{present}");
}

#[test]
fn going_back_shows_the_files_that_changed_since_and_offers_them() {
    let server =
        server(Script::answering(|asked| match (asked.last_user_text().as_str(), asked.results().len()) {
            ("second prompt", 0) => {
                Turn::new().call("write_file", json!({"path": "new.txt", "content": "made\n"}))
            }
            (prompt, _) => Turn::new().text(format!("Done with the {prompt} of parsers.")),
        }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --allow-all 'first prompt'") else {
        return;
    };
    terminal.expect("Done with the first prompt of parsers.");
    terminal.expect("1 turn ·");
    terminal.keys("second prompt\r");
    terminal.expect("Done with the second prompt of parsers.");
    terminal.expect("2 turns ·");
    let file = person.project().join("new.txt");
    assert!(file.exists());
    terminal.keys("/tree\r");
    terminal.expect("second prompt");
    terminal.keys("second");
    terminal.expect("files changed since: new.txt");
    terminal.keys("\r");
    terminal.expect("Bring the files of this point back?");
    terminal.answer_until("2", "removed: ");
    assert!(!file.exists());
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_copy_reads_the_large_results_of_the_session_it_was_made_of() {
    let stub = std::sync::Mutex::new(String::new());
    let server = server(Script::answering(move |asked| {
        let mut stub = stub.lock().unwrap();
        let results = asked.results();
        let read = |path: &str, line: u32| {
            Turn::new().call("read_file", json!({ "path": path, "offset": line, "limit": 1 }))
        };
        match (asked.last_user_text().as_str(), results.last()) {
            ("make it", None) => Turn::new().call("shell", json!({ "command": "seq -f 'line %g' 400" })),
            ("make it", Some(made)) => {
                stub.clone_from(&made.text);
                Turn::new().text("Made.")
            }
            ("second prompt changed", None) => {
                let path = stub.split_whitespace().find(|word| word.contains("/outputs/")).unwrap();
                read(path.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '/'), 398)
            }
            ("and by its handle", None) => {
                read(stub.split('`').find(|part| part.contains("output:")).unwrap(), 399)
            }
            (_, Some(read)) => Turn::new().text(format!("Found: {}", read.text)),
            (_, None) => Turn::new().text("Nothing."),
        }
    }));
    let person = Person::asking(&server);
    person.settings("[tools]\nspill_bytes = 300\n");
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --allow-all 'make it'") else { return };
    terminal.expect("Made.");
    terminal.expect("2 turns ·");
    terminal.keys("second prompt\r");
    terminal.expect("Nothing.");
    terminal.expect("1 turn ·");
    choose_second_prompt(&mut terminal);
    terminal.keys(" changed\r");
    terminal.expect("Found:");
    terminal.expect("line 398");
    terminal.expect("2 turns ·");
    terminal.keys("and by its handle\r");
    terminal.expect("Found:");
    terminal.expect("line 399");
    terminal.expect("2 turns ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn a_person_starts_sees_and_ends_a_command_in_the_background() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'a prompt'") else { return };
    terminal.expect("1 turn ·");
    terminal.keys("/jobs start echo from-the-job; sleep 600\r");
    terminal.see("job-1 started");
    terminal.see("job-1 · echo from-the-job; sleep 600");
    terminal.keys("/jobs\r");
    terminal.expect("runs · echo from-the-job");
    terminal.keys("\r");
    terminal.expect("job-1:");
    terminal.expect("from-the-job");
    terminal.keys("/jobs kill job-1\r");
    terminal.expect("job-1 is asked to end");
    terminal.keys("/jobs\r");
    terminal.expect("failed: killed");
    terminal.keys("\u{3}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_refusal_is_shown_in_the_words_of_the_person() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t: Turn| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let args = "--screen inline --permission-mode ask 'do it'";
    let Some(mut terminal) = Terminal::open(&person, args) else { return };
    terminal.answer("n");
    terminal.expect("refused: you said no");
    terminal.expect("Finished.");
    terminal.expect("2 turns ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}
