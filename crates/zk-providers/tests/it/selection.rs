use zk_auth::Credential;
use zk_providers::select::{
    CredentialOrigin, CredentialSource, GivenValues, KnownProviders, ProviderSettings, RequestedName,
    SelectError, Selection, SelectionReason, SetValue, ValueRank,
};

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
