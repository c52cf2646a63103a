//! The first start of a person who has no key, and signing in from inside of a conversation.

use std::net::TcpListener;

use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, program};

/// Person without a key, on a machine without a network and model servers.
fn newcomer(screen: &str) -> Option<Person> {
    for port in [11434, 8080, 1234, 8000] {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            println!("skipped: something listens on port {port}");
            return None;
        }
    }
    Some(Person::new().with("ZK_SCREEN", screen).with("HTTPS_PROXY", "http://127.0.0.1:1"))
}

#[test]
fn a_first_start_asks_for_a_provider_and_a_key_and_the_second_one_is_direct() {
    let Some(person) = newcomer("inline") else { return };
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("zk needs a model.");
    terminal.see("Anthropic");
    terminal.see("paste an API key · sign in with ChatGPT");
    terminal.see("nothing found on 11434, 8080, 1234, 8000");
    terminal.expect("Just look");
    terminal.keys("\r");
    terminal.expect("Key for Anthropic");
    terminal.keys("sk-typed-by-hand\r");
    let before = terminal.until("the key is stored, but not checked");
    assert!(!before.contains("sk-typed"), "{before:?}");
    terminal.expect("Claude Sonnet 5.5");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    assert!(!rest.contains("sk-typed"), "{rest:?}");
    let settings = std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    assert_eq!(settings, "provider = \"anthropic\"\n");
    let stored = std::fs::read_to_string(person.home().join("auth/credentials.json")).unwrap();
    assert!(stored.contains("sk-typed-by-hand"));

    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    let before = terminal.until("Claude Sonnet 5.5");
    assert!(!before.contains("zk needs a model"), "{before:?}");
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_first_start_that_is_left_says_what_else_there_is_and_stores_nothing() {
    for (screen, keys) in [("inline", "\u{1b}"), ("plain", "\r")] {
        let Some(person) = newcomer(screen) else { return };
        let Some(mut terminal) = Terminal::open(&person, "") else { return };
        terminal.expect("zk needs a model.");
        terminal.expect("Just look");
        terminal.keys(keys);
        terminal.expect("no API key found. Run `zk auth login anthropic`");
        assert_eq!(terminal.code(), Some(4), "{screen}");
        assert!(!person.home().join("auth").exists() && !person.home().join("settings.toml").exists());
    }
}

#[test]
fn a_first_start_in_plain_lines_lists_numbers_and_shows_the_demo() {
    let Some(person) = newcomer("plain") else { return };
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("1. Anthropic: paste an API key");
    terminal.expect("5. Just look");
    terminal.expect("Type a number or a name");
    terminal.keys("9\r");
    terminal.expect("there is no such row");
    terminal.keys("5\r");
    terminal.expect("zk demo · scripted model");
    terminal.expect("the project's tests pass");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_key_is_stored_from_inside_and_the_next_question_is_answered() {
    for screen in ["inline", "plain"] {
        let script =
            Script::answering(|asked| Turn::new().text(format!("Heard: {}", asked.last_user_text())));
        let server = FakeServer::builder(script).require_key("right-key").start().unwrap();
        let person = Person::new().with("ANTHROPIC_BASE_URL", &server.url()).with("ZK_SCREEN", screen);
        let Some(mut terminal) = Terminal::open(&person, "") else { return };
        terminal.expect("Claude Sonnet 5.5");
        terminal.keys("/login anthropic\r");
        terminal.expect("Key for Anthropic");
        terminal.keys("wrong-key\r");
        terminal.expect("anthropic does not take this key");
        terminal.expect("Key for Anthropic");
        terminal.keys("right-key\r");
        terminal.expect("the key works and is stored");
        terminal.expect("/provider anthropic");
        terminal.expect("anthropic/claude-sonnet-5-5");
        terminal.keys("are you there\r");
        terminal.expect("Heard: are you there");
        terminal.keys("/quit\r");
        let rest = terminal.rest();
        assert!(!rest.contains("right-key"), "{screen}: {rest:?}");
        assert_eq!(server.violations(), [], "{screen}");
    }
}

#[test]
fn a_login_without_a_name_on_a_terminal_opens_the_list() {
    let Some(person) = newcomer("inline") else { return };
    let Some(mut terminal) = Terminal::open(&person, "auth login") else { return };
    terminal.expect("Sign in to which provider?");
    terminal.expect("This computer");
    // The row of all others, then one of them by its letters.
    terminal.keys("\u{1b}[B\u{1b}[B\r");
    terminal.expect("Which provider?");
    terminal.keys("groq\r");
    terminal.expect("Key for Groq");
    terminal.keys("gsk-1\r");
    terminal.expect("the key is stored, but not checked");
    assert_eq!(terminal.code(), Some(0));
    let stored = std::fs::read_to_string(person.home().join("auth/credentials.json")).unwrap();
    assert!(stored.contains("groq") && stored.contains("gsk-1"));
}

#[test]
fn a_narrow_terminal_gets_lines_broken_at_words_and_a_pipe_gets_them_whole() {
    let person = Person::new();
    let piped = person.run(&["auth", "status"]).stdout;
    assert_eq!(piped.lines().count(), 1, "{piped}");
    let command = format!("stty cols 40; exec {} auth status", program().display());
    let Some(terminal) = Terminal::run(&person, &command) else { return };
    let shown = terminal.rest();
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= 40), "{shown:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "the others hang: {shown:?}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&shown), words(&piped));
}

#[test]
fn a_set_up_stores_a_key_keeps_the_choice_and_asks_one_question() {
    let script = Script::answering(|asked| Turn::new().text(format!("Heard: {}", asked.last_user_text())));
    let server = FakeServer::builder(script).require_key("right-key").start().unwrap();
    let Some(person) = newcomer("inline") else { return };
    let person = person.with("ANTHROPIC_BASE_URL", &server.url());
    let Some(mut terminal) = Terminal::open(&person, "setup") else { return };
    terminal.expect("Which provider should answer?");
    terminal.keys("\r");
    terminal.expect("Key for Anthropic");
    terminal.keys("right-key\r");
    terminal.expect("the key works and is stored");
    terminal.expect("Heard: Say hello");
    terminal.expect("zk is set up");
    assert_eq!(terminal.code(), Some(0));
    let settings = std::fs::read_to_string(person.home().join("settings.toml")).unwrap();
    assert_eq!(settings, "provider = \"anthropic\"\n");
    let sessions = person.run(&["sessions"]).stdout;
    assert!(!sessions.contains("Say hello"), "{sessions}");

    let Some(mut terminal) = Terminal::open(&person, "setup") else { return };
    terminal.expect("anthropic can be used as it is: Esc keeps it");
    terminal.expect("Which provider should answer?");
    terminal.keys("\u{1b}");
    terminal.expect("Heard: Say hello");
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(person.run(&["setup"]).code, 2, "without a terminal");
}
