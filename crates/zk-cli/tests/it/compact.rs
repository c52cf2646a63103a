//! Compaction of conversations and results, as the program shows it.

use serde_json::{Value, json};
use zk_core::model::Usage;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

/// Settings of a window that a few answers fill.
const SMALL: &str =
    "[models.\"anthropic/claude-sonnet-5-5\"]\nwindow = 16000\n[compaction]\nstrategy = \"shorten\"\n";

#[test]
fn a_conversation_that_is_made_smaller_by_itself_is_told_in_tokens_and_is_a_badge_with_its_age() {
    let server = server(Script::answering(|asked| match asked.number {
        number @ 1..=8 => Turn::new()
            .call("read_file", json!({ "path": format!("{number}.txt") }))
            .usage(Usage { input: 1_500 * number as u64, output: 20, ..Usage::default() }),
        _ => Turn::new().text("done"),
    }));
    let person = Person::asking(&server);
    person.settings(SMALL);
    for number in 1..=8 {
        person.write(&format!("{number}.txt"), &"some words of a file\n".repeat(280));
    }
    let ended = person.run(&["-p", "read them", "--view", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines = ended.lines();
    let text = lines.iter().map(Value::to_string).collect::<Vec<_>>();
    assert!(text.iter().any(|line| line.contains("compacted: about ") && line.contains(" are ")), "{text:?}");
    let gauges: Vec<&Value> = lines
        .iter()
        .filter_map(|line| line.pointer("/status/gauge"))
        .filter(|gauge| gauge.is_object())
        .collect();
    let first = gauges.iter().position(|gauge| gauge["compactions"].as_u64() > Some(0)).unwrap();
    assert!(gauges[..first].iter().all(|gauge| gauge.get("last").is_none()), "no badge before the first");
    let last = &gauges.last().unwrap()["last"];
    assert!(last["before"].as_u64() > last["after"].as_u64() && last["age_ms"] == 0, "{last}");
    for gauge in gauges {
        let percent = gauge["percent"].as_u64().unwrap();
        let colour = match percent {
            0..70 => "green",
            70..=90 => "yellow",
            _ => "red",
        };
        assert_eq!(gauge["colour"], colour, "{gauge}");
    }
}

#[test]
fn the_model_asks_for_a_compaction_where_the_settings_let_it_and_is_told_when_it_is_not_the_time() {
    let request = |number: u64| {
        Turn::new().call("request_compaction", json!({ "keep": "the plan" })).usage(Usage {
            input: 5_000 + number,
            output: 20,
            ..Usage::default()
        })
    };
    let script = move || {
        Script::answering(move |asked| match asked.number {
            1 => Turn::new().call("read_file", json!({ "path": "long.txt" })).usage(Usage {
                input: 5_000,
                output: 20,
                ..Usage::default()
            }),
            number @ 2..=4 => request(number as u64),
            _ => Turn::new().text("done"),
        })
    };
    let offered = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&offered);
    assert_eq!(person.run(&["-p", "x"]).code, 0);
    assert!(!offered.bodies()[0]["tools"].to_string().contains("request_compaction"), "it is opt-in");

    let server = server(script());
    let person = Person::asking(&server);
    person.write("long.txt", &"some words of a file\n".repeat(900));
    person.settings(&format!("{SMALL}[plugins.context-window]\nrequest = true\ncooldown = 2\n"));
    let ended = person.run(&["-p", "go"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("made smaller before your next answer"), "{told}");
    assert!(told.contains("Not done: the conversation was made smaller a moment ago"), "{told}");
}

#[test]
fn numbers_of_the_window_are_settings_and_nonsense_is_refused_at_the_start() {
    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    for (settings, said) in [
        ("soft = 0.95", "`soft` (0.95) must not exceed `hard` (0.9)"),
        ("hard = 1.5", "`hard` must be above 0 and at most 1"),
        ("seconds = 0", "`seconds` must be at least 1"),
        ("reqest = true", "reqest"),
    ] {
        person.settings(&format!("[plugins.context-window]\n{settings}\n"));
        let ended = person.run(&["-p", "x"]);
        assert_ne!(ended.code, 0, "{settings}");
        assert!(ended.stderr.contains(said), "{settings}: {}", ended.stderr);
    }
    person.settings("[plugins.context-window]\nsoft = 0.5\nhard = 0.8\nkeep = 1000\n");
    assert_eq!(person.run(&["-p", "x"]).code, 0);
}

#[test]
fn reads_that_are_out_of_date_leave_with_a_compaction_where_the_settings_say_so() {
    let sent = |settings: &str| {
        let server = server(Script::answering(|asked| match asked.number {
            1 => Turn::new().call("read_file", json!({ "path": "a.txt" })),
            2 => Turn::new().call("read_file", json!({ "path": "b.txt" })),
            3 => Turn::new()
                .call("edit", json!({ "path": "a.txt", "old_string": "first-a", "new_string": "second-a" })),
            4 => Turn::new().call("list_files", json!({ "path": "." })).usage(Usage {
                input: 13_000,
                output: 20,
                ..Usage::default()
            }),
            _ => Turn::new().text("done"),
        }));
        let person = Person::asking(&server);
        person.write("a.txt", &format!("first-a\n{}", "words of a\n".repeat(1_800)));
        person.write("b.txt", &format!("first-b\n{}", "words of b\n".repeat(40)));
        person.settings(&format!("{SMALL}{settings}"));
        let ended = person.run(&["-p", "go", "--allow-all"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let body = server.bodies().pop().unwrap();
        body["messages"].to_string()
    };
    let elided = sent("elide_stale_reads = true\n");
    assert!(elided.contains("a.txt was left out: the file was changed later"), "{elided}");
    assert!(elided.contains("first-b"), "{elided}");
    assert!(!sent("").contains("was left out: the file was changed later"));
}

#[test]
fn a_search_with_many_matches_is_smaller_and_one_that_a_person_was_asked_about_or_that_failed_is_whole() {
    let server = server(
        Script::new()
            .turn(|t| t.call("grep", json!({ "pattern": "needle", "mode": "content", "head_limit": 200 })))
            .turn(|t| t.text("done")),
    );
    let person = Person::asking(&server);
    let text: String = (0..60).map(|n| format!("let needle_{n} = {n};\n")).collect();
    person.write("a/long/path/to/some/module/file.rs", &text);
    let ended = person.run(&["-p", "search"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("a/long/path/to/some/module/file.rs\\n1:let needle_0 = 0;"), "{told}");
    assert!(told.contains("2:let needle_1 = 1;") && told.contains("60:let needle_59"), "every line is there");
    assert!(
        told.contains("paths stand above their lines") && told.contains("the whole of it is in"),
        "{told}"
    );
}

#[test]
fn progress_of_a_program_that_no_rule_knows_is_learned_listed_and_forgotten() {
    let build = "for n in $(seq 1 60); do echo \"Processing assets/$n.png in $n ms\"; done; echo finished";
    let server = server(Script::answering(|asked| {
        if asked.results().is_empty() {
            Turn::new().call("shell", json!({ "command": "./build.sh" }))
        } else {
            Turn::new().text("done")
        }
    }));
    let person = Person::asking(&server);
    person.write("build.sh", &format!("#!/bin/bash\n{build}\n"));
    let path = person.project().join("build.sh");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).unwrap();
    let none = person.run(&["learned"]);
    assert!(none.stdout.contains("no rule was learned"), "{}", none.stdout);
    let result = || {
        let ended = person.run(&["-p", "build", "--allow-all"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        server.bodies().last().unwrap()["messages"].to_string()
    };
    for _ in 0..3 {
        let told = result();
        assert!(told.contains("Processing assets/30.png"), "{told}");
    }
    let told = result();
    assert!(
        !told.contains("Processing assets/30.png") && told.contains("Processing assets/60.png"),
        "{told}"
    );
    assert!(
        told.contains("59 lines left out: progress by a learned rule") && told.contains("finished"),
        "{told}"
    );
    let listed = person.run(&["learned", "list"]).stdout;
    assert!(listed.contains("build.sh") && listed.contains("Processing * in * ms"), "{listed}");
    assert_eq!(person.run(&["learned", "forget", "7"]).code, 2);
    assert_eq!(person.run(&["learned", "forget"]).code, 2);
    let forgotten = person.run(&["learned", "forget", "1"]);
    assert_eq!(forgotten.code, 0, "{}", forgotten.stderr);
    assert!(result().contains("Processing assets/30.png"));
    person.settings("[tools]\nlearn = false\n");
    for _ in 0..4 {
        assert!(result().contains("Processing assets/30.png"));
    }
}
