//! The person's own shell with the agent attached.

use std::path::Path;

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, program, server};

/// Prompt of the shells in these tests.
const PROMPT: &str = "ready> ";

/// Somebody with the same prompt in every shell.
fn person(server: &FakeServer) -> Person {
    let person = Person::asking(server).with("HISTFILE", "/dev/null");
    std::fs::write(person.home().join(".bashrc"), format!("PS1='{PROMPT}'\nTHING=teapot\n")).unwrap();
    std::fs::write(person.home().join(".zshrc"), format!("PROMPT='{PROMPT}'\nTHING=teapot\n")).unwrap();
    let fish = person.home().join(".config/fish");
    std::fs::create_dir_all(&fish).unwrap();
    let start =
        format!("function fish_prompt; printf '{PROMPT}'; end\nset THING teapot\nset fish_greeting\n");
    std::fs::write(fish.join("config.fish"), start).unwrap();
    person
}

fn shells() -> impl Iterator<Item = &'static str> {
    ["bash", "zsh", "fish"].into_iter().filter(|name| Path::new("/usr/bin").join(name).exists())
}

#[test]
fn a_question_at_an_empty_line_is_answered_with_what_ran_before_and_the_shell_goes_on() {
    for shell in shells() {
        let server = server(Script::answering(|asked| {
            Turn::new().text(format!("Answer-{} to {}.", asked.messages.len(), asked.last_user_text()))
        }));
        let person = person(&server);
        let Some(mut terminal) = Terminal::open(&person, &format!("shell --shell {shell}")) else { return };
        terminal.expect(PROMPT);
        terminal.keys("sh -c 'echo $0-pot; exit 3' tea\r");
        terminal.expect("tea-pot");
        terminal.expect(PROMPT);
        terminal.keys("?");
        terminal.expect("Ask anything");
        terminal.keys("why that code\r");
        terminal.expect("Answer-1 to");
        terminal.expect(PROMPT);
        // The line keeps its text under the chord, and a question mark in a line is text.
        terminal.keys("echo what");
        terminal.expect("what");
        terminal.keys("\u{1d}");
        terminal.expect("Ask anything");
        terminal.keys("\u{4}");
        terminal.expect("what");
        terminal.keys("-now; echo \\?$THING\r");
        terminal.expect("what-now");
        terminal.expect("?teapot");
        terminal.expect(PROMPT);
        terminal.keys("exit 7\r");
        assert_eq!(terminal.code(), Some(7), "{shell}");
        let bodies = server.bodies();
        let asked = bodies.last().unwrap().to_string();
        assert!(asked.contains("$ sh -c 'echo $0-pot; exit 3' tea"), "{shell}: {asked}");
        assert!(asked.contains("exit code 3") && asked.contains("\\ntea-pot"), "{shell}: {asked}");
        assert_eq!(server.violations(), []);
    }
}

#[test]
fn a_command_of_the_agent_runs_in_the_live_shell_once_it_is_allowed() {
    let script = Script::new()
        .turn(|t| t.call("run_in_shell", json!({"command": "echo live-$THING\nMORE=kettle"})))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = person(&server);
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash --permission-mode ask") else {
        return;
    };
    terminal.expect(PROMPT);
    terminal.keys("?");
    terminal.expect("Ask anything");
    terminal.keys("do it\r");
    terminal.expect("Call the tool run_in_shell?");
    terminal.expect("echo live-$THING");
    terminal.expect("y  Yes");
    std::thread::sleep(std::time::Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("live-teapot");
    terminal.expect("Finished.");
    terminal.expect(PROMPT);
    terminal.keys("echo and-$MORE\r");
    terminal.expect("and-kettle");
    terminal.keys("exit\r");
    assert_eq!(terminal.code(), Some(0));
    let told = server.bodies().last().unwrap().to_string();
    assert!(told.contains("live-teapot\\n(exit code 0)"), "{told}");
    assert_eq!(server.violations(), []);
}

#[test]
fn a_space_before_a_command_and_shell_off_keep_it_from_the_model() {
    let server =
        server(Script::answering(|asked| Turn::new().text(format!("Answer-{}.", asked.messages.len()))));
    let person = person(&server);
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    terminal.keys(" echo canary-one | tr a-z A-Z\r");
    terminal.expect("CANARY-ONE");
    terminal.expect(PROMPT);
    terminal.keys("read -s word; echo ended\r");
    terminal.expect("\n");
    terminal.keys("canary-two\r");
    terminal.expect("ended");
    terminal.expect(PROMPT);
    terminal.keys("?");
    terminal.expect("Ask anything");
    terminal.keys("what ran\r");
    terminal.expect("Answer-1");
    terminal.expect(PROMPT);
    terminal.keys("?");
    terminal.expect("Ask anything");
    terminal.keys("/shell off\r");
    terminal.expect("nothing of the shell is recorded");
    terminal.expect(PROMPT);
    terminal.keys("echo canary-three | tr a-z A-Z\r");
    terminal.expect("CANARY-THREE");
    terminal.expect(PROMPT);
    terminal.keys("?");
    terminal.expect("Ask anything");
    terminal.keys("and now\r");
    terminal.expect("Answer-3");
    terminal.expect(PROMPT);
    terminal.keys("exit\r");
    assert_eq!(terminal.code(), Some(0));
    let all = server.bodies().iter().map(ToString::to_string).collect::<String>().to_lowercase();
    assert!(all.contains("read -s word") && !all.contains("canary"), "{all}");
}

#[test]
fn a_shell_in_a_shell_and_a_shell_without_a_terminal_are_refused() {
    let server = server(Script::new());
    let person = person(&server);
    let zk = program().display().to_string();
    let Some(mut terminal) = Terminal::open(&person, "shell --shell bash") else { return };
    terminal.expect(PROMPT);
    terminal.keys(&format!("{zk} shell; echo code-$?\r"));
    terminal.expect("this is a shell of zk already");
    terminal.expect("code-2");
    terminal.expect(PROMPT);
    terminal.keys(&format!("{zk} shell --nested </dev/null; echo code-$?\r"));
    terminal.expect("a shell needs a terminal");
    terminal.expect("code-2");
    terminal.keys("exit\r");
    assert_eq!(terminal.code(), Some(0));
    let Some(terminal) = Terminal::open(&person, "shell --shell /no/such/shell") else { return };
    terminal.expect("cannot start /no/such/shell");
    assert_eq!(terminal.code(), Some(1));
}
