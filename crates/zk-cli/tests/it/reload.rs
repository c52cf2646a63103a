//! `/reload`: what is set is read anew, and the conversation goes on.

use serde_json::{Value, json};
use zk_core::model::Usage;
use zk_testkit::{FakeMcpScript, FakeServer, Script, Turn};

use crate::terminal::{Terminal, counting};
use crate::zk::{Person, server, until};

const READ: &str = "skills, agents and MCP servers are read anew";

const KEYS: &str =
    "[keys]\n\"/reload\" = \"alt-r\"\n\"/greet all of you\" = \"alt-v\"\n\"/nothing\" = \"alt-n\"\n";

fn last(server: &FakeServer) -> Value {
    server.bodies().pop().unwrap()
}

#[test]
fn reload_reads_settings_hooks_and_servers_anew_and_the_session_goes_on() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--model claude-sonnet-4-5 'first one'") else { return };
    terminal.expect("Answer 1 to: first one");
    terminal.expect("› ");
    terminal.keys("/model claude-opus-4-5\r");
    terminal.expect("claude-opus-4-5");
    terminal.expect("› ");
    let fake = crate::mcp::settings(&FakeMcpScript::default());
    let hook = "[[hooks.UserPromptSubmit]]\ncommand = 'echo asked >> asked.txt'\n";
    person.settings(&format!("append_system = \"Be short.\"\nmcp.wait = 5000\n{hook}{fake}"));
    // Not stored yet, and not forgotten.
    terminal.keys("!printf %s-%s of person\r");
    terminal.expect("of-person");
    terminal.expect("› ");
    terminal.keys("/reload\r");
    terminal.expect(READ);
    terminal.expect("› ");
    terminal.keys("second one\r");
    terminal.expect("(exit code 0)second one");
    terminal.expect("› ");
    let body = last(&server);
    let text = body.to_string();
    assert_eq!(text.matches("of-person").count(), 1, "{text}");
    assert!(text.contains("Be short.") && body["tools"].to_string().contains("mcp_fake_echo"), "{text}");
    assert_eq!(body["model"], "claude-opus-4-5", "the model is the one that was chosen");
    assert!(text.contains("first one"), "{text}");
    let hook_ran = || std::fs::read_to_string(person.project().join("asked.txt")).unwrap_or_default();
    assert_eq!(hook_ran(), "asked\n");
    // And without it again: nothing of the old stays.
    person.settings("");
    terminal.keys("/reload\r");
    terminal.expect(READ);
    terminal.expect("› ");
    terminal.keys("third one\r");
    terminal.expect("Answer 5 to: third one");
    terminal.expect("› ");
    let body = last(&server);
    assert!(!body.to_string().contains("Be short."), "{body}");
    assert!(!body["tools"].to_string().contains("mcp_fake_echo"), "{body}");
    assert_eq!(hook_ran(), "asked\n");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    assert!(rest.contains("zk --resume s_"), "{rest}");
    let listed = person.run(&["sessions"]).stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert_eq!(server.violations(), []);
}

#[test]
fn with_settings_that_cannot_be_used_it_goes_on_with_those_before() {
    let server = counting();
    let person = Person::asking(&server);
    person.settings("append_system = \"Be short.\"\n");
    let Some(mut terminal) = Terminal::open(&person, "'first one'") else { return };
    terminal.expect("Answer 1 to: first one");
    terminal.expect("› ");
    person.settings("append_system = \"Be long.\"\nthinking = \"a lot\"\n");
    terminal.keys("/reload\r");
    terminal.expect("nothing is read anew, everything stays as it is");
    terminal.expect("thinking");
    terminal.expect("› ");
    // One that only its provider can judge, once the conversation before has ended.
    person.settings("append_system = \"Be long.\"\n[providers.anthropic.options]\nnonsense = 1\n");
    terminal.keys("/reload\r");
    terminal.expect("cannot go on with the new settings, so those before stay");
    terminal.expect("nonsense");
    terminal.expect("› ");
    terminal.keys("/jobs start sleep 600\r");
    terminal.expect("started");
    terminal.expect("› ");
    terminal.keys("/reload\r");
    terminal.expect("still runs in the background");
    terminal.expect("› ");
    terminal.keys("second one\r");
    terminal.expect("Answer 3 to: second one");
    terminal.expect("› ");
    assert!(last(&server).to_string().contains("Be short."));
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(server.violations(), []);
}

#[test]
fn a_drawn_screen_reloads_its_keys_and_keeps_what_was_said() {
    for screen in ["inline", "full"] {
        let server = counting();
        let person = Person::asking(&server);
        let args = format!("--screen {screen} --no-session 'first one'");
        let Some(mut terminal) = Terminal::open(&person, &args) else { return };
        terminal.expect("Answer 1 to: first one");
        terminal.expect("1 turn ·");
        std::fs::write(person.home().join("keys.toml"), KEYS).unwrap();
        person.write(".claude/commands/greet.md", "Greet $ARGUMENTS.");
        terminal.keys("/reload\r");
        terminal.expect(READ);
        terminal.expect("there is no command /nothing");
        // Text that is typed stays beside what a key runs.
        terminal.keys("second one");
        terminal.keys("\u{1b}v");
        terminal.expect("Answer 3 to: Greet all of you.");
        terminal.expect("1 turn ·");
        terminal.press_until("\r", "Answer 5 to: second one");
        terminal.expect("1 turn ·");
        assert!(last(&server).to_string().contains("first one"), "{screen}");
        terminal.press_until("\u{1b}r", READ);
        terminal.keys("/quit\r");
        assert_eq!(terminal.code(), Some(0), "{screen}");
        assert_eq!(server.violations(), []);
    }
}

