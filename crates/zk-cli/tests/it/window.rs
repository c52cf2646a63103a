//! Content of the context window, and ways for a person to have a conversation made smaller.

use serde_json::json;
use zk_core::model::{ErrorKind, Usage};
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

#[test]
fn a_person_compacts_a_conversation_takes_it_back_and_sees_what_fills_the_context() {
    let server = server(Script::answering(|asked| {
        Turn::new().text(format!("Answer {} {}END", asked.messages.len(), "word ".repeat(600)))
    }));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'first question'") else { return };
    terminal.expect("END");
    terminal.expect("› ");
    for prompt in ["second", "third", "fourth"] {
        terminal.keys(&format!("{prompt}\r"));
        terminal.expect("END");
        terminal.expect("› ");
    }
    terminal.keys("/compact\r");
    terminal.expect("compacted: about ");
    terminal.expect("/uncompact takes it back");
    terminal.expect("› ");
    terminal.keys("/context\r");
    terminal.expect("last request: ");
    terminal.expect(" (window ");
    terminal.expect("answers");
    terminal.expect("compacted once");
    terminal.expect("› ");
    terminal.keys("fifth\r");
    terminal.expect("END");
    terminal.expect("› ");
    let begun = server.requests().len();
    terminal.keys("/uncompact\r");
    terminal.expect("taken back");
    terminal.expect("› ");
    terminal.keys("sixth\r");
    terminal.expect("Answer 11 ");
    terminal.expect("END");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.requests().len(), begun + 1);
    assert_eq!(server.violations(), []);

    let listed = person.run(&["sessions"]).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let shown = person.run(&["context", id]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for part in ["tokens", "section   identity", "tools", "answers", "turn 6"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
}

#[test]
fn ways_to_make_a_conversation_smaller_that_contradict_each_other_are_refused_at_the_start() {
    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    for (settings, said) in [
        ("shorten = false\n[compaction]\nstrategy = \"rolling\"\n", "leaves every conversation as it is"),
        ("[compaction]\nstrategy = \"subgoal\"\ntail = true\n", "by their age"),
        ("[compaction]\nstrategy = \"subgoal_mig\"\ntail = true\n", "by their age"),
        (
            "[compaction]\ntool_pairs = true\ntail = true\n",
            "`compaction.tail = true` and `compaction.tool_pairs = true`",
        ),
        ("shorten = false\n[compaction]\ntail = true\n", "`shorten = false` and `compaction.tail = true`"),
        ("[compaction]\nauto_consolidate_min_window = 3\n", "no other strategy merges"),
        (
            "[compaction]\ntail_bytes = 1000\n",
            "`compaction.tail_bytes` has no effect; remove it, or set `compaction.tail = true`",
        ),
        (
            "[compaction]\nstrategy = \"focus\"\nauto_consolidate_min_window = 0\n",
            "auto_consolidate_min_window",
        ),
        ("[compaction]\nstrategy = \"foucs\"\n", "focus"),
    ] {
        person.settings(settings);
        let ended = person.run(&["-p", "hello"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{settings}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{settings}: {}", ended.stderr);
    }
}

#[test]
fn from_how_many_bytes_on_and_of_which_turns_older_results_leave_is_a_setting() {
    let sent = |settings: &str| {
        let server = server(Script::answering(|asked| match asked.number {
            number @ 1..=4 => Turn::new().call("read_file", json!({ "path": format!("{number}.txt") })),
            _ => Turn::new().text("done"),
        }));
        let person = Person::asking(&server);
        for number in 1..=4 {
            person.write(&format!("{number}.txt"), &format!("needle-{number} {}\n", "x".repeat(600)));
        }
        person.settings(settings);
        let ended = person.run(&["-p", "hello"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let body = server.bodies().pop().unwrap().to_string();
        (1..=4).filter(|number| body.contains(&format!("needle-{number} x"))).collect::<Vec<_>>()
    };
    let tail = "[compaction]\ntail = true\n";
    assert_eq!(sent(tail), [1, 2, 3, 4]);
    assert_eq!(sent(&format!("{tail}tail_bytes = 700\ntail_turns = 1\n")), [4]);
    assert_eq!(sent(&format!("{tail}tail_bytes = 700\ntail_turns = 2\n")), [3, 4]);
    assert_eq!(sent(&format!("{tail}tail_bytes = 70000\ntail_turns = 1\n")), [1, 2, 3, 4]);
}

#[test]
fn the_provider_is_asked_to_compact_where_it_can_and_refused_where_it_cannot() {
    let script = || Script::answering(|_| Turn::new().text("done"));
    let anthropic = server(script());
    let person = Person::asking(&anthropic);
    person.settings("compaction.strategy = \"server\"\n");
    let ended = person.run(&["-p", "hello"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"), "{}", ended.stderr);
    let body = anthropic.bodies().pop().unwrap();
    let edit = &body["context_management"]["edits"][0];
    assert_eq!(edit["type"], "compact_20260112", "{body}");
    // Three quarters of a window of a million, without the reserve.
    assert_eq!(edit["trigger"], json!({"type": "input_tokens", "value": 737_712}), "{body}");
    person.settings(
        "compaction.strategy = \"server\"\n[plugins.context-window]\nsoft = 0.2\nhard = 0.4\nreserve = 0\n",
    );
    assert_eq!(person.run(&["-p", "hello"]).code, 0);
    let body = anthropic.bodies().pop().unwrap();
    assert_eq!(body["context_management"]["edits"][0]["trigger"]["value"], 300_000, "{body}");

    let compatible = server(script());
    let other = Person::new();
    other.settings("compaction.strategy = \"server\"\nprovider = \"openai_compat\"\nmodel = \"m\"\n");
    let ended = other.run(&["-p", "hello", "--base-url", &compatible.openai_url()]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`openai_compat` does not compact conversations itself"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_happens_inside_is_written_to_private_files_where_somebody_asks_for_it() {
    use std::os::unix::fs::PermissionsExt;

    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "hello inside", "--debug-dump", "dumps"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"), "{}", ended.stderr);
    let dir = person.project().join("dumps");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let request = dir.join("0001-request.txt");
    assert!(std::fs::read_to_string(&request).unwrap().contains("hello inside"));
    assert_eq!(mode(&request), 0o600);
    // Another conversation writes beside it.
    assert_eq!(person.run(&["-p", "again", "--debug-dump", "dumps"]).code, 0);
    assert!(std::fs::read_to_string(dir.join("0002-request.txt")).unwrap().contains("again"));
    let nothing = person.run(&["-p", "hello"]);
    assert_eq!((nothing.code, std::fs::read_dir(&dir).unwrap().count()), (0, 2));
}

#[test]
fn what_a_compaction_left_out_and_what_strategies_know_is_among_the_files_that_somebody_asks_for() {
    let server = server(Script::answering(|asked| {
        let is_about_steps = asked.system.contains("You name what an agent is working on");
        Turn::new().text(if is_about_steps {
            "Count words".to_owned()
        } else {
            format!("{}END", "word ".repeat(600))
        })
    }));
    let person = Person::asking(&server);
    person.settings("[compaction]\nstrategy = \"subgoal\"\n");
    let Some(mut terminal) = Terminal::open(&person, "first --debug-dump dumps") else { return };
    for prompt in ["second\r", "third\r", "fourth\r", "/compact\r"] {
        terminal.expect("END");
        terminal.expect("› ");
        terminal.keys(prompt);
    }
    terminal.expect("compacted: about ");
    terminal.expect("› ");
    terminal.keys("fifth\r");
    terminal.expect("END");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
    let entries = std::fs::read_dir(person.project().join("dumps")).unwrap();
    let names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for what in ["request", "compaction", "left-out", "prefix-break", "subgoal-registry"] {
        assert!(names.iter().any(|name| name.ends_with(&format!("-{what}.txt"))), "{what}: {names:?}");
    }
}

#[test]
fn instructions_of_a_subdirectory_outlive_a_compaction_byte_for_byte_and_are_not_told_twice() {
    let server = server(Script::answering(|asked| match asked.number {
        1 => Turn::new().call("read_file", json!({"path": "sub/a.txt"})),
        9 => Turn::new().call("read_file", json!({"path": "sub/b.txt"})),
        _ => Turn::new().text(format!("{}END", "word ".repeat(600))),
    }));
    let person = Person::asking(&server);
    person.settings("[compaction]\nstrategy = \"shorten\"\n");
    let rule = "Use  two blanks,\tünd a tab.\n\n* & <so> on";
    person.write("sub/AGENTS.md", rule).write("sub/a.txt", "a").write("sub/b.txt", "b");
    let Some(mut terminal) = Terminal::open(&person, "first") else { return };
    let told = |text: &str| {
        let body = server.bodies().pop().unwrap();
        let frame = serde_json::to_string(&format!("\n{text}\n</project_instructions>")).unwrap();
        body["messages"].to_string().matches(frame.trim_matches('"')).count()
    };
    terminal.expect("END");
    terminal.expect("› ");
    assert_eq!(told(rule), 1, "{}", server.bodies().pop().unwrap()["messages"]);
    for prompt in ["second", "third", "fourth", "fifth"] {
        terminal.keys(&format!("{prompt}\r"));
        terminal.expect("END");
        terminal.expect("› ");
    }
    for _ in 0..2 {
        terminal.keys("/compact\r");
        terminal.expect("compacted: about ");
        terminal.expect("› ");
        terminal.keys("more\r");
        terminal.expect("END");
        terminal.expect("› ");
        let body = server.bodies().pop().unwrap()["messages"].to_string();
        assert!(!body.contains("first"), "{body}");
        assert_eq!(told(rule), 1, "{body}");
    }
    // Work there again: it is known.
    terminal.keys("again\r");
    terminal.expect("END");
    terminal.expect("› ");
    assert_eq!(told(rule), 1);
    terminal.keys("/quit\r");
    terminal.rest();
    assert_eq!(server.violations(), []);
}

#[test]
fn a_run_that_ends_for_want_of_room_says_what_can_be_done_in_a_conversation_and_without_one() {
    let too_long = || Script::answering(|_| Turn::new().error(ErrorKind::ContextExceeded, "too long"));
    let fake = server(too_long());
    let ended = Person::asking(&fake).run(&["-p", "hello"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("with a larger window, or begin anew"), "{}", ended.stderr);

    let fake = server(too_long());
    let person = Person::asking(&fake);
    let Some(mut terminal) = Terminal::open(&person, "hello") else { return };
    for part in ["choose: /context shows", "/compact WORDS", "/uncompact", "/model NAME", "/new"] {
        terminal.expect(part);
    }
    // The prompt that was not answered stands in the line again; before that, no editor hears a key.
    terminal.expect("\u{1b}[K› hello");
    terminal.keys("\u{15}/quit\r");
    terminal.rest();
}

#[test]
fn a_conversation_that_no_compaction_helps_stops_once_with_what_fills_it_and_what_can_be_done() {
    // The provider counts nearly all of the window.
    let usage = Usage { input: 970_000, output: 10, ..Usage::default() };
    let server = server(Script::answering(move |_| Turn::new().text("word END").usage(usage)));
    let person = Person::asking(&server);
    person.settings(
        "[compaction]\nstrategy = \"shorten\"\n[plugins.context-window]\nleast_freed = 0.99\ncooldown = 0\n",
    );
    let Some(mut terminal) = Terminal::open(&person, "first") else { return };
    let (mut is_stopped, mut all) = (false, String::new());
    for number in 0..8 {
        // Long lines are broken at words.
        let said = terminal.until(" out · ").replace("\u{1b}[0m\r\n\u{1b}[31m  ", " ");
        all.push_str(&said);
        if said.contains("too little twice in a row") {
            assert!(said.contains(" stay: tools ") && said.contains("choose: /context shows"), "{said}");
            is_stopped = true;
            break;
        }
        terminal.keys(&format!("prompt {number}\r"));
    }
    assert!(is_stopped, "{all}");
    terminal.expect("\u{1b}[K› prompt");
    let asked = server.requests().len();
    terminal.keys("\u{15}a new prompt goes on\r");
    terminal.expect(" out · ");
    assert_eq!(server.requests().len(), asked + 1);
    terminal.keys("/quit\r");
    terminal.rest();
}

#[test]
fn a_compaction_shows_a_row_while_it_works_and_escape_stops_it() {
    let server = server(Script::answering(|asked| match asked.number {
        1..=4 => Turn::new().text(format!("Answer {} {}END", asked.number, "word ".repeat(600))),
        _ => Turn::new().text("A summary").hang(),
    }));
    let person = Person::asking(&server);
    person.settings("compaction.strategy = \"summary\"\n");
    let Some(mut terminal) = Terminal::open(&person, "--screen inline 'first question'") else { return };
    terminal.expect("1 turn · ");
    for prompt in ["second", "third", "fourth"] {
        terminal.keys(&format!("{prompt}\r"));
        terminal.expect("1 turn · ");
    }
    terminal.keys("/compact\r");
    terminal.expect("Esc stops");
    terminal.expect("making room: ");
    terminal.keys("\u{1b}");
    terminal.expect("the conversation was not made smaller: it was stopped");
    terminal.keys("/quit\r");
    assert_eq!(terminal.code(), Some(0));
}
