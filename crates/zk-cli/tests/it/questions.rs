//! Questions on a real terminal: what they show, and which keys answer them.

use std::time::Duration;

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Starts a model that runs `command` once, and then repeats the result.
fn wants(command: &'static str) -> FakeServer {
    server(Script::answering(move |asked| match asked.messages.len() {
        1 => Turn::new().call("shell", json!({ "command": command })),
        _ => {
            Turn::new().text(format!("Told: {}.", asked.result_of("shell").map_or(String::new(), |r| r.text)))
        }
    }))
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn end(mut terminal: Terminal) {
    terminal.expect("Told: ");
    terminal.expect("\u{1b}[?2004h");
    terminal.keys("\u{15}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_question_shows_every_line_of_what_will_run_and_what_would_hide_in_it() {
    let server = wants("ls -la \u{1b}P\ntouch made ;\u{1b}\\ # \u{9b}2K\u{202e}list\n  yes, once\necho done");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let shown = terminal.until("?  why it asks");
    for row in [
        "┌ Run this command?",
        "│  $ ls -la ⟨U+001B⟩P",
        "│    touch made ;⟨U+001B⟩\\ # ⟨U+009B⟩2K⟨U+202E⟩list",
        "│      yes, once",
        "│    echo done",
        "├ y  Yes",
        "│ w  No, and tell it what to do instead",
        "│ n  No",
    ] {
        assert!(shown.contains(row), "`{row}` is missing: {shown}");
    }
    pause(1000);
    // Reasons, and calls that each choice would allow, on demand.
    terminal.keys("?");
    let why = terminal.until("y  Yes");
    for row in ["├  why: `", "├  s: exactly this call", "├  a: exactly this call in "] {
        assert!(why.contains(row), "`{row}` is missing: {why}");
    }
    pause(1000);
    terminal.keys("n");
    end(terminal);
    assert!(!person.project().join("made").exists());
}

#[test]
fn a_long_question_is_shown_in_parts_and_counts_what_is_left() {
    let long: String = (0..60).map(|line| format!("echo line-{line}\n")).collect();
    let server = wants(Box::leak(format!("{long}touch made").into_boxed_str()));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let first = terminal.until("more rows below: space shows them");
    assert!(first.contains("line-10") && !first.contains("touch made"), "{first}");
    terminal.answer(" ");
    terminal.expect("│    touch made");
    terminal.answer("y");
    end(terminal);
    assert!(person.project().join("made").exists());
}

#[test]
fn always_needs_two_keys_holds_for_that_call_in_later_conversations_and_is_revoked() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.answer("a");
    terminal.expect("Always allow exactly this, here. `zk policy revoke` undoes it. [a]");
    pause(1200);
    assert!(!person.project().join("made").exists(), "one key is not enough");
    terminal.keys("a");
    terminal.expect("allowed: exactly this, always");
    end(terminal);
    let made = person.project().join("made");
    std::fs::remove_file(&made).unwrap();
    assert_eq!(person.run(&["-p", "go"]).code, 0);
    assert!(made.exists(), "nobody is asked");
    let tested = person.run(&["policy", "test", "touch made"]).stdout;
    assert!(tested.starts_with("allow (mode ask)\n  allowed for good, exactly this call in "), "{tested}");
    assert!(person.run(&["policy", "test", "touch made2"]).stdout.starts_with("ask"));
    let listed = person.run(&["trust"]).stdout;
    assert!(listed.contains("│ shell {\"command\":\"touch made\"}"), "{listed}");
    assert_eq!(person.run(&["trust", "remove", "shell {\"command\":\"rm"]).code, 2);
    assert_eq!(person.run(&["trust", "remove", "shell"]).code, 0);
    std::fs::remove_file(&made).unwrap();
    assert_eq!(person.run(&["-p", "go"]).code, 5);
    assert!(!made.exists());
}

#[test]
fn exactly_one_call_that_is_allowed_for_good_is_listed_tested_and_revoked_with_the_rules() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.answer("a");
    terminal.expect("undoes it. [a]");
    pause(1200);
    terminal.keys("a");
    terminal.expect("allowed: exactly this, always");
    end(terminal);
    let says = || person.run(&["policy", "test", "touch made"]).stdout;
    assert!(says().starts_with("allow "), "{}", says());
    let listed = person.run(&["policy", "list"]).stdout;
    let row = "1. allow exactly `shell {\"command\":\"touch made\"}` (`zk policy revoke 1`)";
    assert!(listed.contains(row), "{listed}");
    assert!(listed.contains("does not match the same with any other argument"), "{listed}");
    let explained = person.run(&["policy", "explain"]).stdout;
    assert!(explained.contains("exactly this call in one directory, of which a hash is kept"), "{explained}");
    person.settings("[permissions]\nask = [\"touch *\"]\n");
    assert!(says().starts_with("ask "), "a rule that asks does so every time: {}", says());
    person.settings("");
    let revoked = person.run(&["policy", "revoke", "1"]);
    assert!(revoked.stdout.starts_with("not approved any more: allow exactly `shell "), "{}", revoked.stdout);
    assert!(says().starts_with("ask "), "{}", says());
    assert_eq!(person.run(&["policy", "revoke", "1"]).code, 2);
    std::fs::remove_file(person.project().join("made")).unwrap();
    assert_eq!(person.run(&["-p", "go"]).code, 5);
    assert!(!person.project().join("made").exists());
}

