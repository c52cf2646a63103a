//! What fills the context window, and how a person has a conversation made smaller.

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
    terminal.expect("usable tokens");
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
        ("[compaction]\nauto_consolidate_min_window = 3\n", "no other strategy merges"),
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
fn the_provider_is_asked_to_compact_where_it_can_and_refused_where_it_cannot() {
    let script = || Script::answering(|_| Turn::new().text("done"));
    let anthropic = server(script());
    let person = Person::asking(&anthropic);
    person.settings("compaction.strategy = \"server\"\n");
    let ended = person.run(&["-p", "hello"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"), "{}", ended.stderr);
    let body = anthropic.bodies().pop().unwrap();
    assert_eq!(body["context_management"]["edits"][0]["type"], "compact_20260112", "{body}");

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
