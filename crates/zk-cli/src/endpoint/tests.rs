use super::*;
use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::Exit;
use crate::settings::{Given, Places};

fn settings(vars: &[(&str, &str)], given: Given) -> Settings {
    let env = Env::from_iter(vars.iter().copied());
    let project = std::path::Path::new("/nonexistent");
    let dirs = Dirs::default();
    Settings::read(&Places { env: &env, dirs: &dirs, project, extra: None }, given).unwrap().0
}

fn named(provider: &str) -> Given {
    let mut given = Given::default();
    given.text("provider", "--provider", Some(provider.into()));
    given
}

fn nobody(_: u16) -> bool {
    false
}

fn failure(outcome: Outcome<Endpoint>) -> Failure {
    outcome.err().unwrap()
}

const BOTH: [(&str, &str); 2] = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")];

#[test]
fn the_named_provider_wins_over_every_key() {
    let chosen =
        choose(&settings(&BOTH, named("openai_compat")), Flags::default(), &Stored::new(), nobody).unwrap();
    assert_eq!(chosen.kind, Kind::OpenAiCompat);
    assert!(chosen.key == Some(Key::Api("o".into())));
    assert!(chosen.why.contains("--provider"));
}

#[test]
fn without_a_name_the_key_that_exists_decides() {
    let chosen =
        choose(&settings(&BOTH[1..], Given::default()), Flags::default(), &Stored::new(), nobody).unwrap();
    assert_eq!((chosen.kind, chosen.base_url.as_str()), (Kind::OpenAiCompat, "https://api.openai.com/v1"));
    let chosen =
        choose(&settings(&BOTH, Given::default()), Flags::default(), &Stored::new(), nobody).unwrap();
    assert_eq!(chosen.kind, Kind::Anthropic);
}

#[test]
fn a_key_outranks_the_base_url_of_another_provider() {
    let vars = [("ANTHROPIC_BASE_URL", "http://a"), ("OPENAI_API_KEY", "o")];
    assert_eq!(
        choose(&settings(&vars, Given::default()), Flags::default(), &Stored::new(), nobody).unwrap().kind,
        Kind::OpenAiCompat
    );
}

#[test]
fn flags_outrank_variables() {
    let flags = Flags { base_url: Some("http://flag"), api_key: Some("flag") };
    let vars = [("ANTHROPIC_BASE_URL", "http://variable"), ("ANTHROPIC_API_KEY", "variable")];
    let chosen = choose(&settings(&vars, Given::default()), flags, &Stored::new(), nobody).unwrap();
    assert_eq!(chosen.base_url, "http://flag");
    assert!(chosen.key == Some(Key::Api("flag".into())));
}

#[test]
fn a_token_is_sent_as_a_bearer() {
    let chosen = choose(
        &settings(&[("ANTHROPIC_AUTH_TOKEN", "t")], Given::default()),
        Flags::default(),
        &Stored::new(),
        nobody,
    );
    assert!(chosen.unwrap().key == Some(Key::Bearer("t".into())));
}

#[test]
fn a_local_server_is_used_only_when_nothing_is_configured() {
    let chosen =
        choose(&settings(&[], Given::default()), Flags::default(), &Stored::new(), |port| port == 11434)
            .unwrap();
    assert_eq!((chosen.kind, chosen.base_url.as_str()), (Kind::Ollama, "http://127.0.0.1:11434"));
    let chosen =
        choose(&settings(&[], Given::default()), Flags::default(), &Stored::new(), |port| port == 8080)
            .unwrap();
    assert_eq!((chosen.kind, chosen.base_url.as_str()), (Kind::OpenAiCompat, "http://127.0.0.1:8080/v1"));
    let chosen =
        choose(&settings(&BOTH, Given::default()), Flags::default(), &Stored::new(), |_| panic!("probed"));
    assert!(chosen.is_ok());
}

#[test]
fn a_provider_without_keys_needs_none() {
    let chosen = choose(&settings(&[], named("ollama")), Flags::default(), &Stored::new(), nobody).unwrap();
    assert_eq!((chosen.kind, chosen.key.is_none()), (Kind::Ollama, true));
}

#[test]
fn one_key_serves_both_dialects_of_a_vendor() {
    for (name, kind) in [("openai", Kind::OpenAi), ("openai_compat", Kind::OpenAiCompat)] {
        let settings = settings(&BOTH, named(name));
        let chosen = choose(&settings, Flags::default(), &Stored::new(), nobody).unwrap();
        assert_eq!(chosen.kind, kind);
        assert!(chosen.key == Some(Key::Api("o".into())));
    }
}

#[test]
fn nothing_at_all_is_an_error_that_names_every_way() {
    let error = failure(choose(&settings(&[], Given::default()), Flags::default(), &Stored::new(), nobody));
    assert_eq!(error.exit, Exit::Auth);
    for way in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "--base-url", "8080", "11434", "zk demo"] {
        assert!(error.message.contains(way), "{way}");
    }
}

#[test]
fn a_named_provider_without_a_key_needs_a_base_url() {
    let error = failure(choose(&settings(&[], named("anthropic")), Flags::default(), &Stored::new(), nobody));
    assert_eq!(error.exit, Exit::Auth);
    assert!(error.message.contains("ANTHROPIC_API_KEY"));
    let flags = Flags { base_url: Some("http://127.0.0.1:1"), ..Flags::default() };
    assert!(choose(&settings(&[], named("anthropic")), flags, &Stored::new(), nobody).unwrap().key.is_none());
}

#[test]
fn an_unknown_provider_gets_a_near_match() {
    let error = failure(choose(&settings(&[], named("antropic")), Flags::default(), &Stored::new(), nobody));
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.message.contains("did you mean `anthropic`?"), "{error}");
}