/// A model that runs the project's tests twice, with other arguments the second time, and a person who has one.
fn tests_twice() -> (FakeServer, Person) {
    let server = server(Script::answering(move |asked| match asked.messages.len() {
        1 | 3 => Turn::new().call("shell", json!({ "command": "make check" })),
        5 => Turn::new().call("shell", json!({ "command": "make check AGAIN=1" })),
        _ => Turn::new().text("Told: all."),
    }));
    let person = Person::asking(&server);
    person.write("Makefile", "check:\n\ttouch made$(AGAIN)\n");
    (server, person)
}

#[test]
fn the_projects_tests_are_not_asked_about_again_in_the_session_but_with_other_words_they_are() {
    let (_server, person) = tests_twice();
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    let shown = terminal.until("· P always");
    for said in ["the project's code runs as you", "A change of Makefile", "don't ask again for `make check`"]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    pause(1000);
    terminal.keys("?");
    terminal.expect("exactly `make check` in ");
    terminal.expect("but not `make check --more`");
    terminal.expect("y  Yes");
    pause(1000);
    terminal.keys("p");
    terminal.expect("allowed: `make check`, this session");
    // The second call ran unasked, the third one has one more argument.
    let shown = terminal.until("$ make check AGAIN=1");
    assert_eq!(shown.matches("Run this command?").count(), 1, "{shown}");
    terminal.answer("n");
    end(terminal);
    assert!(person.project().join("made").exists() && !person.project().join("made1").exists());
    assert!(!person.home().join("approvals.toml").exists(), "it is for this session alone");
    assert_eq!(person.run(&["-p", "go"]).code, 5);
}

#[test]
fn the_projects_tests_allowed_for_good_are_listed_and_revoked_and_asked_about_once_the_makefile_changed() {
    let (_server, person) = tests_twice();
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("· P always");
    pause(1000);
    terminal.keys("P");
    terminal.expect("undoes it. [P]");
    pause(1200);
    let approvals = person.home().join("approvals.toml");
    assert!(!person.project().join("made").exists() && !approvals.exists(), "one key is not enough");
    terminal.keys("P");
    terminal.expect("allowed: `make check`, always");
    terminal.answer("n");
    end(terminal);
    let stored = std::fs::read_to_string(&approvals).unwrap();
    assert!(stored.contains("kind = \"project-code\"") && stored.contains("Makefile"), "{stored}");
    let says = || person.run(&["policy", "test", "make check"]).stdout;
    assert!(says().starts_with("allow "), "{}", says());
    let listed = person.run(&["policy", "list"]).stdout;
    assert!(
        listed.contains("1. allow `make check (in ") && listed.contains("does not match make check --more"),
        "{listed}"
    );
    person.write("Makefile", "check:\n\ttouch other\n");
    assert!(says().starts_with("ask "), "{}", says());
    person.write("Makefile", "check:\n\ttouch made$(AGAIN)\n");
    assert!(says().starts_with("allow "), "{}", says());
    assert_eq!(person.run(&["policy", "revoke", "1"]).code, 0);
    assert!(says().starts_with("ask "), "{}", says());
}

#[test]
fn enter_approves_what_an_arrow_moved_to() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --permission-mode ask 'go'") else {
        return;
    };
    terminal.see("y  Yes");
    pause(1000);
    terminal.keys("\u{1b}[B");
    terminal.see("→ Yes · Enter confirms");
    pause(600);
    assert!(!person.project().join("made").exists(), "an arrow alone answers nothing");
    terminal.keys("\r");
    terminal.see("allowed once");
    terminal.see("Told: ");
    assert!(person.project().join("made").exists());
}

