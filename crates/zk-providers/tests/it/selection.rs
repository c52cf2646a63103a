use std::sync::Arc;

use zk_auth::Credential;
use zk_core::service::Provider;
use zk_providers::select::{
    CredentialOrigin, CredentialSource, GivenValues, KeyCheck, KnownProviders, LocalServerState,
    ProviderSettings, RequestedName, SelectError, Selection, SelectionReason, SetValue, ValueRank, check_key,
    find_local_servers,
};
use zk_providers::{Access, Connection, Vendor, Vendors};
use zk_testkit::{FakeServer, Script};

fn with_key(provider: &str, rank: ValueRank) -> KnownProviders {
    let api_key = Some(SetValue { value: "set".into(), rank, origin: "a file".to_owned() });
    let settings = ProviderSettings { api_key, ..ProviderSettings::default() };
    KnownProviders { settings: [(provider.to_owned(), settings)].into(), ..KnownProviders::default() }
}

fn named(name: &str) -> Option<RequestedName> {
    Some(RequestedName { name: name.to_owned(), origin: "a test".to_owned() })
}

#[test]
fn a_given_key_outranks_settings_these_a_stored_one_and_that_the_environment() {
    let stored = [("groq".to_owned(), Credential::ApiKey("stored".into()))].into();
    let given = GivenValues { api_key: Some("given".into()), ..GivenValues::default() };
    let origin = |rank, given: &GivenValues| {
        let known = with_key("groq", rank);
        let selection =
            Selection { known, given: given.clone(), stored: Clone::clone(&stored), ..Selection::default() };
        let groq = selection.known.find("groq").unwrap();
        selection.credential(&groq).unwrap()
    };
    let set = CredentialOrigin::Set("a file".to_owned());
    assert_eq!(origin(ValueRank::Settings, &given).1, CredentialOrigin::Given);
    assert_eq!(origin(ValueRank::Managed, &given).1, set);
    assert_eq!(origin(ValueRank::Settings, &GivenValues::default()).1, set);
    let (source, from) = origin(ValueRank::Environment, &GivenValues::default());
    assert_eq!(from, CredentialOrigin::Stored);
    assert!(matches!(source, CredentialSource::StoredKey));
}

#[tokio::test]
async fn a_model_of_another_provider_is_followed_unless_the_provider_stays() {
    let mut selection =
        Selection { known: with_key("anthropic", ValueRank::Settings), ..Selection::default() };
    selection.stored.insert("openai".to_owned(), Credential::ApiKey("stored".into()));
    selection.provider = named("openai");
    selection.model = named("claude-opus-5");
    let endpoint = selection.endpoint().await.unwrap();
    assert_eq!(endpoint.provider.name, "anthropic");
    assert!(matches!(endpoint.reason, SelectionReason::Model { .. }));
    selection.keeps_provider = true;
    assert_eq!(selection.endpoint().await.unwrap().provider.name, "openai");
}

#[test]
fn no_error_of_the_selection_names_a_flag_a_command_or_a_file() {
    let known = KnownProviders::default();
    let selection = Selection { known, provider: named("groq"), ..Selection::default() };
    let no_key = selection.configured().unwrap_err();
    assert!(no_key.lacks_credential() && no_key.to_string().contains("GROQ_API_KEY"), "{no_key}");
    let errors = [
        no_key,
        selection.known.find("nobody").unwrap_err(),
        Selection { provider: named("openai_compat"), ..Selection::default() }.configured().unwrap_err(),
        SelectError::NothingConfigured { services: Vec::new(), servers: Vec::new() },
        SelectError::NotSignedIn { provider: "lab".to_owned() },
    ];
    for error in errors {
        let text = error.to_string();
        assert!(!text.contains("--") && !text.contains("`zk ") && !text.contains(".toml"), "{text}");
    }
}

#[test]
fn those_that_most_people_use_are_offered_first_and_what_needs_no_key_or_has_no_address_is_not() {
    let offered = KnownProviders::default().offered();
    let names: Vec<&str> = offered.iter().map(|offer| offer.vendor.name).collect();
    assert_eq!(names[..4], ["anthropic", "openai", "openrouter", "gemini"]);
    assert_eq!(offered[1].sign_in, Some(("openai_codex", "sign in with ChatGPT")));
    assert_eq!(offered.iter().filter(|offer| offer.is_major).count(), 2);
    for name in ["openai_codex", "openai_compat", "openai_chat", "ollama"] {
        assert!(!names.contains(&name), "{name}");
    }
}

fn of(server: &FakeServer, key: Option<&str>) -> Arc<dyn Provider> {
    let vendor = Vendor::named("anthropic").unwrap();
    let at = Connection { base_url: server.url(), ..vendor.connection() };
    vendor.provider(key.map_or_else(|| at.clone(), |key| at.clone().key(key))).unwrap()
}

#[tokio::test]
async fn a_provider_says_whether_it_takes_a_key_unless_it_answers_everybody_or_nobody() {
    let guarded = FakeServer::builder(Script::new()).require_key("right").start().unwrap();
    let (right, wrong, none) = (of(&guarded, Some("right")), of(&guarded, Some("wrong")), of(&guarded, None));
    assert_eq!(check_key(&*right, Some(&*none)).await, KeyCheck::Accepted);
    assert!(matches!(check_key(&*wrong, Some(&*none)).await, KeyCheck::Refused(_)));
    let open = FakeServer::start(Script::new()).unwrap();
    assert_eq!(check_key(&*of(&open, Some("any")), Some(&*of(&open, None))).await, KeyCheck::Unknown);
    let vendor = Vendor::named("anthropic").unwrap();
    let gone = Connection { base_url: "http://127.0.0.1:1".to_owned(), ..vendor.connection() };
    let gone = vendor.provider(gone.key("any")).unwrap();
    assert!(matches!(check_key(&*gone, None).await, KeyCheck::Unreachable(_)));
}

#[tokio::test]
async fn a_model_server_of_this_machine_is_found_with_its_models() {
    let server = FakeServer::builder(Script::new()).models(["small-1", "small-2"]).start().unwrap();
    let url: &'static str = Box::leak(format!("{}/v1", server.url()).into_boxed_str());
    let port = server.url().rsplit(':').next().unwrap().parse().unwrap();
    let lab = Vendor {
        name: "lab",
        base_url: Some(url),
        access: Access::Local(port),
        ..*Vendor::named("vllm").unwrap()
    };
    let found = find_local_servers(&Vendors::default().with(lab)).await;
    let lab = found.iter().find(|found| found.server.name == "lab").unwrap();
    assert_eq!(lab.server.state, LocalServerState::Ready);
    assert_eq!(lab.models, ["small-1", "small-2"]);
}
