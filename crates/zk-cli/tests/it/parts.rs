//! Models for parts, what they cost, and the model that is kept for a directory.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::model::Usage;
use zk_testkit::{FakeServer, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Names of the seven named sub-agents.
const AGENTS: [&str; 7] = ["a0", "a1", "a2", "a3", "a4", "a5", "a6"];

/// A server of parts, which counts 1,000 tokens in and 10 out for each answer.
fn lab() -> FakeServer {
    let usage = Usage { input: 1_000, output: 10, ..Usage::default() };
    server(Script::answering(move |_| Turn::new().text("Seen to.").usage(usage)))
}

/// Answers one prompt by a large output, a sub-agent of each name and one without, one after the other.
fn delegating() -> FakeServer {
    server(Script::answering(|asked| {
        let step = (asked.messages.len() - 1) / 2;
        match step {
            0 => Turn::new().call("shell", json!({"command": "seq 4000"})),
            1..=7 => Turn::new().call("spawn", json!({"agent": AGENTS[step - 1], "task": "look"})),
            8 => Turn::new().call("spawn", json!({"task": "look"})),
            _ => Turn::new().text("Done."),
        }
    }))
}

fn models(server: &FakeServer) -> Vec<String> {
    let mut models: Vec<String> =
        server.bodies().iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect();
    models.sort();
    models
}

fn costs(person: &Person, by: &str) -> Vec<Value> {
    let shown = person.run(&["cost", "--by", by, "--json"]);
    serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown.stderr))
}

#[test]
fn ten_models_for_parts_are_asked_and_paid_where_the_settings_say() {
    for seed in 0..2 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (main, labs) = (delegating(), [lab(), lab()]);
        let person = Person::asking(&main);
        let dir = person.home().join(".claude/agents");
        std::fs::create_dir_all(&dir).unwrap();
        for name in AGENTS {
            let text = format!("---\nname: {name}\ndescription: Looks.\ntools: Read\n---\nYou look.\n");
            std::fs::write(dir.join(format!("{name}.md")), text).unwrap();
        }
        let mut settings = String::from("[tools]\ncompress = \"model\"\n");
        for (at, server) in labs.iter().enumerate() {
            let url = server.openai_url();
            settings += &format!("[providers.lab{at}]\nbase_url = \"{url}\"\napi_key = \"k\"\n");
        }
        let parts: Vec<&str> = ["compress", "title", "explore"].into_iter().chain(AGENTS).collect();
        let (mut table, mut expected) = (String::from("[parts]\n"), BTreeMap::new());
        for (at, part) in parts.iter().enumerate() {
            let (lab, price) = (random.usize(..2), random.u8(1..9));
            let model = format!("lab{lab}/m{at}");
            table += &format!("{part} = \"{model}\"\n");
            settings += &format!("[models.\"{model}\"]\ninput = {price}.0\noutput = 0.0\n");
            expected.insert(format!("{part}  {model}"), (lab, format!("m{at}"), f64::from(price) / 1_000.0));
        }
        person.settings(&(settings + &table));
        let ended =
            person.run(&["-p", "go", "--provider", "anthropic", "--allow-all", "--output-format", "json"]);
        assert_eq!((ended.code, &*ended.stderr), (0, ""), "{seed}");
        for (lab, server) in labs.iter().enumerate() {
            let mut wanted: Vec<String> =
                expected.values().filter(|one| one.0 == lab).map(|one| one.1.clone()).collect();
            wanted.sort();
            assert_eq!(models(server), wanted, "{seed}: lab{lab}");
            assert_eq!(server.violations(), []);
        }
        let mut rows = costs(&person, "part");
        rows.retain(|row| !row["name"].as_str().unwrap().starts_with("the conversation"));
        let rows: BTreeMap<String, (u64, f64)> = rows
            .iter()
            .map(|row| {
                let (name, cost) = (row["name"].as_str().unwrap(), row["cost"].as_f64().unwrap());
                (name.to_owned(), (row["answers"].as_u64().unwrap(), cost))
            })
            .collect();
        let wanted: BTreeMap<String, (u64, f64)> =
            expected.iter().map(|(name, one)| (name.clone(), (1, one.2))).collect();
        assert_eq!(rows, wanted, "{seed}");
        let title = person.run(&["sessions", "list", "--json"]).stdout;
        assert!(title.contains("Seen to"), "{title}");
        let sums =
            |by: &str| -> f64 { costs(&person, by).iter().filter_map(|row| row["cost"].as_f64()).sum() };
        assert!((sums("part") - sums("session")).abs() < 1e-9);
    }
}