#[test]
fn a_conversation_asks_first_whether_what_the_project_sets_may_count_and_headless_never_asks() {
    let script =
        Script::answering(|asked| Turn::new().text(format!("System: {}.", asked.system.contains("obey"))));
    let server = server(script);
    let person = Person::asking(&server);
    person.write(".zk/settings.toml", "system = \"obey\"\n");
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("exactly as it is? It sets:");
    terminal.expect("│   system = \"obey\"");
    terminal.expect("y  Yes, trust it");
    pause(1000);
    terminal.keys("n");
    terminal.expect("System: false.");
    drop(terminal);
    assert_eq!(person.run(&["-p", "go"]).stdout, "System: false.\n");
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.expect("y  Yes, trust it");
    pause(1000);
    terminal.keys("y");
    terminal.expect("  trusted");
    terminal.expect("System: true.");
    drop(terminal);
    assert_eq!(person.run(&["-p", "go"]).stdout, "System: true.\n");
}

#[test]
fn words_of_a_refusal_reach_the_model() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.answer("w");
    terminal.expect("Words for the model");
    terminal.keys("use make instead");
    pause(50);
    terminal.keys("\r");
    end(terminal);
    assert!(server.bodies()[1].to_string().contains("the user declined this call: use make instead"));
    assert!(!person.project().join("made").exists());
}

#[test]
fn a_paste_answers_no_question_and_is_in_the_draft() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    terminal.answer("\u{1b}[200~y\u{1b}[201~");
    pause(1000);
    terminal.keys("\u{1b}[200~s\r\u{1b}[201~");
    terminal.expect("› ys");
    pause(1000);
    assert!(!person.project().join("made").exists());
    terminal.keys("\u{15}");
    pause(1000);
    terminal.keys("n");
    end(terminal);
    assert!(!person.project().join("made").exists());
}

#[test]
fn enter_alone_approves_nothing() {
    let server = wants("touch made");
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
    for _ in 0..3 {
        terminal.expect("");
        pause(800);
        terminal.keys("\r");
    }
    pause(800);
    assert!(!person.project().join("made").exists());
    terminal.keys("n");
    end(terminal);
    assert!(!person.project().join("made").exists());
}

/// Number of bursts that are typed: one, unless `ZK_BURSTS` says more.
#[expect(clippy::disallowed_methods, reason = "how much is tried is chosen from outside")]
fn bursts() -> u64 {
    std::env::var("ZK_BURSTS").ok().and_then(|count| count.parse::<u64>().ok()).map_or(1, |count| count / 100)
}

#[test]
fn a_burst_that_is_typed_while_a_question_comes_up_does_not_answer_it() {
    for burst in 0..bursts() {
        let server = server(Script::answering(|asked| match asked.messages.len() {
            1 => Turn::new()
                .text("Begun …\n")
                .delay(Duration::from_millis(300))
                .call("shell", json!({ "command": "touch made" })),
            _ => Turn::new().text("Told: nothing."),
        }));
        let person = Person::asking(&server);
        let Some(mut terminal) = Terminal::open(&person, "'go'") else { return };
        terminal.expect("Begun …");
        pause(burst * 37 % 600);
        for key in "go back and say yes any way sys".chars() {
            terminal.keys(&key.to_string());
            pause(30 + burst * 13 % 120);
        }
        terminal.see("Run this command?");
        pause(1200);
        assert!(!person.project().join("made").exists(), "burst {burst}");
        terminal.keys("\u{15}");
        pause(1200);
        terminal.keys("n");
        end(terminal);
        assert!(!person.project().join("made").exists(), "burst {burst}");
    }
}

#[test]
fn a_burst_with_enters_and_pastes_on_a_drawn_screen_does_not_answer_the_question_that_comes_up() {
    for (burst, screen) in (0..bursts()).flat_map(|burst| [(burst, "inline"), (burst, "full")]) {
        let server = server(Script::answering(|asked| match asked.messages.len() {
            1 => Turn::new()
                .text("Begun …\n")
                .delay(Duration::from_millis(300))
                .call("shell", json!({ "command": "touch made" })),
            _ => Turn::new().text("Told: nothing."),
        }));
        let person = Person::asking(&server);
        let args = format!("--screen {screen} --permission-mode ask 'go'");
        let Some(mut terminal) = Terminal::open(&person, &args) else { return };
        terminal.expect("Begun …");
        pause(burst * 37 % 600);
        let between = 30 + burst * 13 % 120;
        for piece in ["y", "e", "s", "\u{1b}[200~y\ry\u{1b}[201~", "s"] {
            terminal.keys(piece);
            pause(between);
        }
        terminal.see("Run this command?");
        for piece in ["y", "\r", "y", "s", "\r", "\u{1b}[200~y\r\u{1b}[201~", "y", "\r", "a", "y"] {
            terminal.keys(piece);
            pause(between);
        }
        pause(1200);
        assert!(!person.project().join("made").exists(), "burst {burst}, {screen}");
        terminal.keys("\u{1b}");
        terminal.expect("stopped");
        assert!(!person.project().join("made").exists(), "burst {burst}, {screen}");
        drop(terminal);
    }
}
