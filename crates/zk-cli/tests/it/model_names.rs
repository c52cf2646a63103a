use serde_json::Value;
use zk_testkit::{FakeServer, Script, Turn};

use crate::zk::{Person, server};

fn hello() -> FakeServer {
    server(Script::answering(|_| Turn::new().text("Hello.")))
}

fn model(server: &FakeServer) -> Option<String> {
    server.bodies().last().and_then(|body| body["model"].as_str().map(str::to_owned))
}

#[test]
fn the_names_that_lists_print_ids_and_families_are_accepted() {
    let server = hello();
    let person = Person::asking(&server);
    for (name, id) in [
        ("anthropic/claude-opus-5", "claude-opus-5"),
        ("claude-opus-5", "claude-opus-5"),
        ("anthropic/claude-new-thing", "claude-new-thing"),
    ] {
        let ended = person.run(&["--model", name, "-p", "hi"]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        assert_eq!(model(&server).as_deref(), Some(id), "{name}");
    }
    let ended = person.run(&["--model", "Opus", "-p", "hi"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(model(&server).is_some_and(|id| id.starts_with("claude-opus-5")), "{:?}", model(&server));
    person.settings("[providers.anthropic]\nmodel = \"haiku\"\n");
    let ended = person.run(&["-p", "hi"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(model(&server).is_some_and(|id| id.starts_with("claude-haiku-")), "{:?}", model(&server));
}

#[test]
fn a_model_of_another_provider_is_asked_there_if_its_key_is_there() {
    let (claude, gpt) = (hello(), hello());
    let person =
        Person::asking(&claude).with("OPENAI_API_KEY", "k").with("OPENAI_BASE_URL", &gpt.openai_url());
    for name in ["openai/gpt-6.1-sol", "gpt"] {
        let before = gpt.bodies().len();
        let ended = person.run(&["--model", name, "-p", "hi"]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        assert_eq!(gpt.bodies().len(), before + 1, "{name}");
        assert!(model(&gpt).is_some_and(|id| id.starts_with("gpt-")), "{name}: {:?}", model(&gpt));
    }
    assert!(claude.bodies().is_empty());
    // A provider that is named stays.
    person.run(&["--provider", "anthropic", "--model", "openai/gpt-6.1-sol", "-p", "hi"]);
    assert_eq!(model(&claude).as_deref(), Some("openai/gpt-6.1-sol"));
}

#[test]
fn a_model_of_a_provider_without_a_key_says_whose_key_is_missing() {
    let ended = Person::new().run(&["--model", "gemini/gemini-3.8-flash", "-p", "hi"]);
    assert_eq!(ended.code, 4);
    assert!(ended.stderr.contains("zk auth login gemini"), "{}", ended.stderr);
    assert!(ended.stderr.contains("gemini/gemini-3.8-flash"), "{}", ended.stderr);
}

#[test]
fn a_misspelt_model_that_the_provider_does_not_list_fails_before_it_costs_with_near_ones() {
    let answering = || FakeServer::builder(Script::answering(|_| Turn::new().text("Hello.")));
    let server = answering().models(["claude-sonnet-5"]).start().unwrap();
    let ended = Person::asking(&server).run(&["--model", "claude-sonet-5", "-p", "hi"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let words = "anthropic does not know claude-sonet-5: did you mean `claude-sonnet-5`";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert_eq!(server.bodies().len(), 0, "nothing was asked of a model");
    // A model that the server lists is no mistake.
    let server = FakeServer::builder(Script::answering(|_| Turn::new().text("Hello.")))
        .models(["claude-sonet-5"])
        .start()
        .unwrap();
    let ended = Person::asking(&server).run(&["--model", "claude-sonet-5", "-p", "hi"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("did you mean"), "{}", ended.stderr);
}

#[test]
fn every_name_in_the_catalogue_leads_back_to_its_model() {
    let listed = Person::new().run(&["models", "--json"]);
    let models: Vec<Value> =
        listed.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(models.len() > 100, "{}", models.len());
    let names: Vec<(&str, &str)> = models
        .iter()
        .map(|model| (model["provider"].as_str().unwrap(), model["id"].as_str().unwrap()))
        .collect();
    for (provider, id) in &names {
        let (provider, id) = (*provider, *id);
        // An id that begins with its provider's name is meant before one behind that prefix.
        if names.contains(&(provider, &format!("{provider}/{id}"))) {
            continue;
        }
        for own in [Some(provider), None] {
            let found = zk_providers::resolve_model(&format!("{provider}/{id}"), own, &[]);
            assert_eq!((found.provider.as_deref(), &*found.id), (Some(provider), id), "{own:?}");
        }
    }
}

#[test]
fn a_model_is_named_by_a_part_of_its_id_in_any_case_and_with_a_thinking_level() {
    let server = hello();
    let person = Person::asking(&server);
    for (name, begins) in [
        ("opus-4", "claude-opus-4"),
        ("Anthropic/Claude-Opus-5", "claude-opus-5"),
        ("sonnet:low", "claude-sonnet-"),
    ] {
        let ended = person.run(&["--model", name, "-p", "hi"]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        let asked = model(&server).unwrap_or_default();
        assert!(asked.starts_with(begins) && !asked.contains(':'), "{name}: {asked}");
    }
    let last = |server: &FakeServer| server.bodies().last().map(ToString::to_string).unwrap_or_default();
    assert!(last(&server).contains("\"low\""), "{}", last(&server));
    // A level chosen for thinking itself outranks the level in a name.
    person.run(&["--model", "sonnet:low", "--thinking", "high", "-p", "hi"]);
    assert!(last(&server).contains("\"high\""), "{}", last(&server));
}
