//! `zk help`: pages of the documentation, and its recipes as they are typed.

use crate::zk::Person;

#[test]
fn help_lists_all_pages_and_prints_each_of_them_and_the_help_of_commands() {
    let person = Person::new();
    let list = person.run(&["help"]).stdout;
    for name in ["sandbox", "embedding", "guide-plugin", "settings", "events", "exit-codes", "recipes"] {
        assert!(list.contains(&format!("\n  {name} ")), "{name}: {list}");
    }
    for (topic, words) in [
        (&["sandbox"][..], "sandbox"),
        (&["Exit", "codes"], "stopped by SIGINT"),
        (&["settings"], "max_budget_usd"),
        (&["0002"], "fail closed"),
        (&["mcp"], "Options of the command: zk mcp --help"),
        (&["sessions", "list"], "Usage: zk sessions list"),
        (&["doctor"], "Usage: zk doctor"),
    ] {
        let ended = person.run(&[&["help"], topic].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{topic:?}");
        assert!(ended.stdout.to_lowercase().contains(&words.to_lowercase()), "{topic:?}: {}", ended.stdout);
        assert!(!ended.stdout.contains('\u{1b}') && !ended.stdout.contains(".md)"), "{topic:?}");
    }
}

#[test]
fn a_topic_that_is_not_there_says_what_is_near_or_speaks_of_it_also_with_broken_settings() {
    let person = Person::new();
    person.settings("= broken");
    for (topic, words) in [
        ("sandbx", "did you mean `zk help sandbox`?"),
        ("budget", "these speak of it: "),
        ("zzzzzzzz", "`zk help` lists them"),
    ] {
        let ended = person.run(&["help", topic]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{topic}");
        assert!(ended.stderr.contains(words), "{topic}: {}", ended.stderr);
    }
}

#[test]
fn recipes_that_need_no_network_run_as_they_are_written() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recipes.md")).unwrap();
    let person = Person::new();
    let mut count = 0;
    for block in page.split("```console,run\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            let line = line.strip_prefix("$ zk ").unwrap();
            // Quotes hold one word together.
            let quoted = line.split('"').enumerate();
            let words: Vec<&str> = quoted
                .flat_map(
                    |(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() },
                )
                .collect();
            let ended = person.run(&words);
            // Without a provider the doctor ends with what is missing.
            assert!(ended.code == 0 || words == ["doctor"], "zk {line}: {}{}", ended.stdout, ended.stderr);
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
