use serde_json::{Value, json};
use zk_testkit::{FakeServer, Script};

use crate::zk::Person;

#[test]
fn a_server_is_asked_which_models_it_has() {
    let server = FakeServer::builder(Script::new()).models(["claude-a", "claude-b"]).start().unwrap();
    let person = Person::asking(&server);
    let ended = person.run(&["models", "B"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("\nclaude-b ") && ended.stdout.contains(" server\n"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("claude-a"), "{}", ended.stdout);
    // Models of the vendor's own address are not those of this server.
    assert!(!ended.stdout.contains("claude-fable"), "{}", ended.stdout);
    let ended = person.run(&["models", "claude", "zzz"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("no model of anthropic contains `claude` and `zzz`; --provider"),
        "{}",
        ended.stderr
    );
}

#[test]
fn without_a_key_the_catalogue_answers_and_says_so() {
    let ended = Person::new().run(&["models", "--provider", "anthropic", "opus-5"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("zk auth login anthropic"), "{}", ended.stderr);
    assert!(ended.stderr.contains("catalogue alone"), "{}", ended.stderr);
    let line = ended.stdout.lines().find(|line| line.starts_with("claude-opus-5 ")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[1..], ["1M", "128k", "5/25", "adaptive", "yes", "catalogue"]);
    assert!(!ended.stdout.contains("haiku"), "{}", ended.stdout);
}

#[test]
fn without_a_key_and_a_word_the_providers_are_listed_with_counts() {
    let ended = Person::new().run(&["models"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines.len() < 60, "{}", ended.stdout);
    let anthropic = lines.iter().find(|line| line.starts_with("anthropic ")).unwrap();
    assert!(anthropic.ends_with(" models"), "{anthropic}");
    assert!(lines.last().unwrap().contains("zk models --provider NAME"), "{}", ended.stdout);
    // A word lists models, as before.
    let found = Person::new().run(&["models", "opus-5"]).stdout;
    assert!(found.lines().any(|line| line.starts_with("claude-opus-5 ")), "{found}");
}

#[test]
fn programs_get_a_line_of_json_for_each_model() {
    let ended = Person::new().run(&["models", "--json", "opus-5"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let models: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let opus = models.iter().find(|model| model["provider"] == "anthropic" && model["id"] == "claude-opus-5");
    let opus = opus.unwrap();
    assert_eq!((&opus["window"], &opus["live"]), (&json!(1_000_000), &json!(false)));
    assert_eq!(opus["prices"]["input"], 5.0);
    assert_eq!(opus["capabilities"]["image_in_tool_result"], true);
    assert!(opus["efforts"].as_array().unwrap().contains(&json!("high")), "{opus}");
}

#[test]
fn efforts_are_told_as_the_settings_write_them() {
    let server = FakeServer::builder(Script::new()).models(["claude-x"]).start().unwrap();
    let person = Person::asking(&server);
    person.settings("[models.\"anthropic/claude-x\"]\nefforts = [\"off\", \"low\", \"high=on\"]\n");
    let ended = person.run(&["models", "--json"]);
    let model: Value = serde_json::from_str(ended.stdout.trim()).unwrap();
    assert_eq!((&model["efforts"], &model["live"]), (&json!(["off", "low", "high=on"]), &json!(true)));
}

#[test]
fn a_second_vendor_of_the_same_models_has_their_catalogue() {
    let ended = Person::new().run(&["models", "--provider", "openai_chat", "gpt-5.1"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("zk auth login openai_chat"), "{}", ended.stderr);
    assert!(ended.stdout.contains("\ngpt-5.1 "), "{}", ended.stdout);
}

#[test]
fn a_server_that_does_not_answer_leaves_the_catalogue() {
    let person =
        Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let ended = person.run(&["models", "haiku"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("could not list "), "{}", ended.stderr);
    assert!(ended.stdout.contains("claude-haiku-5-5"), "{}", ended.stdout);
}

#[test]
fn a_misspelt_provider_gets_a_suggestion() {
    let ended = Person::new().run(&["models", "--provider", "antropic"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("did you mean `anthropic`"), "{}", ended.stderr);
}

#[test]
fn settings_describe_models_better_and_add_new_ones() {
    let server = FakeServer::builder(Script::new()).models(["claude-opus-5"]).start().unwrap();
    let person = Person::asking(&server);
    let settings = "[models.\"anthropic/claude-opus-5\"]\nwindow = 123456\ninput = 0.5\n\
                    [models.\"gemini/my-tune\"]\nwindow = 4096\nmax_output = 512\n";
    person.settings(settings);
    let ended = person.run(&["models"]);
    let line = ended.stdout.lines().find(|line| line.starts_with("claude-opus-5 ")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((cells[1], cells[3], cells[6]), ("123k", "0.5/25", "server"));
    let ended = person.run(&["models", "--provider", "gemini", "tune"]);
    let line = ended.stdout.lines().find(|line| line.starts_with("my-tune ")).unwrap();
    assert_eq!(line.split_whitespace().nth(2), Some("512"));
}
