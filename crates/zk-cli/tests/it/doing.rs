//! Words and keys about what the agent is doing, through the program on a terminal.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server, until};

/// Waits until the terminal shows a text, and until a question accepts keys.
fn settled(terminal: &mut Terminal, text: &str) {
    terminal.expect(text);
    std::thread::sleep(std::time::Duration::from_millis(700));
}

#[test]
fn a_command_goes_on_in_the_background_with_a_key_and_the_run_goes_on() {
    let command = "echo started; until [ -e go ]; do sleep 0.05; done; echo over > made";
    let script = Script::new()
        .turn(move |t| t.call("shell", json!({ "command": command, "timeout_ms": 600_000 })))
        .turn(|t| t.text("Meanwhile."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --allow-all 'go'") else { return };
    terminal.expect("      started");
    terminal.keys("\u{2}");
    terminal.expect("goes on in the background as job-1");
    terminal.expect("Meanwhile.");
    let told = server.bodies().last().unwrap().to_string();
    assert!(told.contains("the user put it in the background") && told.contains("job-1"), "{told}");
    terminal.keys("/background\r");
    terminal.expect("no command runs that could go on in the background");
    std::fs::write(person.project().join("go"), "").unwrap();
    while !person.project().join("made").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_plan_is_made_with_what_only_reads_and_gone_on_with_in_the_mode_before() {
    let script = Script::new()
        .turn(|t| t.call("write_file", json!({ "path": "early.txt", "content": "x" })))
        .turn(|t| t.call("present_plan", json!({ "plan": "# Fix it\n\n1. **Write** the file" })))
        .turn(|t| t.call("write_file", json!({ "path": "late.txt", "content": "x" })))
        .turn(|t| t.text("Finished."));
    for args in ["--screen inline --permission-mode accept-edits", "--screen inline --preset plan"] {
        let server = server(script.clone());
        let person = Person::asking(&server);
        if args.contains("preset") {
            person.settings("[permissions]\nmode = \"accept-edits\"\n");
        }
        let Some(mut terminal) = Terminal::open(&person, args) else { return };
        terminal.expect("? keys");
        if !args.contains("preset") {
            terminal.keys("/permissions plan\r");
            terminal.expect("plan: only what reads runs");
        }
        terminal.keys("go\r");
        settled(&mut terminal, "Go on with this plan?");
        assert!(!person.project().join("early.txt").exists());
        terminal.keys("\u{1b}[B");
        terminal.expect("› 1  Go on");
        // Enter that comes right behind the arrow takes nothing.
        terminal.press_until("\r", "→ Go on");
        terminal.expect("Finished.");
        assert!(person.project().join("late.txt").exists());
        let bodies = server.bodies();
        assert!(bodies[0].to_string().contains("plan mode: calls that change something are refused"));
        assert!(!bodies.last().unwrap().to_string().contains("plan mode: calls that change something"));
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

#[test]
fn a_to_do_list_stands_above_the_place_to_type_and_comes_back_with_its_session() {
    let todos = json!({ "todos": [
        { "content": "find the failing test", "status": "completed" },
        { "content": "fix the discount", "status": "in_progress" },
    ] });
    let server = server(Script::new().turn(move |t| t.call("todo_write", todos)).turn(|t| t.text("Begun.")));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'go'") else { return };
    terminal.expect("☑ find the failing test");
    terminal.expect("Begun.");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --continue") else { return };
    // In one row above the place to type.
    terminal.expect("☑ find the failing test\u{1b}[m   \u{1b}[1m▸ fix the discount");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn the_models_question_is_answered_in_the_persons_own_words() {
    let asked = json!({ "question": "Which rounding?", "options": ["Half up", "Truncate"],
        "descriptions": ["like a shop till", "always down"] });
    let server = server(Script::new().turn(move |t| t.call("ask_user", asked)).turn(|t| t.text("Finished.")));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'go'") else { return };
    settled(&mut terminal, "like a shop till");
    terminal.keys("h");
    terminal.expect("> \u{1b}[mh");
    terminal.keys("alf up please\r");
    terminal.expect("Finished.");
    let told = server.bodies().last().unwrap().to_string();
    assert!(told.contains("The user answers: half up please"), "{told}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_sub_agent_is_one_row_by_its_task() {
    let server = server(Script::answering(|asked| {
        let is_child =
            asked.messages.first().is_some_and(|first| first.text().contains("Count the functions"));
        match (is_child, asked.messages.len()) {
            (true, 1) => Turn::new().call("glob", json!({ "pattern": "**/*.none" })),
            (true, _) => Turn::new().text("There are seven-and-forty."),
            (false, 1) => Turn::new().call("spawn", json!({ "task": "Count the functions" })),
            (false, _) => Turn::new().text("Finished."),
        }
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'go'") else { return };
    terminal.expect("✓\u{1b}[m Count the functions");
    terminal.expect("1 call");
    terminal.expect("Finished.");
    let mut plain = Terminal::open(&person, "'go'").unwrap();
    plain.expect("1 call");
    plain.expect("Finished.");
    plain.expect("› ");
    plain.keys("/agents main.1\r");
    plain.expect("main.1: Count the functions");
    plain.expect("find **/*.none");
    plain.expect("There are seven-and-forty.");
    plain.expect("› ");
    plain.leave();
    assert_eq!(plain.code(), Some(0));
    terminal.leave();
    let rest = terminal.rest();
    assert!(!rest.contains("seven-and-forty"), "{rest:?}");
}

#[test]
fn a_plan_on_plain_lines_is_drawn_in_its_question_and_afterwards() {
    let script = Script::new()
        .turn(|t| t.call("present_plan", json!({ "plan": "# Fix it\n\n1. **Write** the file" })))
        .turn(|t| t.text("Finished."));
    let server = server(script);
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen plain 'go'") else { return };
    let asked = terminal.until("Go on with this plan?");
    assert!(asked.contains("│ Fix it") && asked.contains("1. Write the file"), "{asked}");
    settled(&mut terminal, "Enter answers");
    terminal.keys("1");
    terminal.expect("1");
    terminal.keys("\r");
    let after = terminal.until("Finished.");
    assert!(after.contains("  Fix it") && after.contains("  1. Write the file"), "{after}");
    let all = asked + &after;
    assert!(!all.contains("# Fix it") && !all.contains("**"), "{all}");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_sub_agent_in_the_background_is_steered_and_stopped_by_commands() {
    let server = server(Script::answering(|asked| {
        let is_child =
            asked.messages.first().is_some_and(|first| first.text().contains("Count the functions"));
        let text = asked.last_user_text();
        match (is_child, asked.messages.len()) {
            (true, 1) => {
                Turn::new().call("shell", json!({ "command": "until [ -e go ]; do sleep 0.01; done" }))
            }
            (true, _) if text.contains("only the public ones") => Turn::new().text("Only these.").hang(),
            (true, _) => Turn::new().text("Not steered."),
            (false, 1) => {
                Turn::new().call("spawn", json!({ "task": "Count the functions", "background": true }))
            }
            (false, _) if text.contains("was stopped") => Turn::new().text("It was stopped, then."),
            (false, _) => Turn::new().text("It has begun."),
        }
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "--screen plain --allow-all 'go'") else { return };
    terminal.expect("It has begun.");
    terminal.expect("› ");
    terminal.keys("/agents steer main.1 only the public ones\r");
    terminal.expect("› ");
    person.write("go", "");
    let sent = || server.bodies().iter().map(ToString::to_string).collect::<Vec<_>>();
    until("the steered turn", || sent().iter().any(|body| body.contains("only the public ones")));
    terminal.keys("/agents stop main.1\r");
    terminal.expect("› ");
    terminal.keys("/agents\r");
    terminal.expect("stopped");
    terminal.expect("› ");
    terminal.keys("thanks\r");
    terminal.expect("It was stopped, then.");
    terminal.leave();
    assert_eq!(sent().iter().filter(|body| body.contains("Not steered.")).count(), 0);
}