#[test]
fn a_conversation_that_is_not_saved_keeps_its_large_results() {
    let server = counting();
    let person = Person::asking(&server);
    let temp = person.home().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let person = person.with("TMPDIR", temp.to_str().unwrap());
    let count = || std::fs::read_dir(&temp).unwrap().count();
    let Some(mut terminal) = Terminal::open(&person, "--no-session 'first one'") else { return };
    terminal.expect("Answer 1 to: first one");
    terminal.expect("› ");
    let before = count();
    for _ in 0..2 {
        terminal.keys("/reload\r");
        terminal.expect(READ);
        terminal.expect("› ");
        assert_eq!(count(), before, "the place of large results is the same");
    }
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
    until("it is gone at the end", || count() < before);
}

#[test]
fn a_detached_command_goes_on_in_the_list_of_jobs() {
    for screen in ["plain", "inline"] {
        let call = json!({"command": "echo is''-up; sleep 120", "background": true, "detach": true});
        let script = Script::new()
            .turn(move |turn| turn.call("shell", call))
            .turn(|turn| turn.text("Started."))
            .turn(|turn| turn.text("Seen."));
        let server = server(script);
        let person = Person::asking(&server).with("ZK_SCREEN", screen);
        let Some(mut terminal) = Terminal::open(&person, "--allow-all 'first one'") else { return };
        terminal.expect("Started.");
        terminal.expect(if screen == "plain" { "› " } else { "turns ·" });
        terminal.keys("/reload\r");
        terminal.expect(READ);
        if screen == "plain" {
            terminal.expect("› ");
        }
        // The first run after it takes nothing away.
        terminal.keys("second one\r");
        terminal.expect("Seen.");
        terminal.expect(if screen == "plain" { "› " } else { "1 turn ·" });
        assert!(last(&server).to_string().contains("running in the background: job-1"), "{screen}");
        terminal.keys("/jobs list\r");
        terminal.expect("job-1");
        terminal.expect(", detached");
        terminal.keys("/jobs tail job-1\r");
        terminal.expect("is-up");
        terminal.keys("/jobs kill job-1\r");
        terminal.expect("is asked to end");
        if screen == "plain" {
            terminal.expect("› ");
        }
        // In plain lines nothing goes on while a line is read.
        terminal.keys("!sleep 3; echo sl''ept\r");
        terminal.expect("slept");
        terminal.press_until("/jobs list\r", "has ended");
        terminal.keys("/quit\r");
        assert_eq!(terminal.code(), Some(0), "{screen}");
    }
}

#[test]
fn what_was_spent_of_a_budget_stays_spent_where_nothing_is_stored() {
    let script = Script::answering(|asked| {
        let usage = Usage { input: 85_000, output: 1_000, ..Usage::default() };
        Turn::new().text(format!("Answer {}.", asked.messages.len())).usage(usage)
    });
    let server = server(script);
    let person = Person::asking(&server);
    let args = "--no-session --max-tokens 2000 --max-tokens-total 90000 'first one'";
    let Some(mut terminal) = Terminal::open(&person, args) else { return };
    terminal.expect("Answer 1.");
    terminal.expect("› ");
    terminal.keys("/reload\r");
    terminal.expect(READ);
    terminal.expect("› ");
    terminal.keys("second one\r");
    terminal.expect("The budget is used up");
    terminal.expect("86000 of 90000 tokens are spent");
    assert_eq!(server.bodies().len(), 1);
}

#[test]
fn hooks_are_told_that_the_conversation_is_left_and_goes_on() {
    for args in ["", "--no-session "] {
        let server = counting();
        let person = Person::asking(&server);
        let hook = |event: &str| format!("[[hooks.{event}]]\ncommand = 'cat >> told.txt'\n");
        person.settings(&(hook("SessionStart") + &hook("SessionEnd")));
        let Some(mut terminal) = Terminal::open(&person, &format!("{args}'first one'")) else { return };
        terminal.expect("Answer 1 to: first one");
        terminal.expect("› ");
        terminal.keys("/reload\r");
        terminal.expect(READ);
        terminal.expect("› ");
        terminal.keys("second one\r");
        terminal.expect("Answer 3 to: second one");
        terminal.expect("› ");
        terminal.keys("/quit\r");
        assert_eq!(terminal.code(), Some(0));
        let told = std::fs::read_to_string(person.project().join("told.txt")).unwrap_or_default();
        let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said = |told: &Value| {
            let word = told.get("source").or(told.get("reason")).unwrap();
            format!("{} {}", told["hook_event_name"].as_str().unwrap(), word.as_str().unwrap())
        };
        let expected =
            ["SessionStart startup", "SessionEnd other", "SessionStart resume", "SessionEnd other"];
        assert_eq!(told.iter().map(said).collect::<Vec<_>>(), expected, "{args}");
        assert!(told.iter().all(|one| one["session_id"] == told[0]["session_id"]), "{told:?}");
    }
}

#[test]
fn the_screen_that_was_chosen_in_the_conversation_stays() {
    let server = counting();
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'first one'") else { return };
    terminal.expect("Answer 1 to: first one");
    terminal.expect("1 turn ·");
    terminal.keys("/screen full\r");
    terminal.expect("\u{1b}[?1049h");
    terminal.press_until("/reload\r", "\u{1b}[?1049l");
    terminal.expect("\u{1b}[?1049h");
    terminal.see(READ);
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
}