#[test]
fn a_project_sends_no_text_to_a_provider_that_the_person_does_not_name() {
    let agents = || {
        server(Script::answering(|asked| match asked.messages.len() {
            1 if !asked.tools.is_empty() && asked.last_user_text() != "look" => {
                Turn::new().call("spawn", json!({"task": "look"}))
            }
            _ => Turn::new().text("Done."),
        }))
    };
    let (claude, gpt) = (agents(), lab());
    // Keys in the environment are often for other programs.
    let person =
        Person::asking(&claude).with("OPENAI_API_KEY", "k").with("OPENAI_BASE_URL", &gpt.openai_url());
    person.write(".zk/settings.toml", "[parts]\nexplore = \"openai/gpt-6.1-sol\"\n");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let ended = person.run(&["-p", "hi"]);
    assert_eq!((ended.code, &*ended.stdout), (0, "Done.\n"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sends the text of `explore` to openai, which your own settings do not name"),
        "{}",
        ended.stderr
    );
    assert_eq!((gpt.requests().len(), claude.requests().len()), (0, 3), "the conversation's model did it");
    person.settings("[providers.openai]\nmodel = \"gpt-6.1-sol\"\n[parts]\ntitel = \"haiku\"\n");
    let ended = person.run(&["-p", "hi", "--provider", "anthropic"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("sends the text"), "{}", ended.stderr);
    assert!(ended.stderr.contains("did you mean `title`"), "{}", ended.stderr);
    assert_eq!((gpt.requests().len(), claude.requests().len()), (1, 5));
}

#[test]
fn a_part_without_a_key_is_told_once_and_by_the_doctor() {
    let claude = server(Script::answering(|asked| match asked.messages.len() {
        1 if asked.last_user_text() == "hi" => Turn::new().call("spawn", json!({"task": "look"})),
        _ => Turn::new().text("Done."),
    }));
    let person = Person::asking(&claude);
    person.settings("[parts]\nexplore = \"openai/gpt-6.1-sol\"\n");
    let ended = person.run(&["-p", "hi"]);
    assert_eq!((ended.code, &*ended.stdout), (0, "Done.\n"), "{}", ended.stderr);
    let told =
        ended.stderr.matches("the model of the part `explore` cannot be used: no key for openai").count();
    assert_eq!(told, 1, "{}", ended.stderr);
    let doctor = person.run(&["doctor"]).stdout;
    assert!(doctor.contains("part explore: its model cannot be used: no key for openai"), "{doctor}");
    person.settings("");
    let doctor = person.run(&["doctor"]).stdout;
    assert!(doctor.contains("`[parts]` with `summary = \"anthropic/claude-haiku-"), "{doctor}");
}

#[test]
fn what_was_chosen_in_a_directory_begins_the_next_conversation_there() {
    let claude = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&claude);
    let begins_with = |args: &str, model: &str| {
        let Some(mut terminal) = Terminal::open(&person, args) else { return };
        terminal.expect("› ");
        terminal.keys("/model\r");
        terminal.expect(&format!("anthropic/{model}"));
        terminal.leave();
    };
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/model claude-haiku-4-5\r");
    terminal.expect("anthropic/claude-haiku-4-5, window 200k tokens");
    terminal.expect("› ");
    terminal.keys("/thinking low\r");
    terminal.expect("thinking: low");
    terminal.leave();
    begins_with("", "claude-haiku-4-5");
    // A flag holds for its start alone.
    begins_with("--model claude-opus-5", "claude-opus-5");
    begins_with("", "claude-haiku-4-5");
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/thinking\r");
    terminal.expect("low");
    terminal.leave();
    let doctor = person.run(&["doctor"]).stdout;
    assert!(doctor.contains("conversations here begin with anthropic/claude-haiku-4-5"), "{doctor}");
    assert_eq!(std::fs::read_dir(person.project()).unwrap().count(), 0, "nothing is in the project");
    // Without a person the settings hold.
    assert_eq!(person.run(&["-p", "hi"]).code, 0);
    let asked = claude.bodies().pop().unwrap();
    assert!(!asked["model"].as_str().unwrap().contains("haiku"), "{asked}");
    person.settings("keep_choices = false\nmodel = \"claude-opus-5\"\n");
    begins_with("", "claude-opus-5");
}

#[test]
fn a_choice_that_is_gone_is_passed_over_and_told_by_the_doctor() {
    let (claude, gpt) = (lab(), lab());
    let person = Person::asking(&claude);
    let with_key = "[providers.lab]\nbase_url = \"URL\"\napi_key = \"k\"\n".replace("URL", &gpt.openai_url());
    person.settings(&format!("provider = \"anthropic\"\nmodel = \"claude-opus-5\"\n{with_key}"));
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/provider lab m1\r");
    terminal.expect("lab/m1");
    terminal.leave();
    person.settings("provider = \"anthropic\"\nmodel = \"claude-opus-5\"\n");
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/model\r");
    terminal.expect("anthropic/claude-opus-5");
    terminal.leave();
    let doctor = person.run(&["doctor"]).stdout;
    assert!(doctor.contains("lab/m1 was chosen here before and cannot be used"), "{doctor}");
}
