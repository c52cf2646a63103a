use secrecy::ExposeSecret;
use zk_exec::{LocalHostFiles, LocalStateFiles};
use zk_permission::FileTrust;
use zk_providers::select::first_local_server;
use zk_providers::{Access, VENDORS, Vendors};

use super::*;
use crate::additions::Additions;
use crate::args::StartScope;
use crate::exit::Failure;
use crate::settings::{LayerValues, SettingsSources};
use zk_exec::ProgramEnv;
use zk_settings::ZkDirs;

fn settings(vars: &[(&str, &str)], given: LayerValues) -> Settings {
    let env = ProgramEnv::from_iter(vars.iter().copied());
    let project = std::path::Path::new("/nonexistent");
    let dirs = ZkDirs::default();
    let files = &LocalHostFiles::new();
    Settings::read(
        &SettingsSources {
            env: &env,
            dirs: &dirs,
            files,
            project,
            trust: &FileTrust::new(None, std::sync::Arc::new(LocalStateFiles::default())),
            extra: None,
            scope: StartScope::default(),
            additions: Additions::default(),
        },
        given,
    )
    .unwrap()
    .0
}

fn given(values: &[(&str, &str)]) -> LayerValues {
    let mut given = LayerValues::default();
    for (key, value) in values {
        given.text(key, &format!("--{key}"), Some((*value).into()));
    }
    given
}

fn named(provider: &str) -> LayerValues {
    given(&[("provider", provider)])
}

fn chosen(vars: &[(&str, &str)], given: LayerValues) -> Outcome<Option<SelectedEndpoint>> {
    Ok(configured(&settings(vars, given), GivenValues::default())?)
}

fn configured(settings: &Settings, given: GivenValues) -> Result<Option<SelectedEndpoint>, SelectError> {
    selection(settings, given, StoredCredentials::new()).configured()
}

fn endpoint(vars: &[(&str, &str)], given: LayerValues) -> SelectedEndpoint {
    chosen(vars, given).unwrap().unwrap()
}

/// Describes how a credential is sent, with the key itself.
fn sent(key: Option<&CredentialSource>) -> String {
    match key.unwrap() {
        CredentialSource::Key(key) => format!("key {}", key.expose_secret()),
        CredentialSource::Bearer(token) => format!("bearer {}", token.expose_secret()),
        CredentialSource::StoredKey | CredentialSource::SignIn { .. } => "stored".to_owned(),
    }
}

const BOTH: [(&str, &str); 2] = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")];

#[test]
fn the_named_provider_wins_over_every_key() {
    let endpoint = endpoint(&BOTH, named("openai"));
    assert_eq!(endpoint.provider.name, "openai");
    assert_eq!(sent(endpoint.credential.as_ref()), "key o");
    assert!(selection_reason(&endpoint).contains("--provider"));
}

#[test]
fn without_a_name_the_key_that_exists_decides() {
    let openai = endpoint(&BOTH[1..], LayerValues::default());
    assert_eq!((&*openai.provider.name, &*openai.base_url), ("openai", "https://api.openai.com/v1"));
    assert_eq!(endpoint(&BOTH, LayerValues::default()).provider.name, "anthropic");
    for vendor in VENDORS.iter().filter(|vendor| vendor.base_url.is_some()) {
        if let Access::Key([variable, ..]) = vendor.access
            && *variable != "OPENAI_API_KEY"
        {
            assert_eq!(endpoint(&[(variable, "k")], LayerValues::default()).provider.name, vendor.name);
        }
    }
}

#[test]
fn a_key_and_an_address_mean_any_server_of_that_kind() {
    let vars = [("OPENAI_API_KEY", "o"), ("OPENAI_BASE_URL", "http://h/v1")];
    let endpoint = endpoint(&vars, LayerValues::default());
    assert_eq!((&*endpoint.provider.name, &*endpoint.base_url), ("openai_compat", "http://h/v1"));
}

#[test]
fn openai_is_openai_at_its_own_address_too() {
    let vars = [("OPENAI_API_KEY", "o"), ("OPENAI_BASE_URL", "https://api.openai.com/v1/")];
    assert_eq!(endpoint(&vars, LayerValues::default()).provider.name, "openai");
}

#[test]
fn a_key_outranks_the_base_url_of_another_provider() {
    let vars = [("ANTHROPIC_BASE_URL", "http://a"), ("OPENAI_API_KEY", "o")];
    assert_eq!(endpoint(&vars, LayerValues::default()).provider.name, "openai");
}

#[test]
fn flags_outrank_variables() {
    let flags = GivenValues { base_url: Some("http://flag".to_owned()), api_key: Some("flag".into()) };
    let vars = [("ANTHROPIC_BASE_URL", "http://variable"), ("ANTHROPIC_API_KEY", "variable")];
    let chosen = configured(&settings(&vars, LayerValues::default()), flags).unwrap().unwrap();
    assert_eq!(chosen.base_url, "http://flag");
    assert_eq!(sent(chosen.credential.as_ref()), "key flag");
}

#[test]
fn a_token_is_sent_as_a_bearer() {
    let endpoint = endpoint(&[("ANTHROPIC_AUTH_TOKEN", "t")], LayerValues::default());
    assert_eq!(sent(endpoint.credential.as_ref()), "bearer t");
}

#[test]
fn a_local_server_needs_no_key() {
    let endpoint = endpoint(&[], named("lmstudio"));
    assert_eq!((&*endpoint.base_url, endpoint.credential.is_none()), ("http://127.0.0.1:1234/v1", true));
}

#[tokio::test]
async fn without_anything_configured_the_local_server_that_has_a_model_is_used() {
    assert!(chosen(&[], LayerValues::default()).unwrap().is_none());
    let found = |wanted: &'static str| {
        async move |vendor: Vendor, _: u16| match vendor.name {
            "ollama" if wanted != "ollama" => LocalServerState::Empty,
            "llama.cpp" if wanted != "llama.cpp" => LocalServerState::Other,
            "vllm" => LocalServerState::Locked,
            "lmstudio" if wanted == "nobody" => LocalServerState::Busy,
            name if name == wanted => LocalServerState::Ready,
            _ => LocalServerState::Absent,
        }
    };
    for (name, url) in [
        ("ollama", "http://127.0.0.1:11434"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("lmstudio", "http://127.0.0.1:1234/v1"),
    ] {
        let endpoint = first_local_server(&Vendors::default(), found(name)).await.unwrap();
        assert_eq!((&*endpoint.provider.name, &*endpoint.base_url), (name, url));
    }
    let error = Failure::from(first_local_server(&Vendors::default(), found("nobody")).await.unwrap_err());
    assert!(error.message.contains("ollama runs on port 11434 and has no model"), "{error}");
    assert!(error.message.contains("port 8080 is not llama.cpp"), "{error}");
    assert!(error.message.contains("port 8000 wants a key"), "{error}");
    assert!(error.message.contains("port 1234 does not answer yet"), "{error}");
}

#[tokio::test]
async fn nothing_at_all_is_an_error_that_names_every_way() {
    let error = Failure::from(
        first_local_server(&Vendors::default(), async |_, _| LocalServerState::Absent).await.unwrap_err(),
    );
    assert_eq!(error.exit, Exit::Auth);
    for way in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "--base-url", "8080", "11434", "1234", "zk demo"] {
        assert!(error.message.contains(way), "{way}");
    }
}

#[test]
fn one_key_serves_every_dialect_of_a_vendor() {
    for name in ["openai", "openai_chat"] {
        let endpoint = endpoint(&BOTH, named(name));
        assert_eq!(endpoint.provider.name, name);
        assert_eq!(sent(endpoint.credential.as_ref()), "key o");
    }
}

#[test]
fn a_named_provider_without_a_key_needs_a_base_url() {
    let error = chosen(&[], named("anthropic")).unwrap_err();
    assert_eq!(error.exit, Exit::Auth);
    assert!(error.message.contains("ANTHROPIC_API_KEY"));
    let flags = GivenValues { base_url: Some("http://127.0.0.1:1".to_owned()), ..GivenValues::default() };
    let chosen = configured(&settings(&[], named("anthropic")), flags).unwrap();
    assert!(chosen.unwrap().credential.is_none());
}

#[test]
fn a_provider_that_is_nowhere_says_what_is_missing() {
    let error = chosen(&BOTH, named("openai_compat")).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.message.contains("--base-url"), "{error}");
}

#[test]
fn an_unknown_provider_gets_a_near_match() {
    let error = chosen(&[], named("antropic")).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.message.contains("did you mean `anthropic`?"), "{error}");
}

#[test]
fn what_people_call_a_vendor_leads_to_its_name() {
    let error = chosen(&[], named("Grok")).unwrap_err();
    assert!(error.message.contains("did you mean `xai`?"), "{error}");
}

#[test]
fn a_provider_of_ones_own_without_an_address_is_not_suggested_itself() {
    let lab = given(&[("provider", "lab"), ("providers.lab.model", "m")]);
    let error = chosen(&[], lab).unwrap_err();
    assert!(!error.message.contains("`lab`?") && error.message.contains("[providers.lab]"), "{error}");
}

#[test]
fn a_provider_of_ones_own_is_any_server_unless_it_says_what_it_is_like() {
    let lab = [("provider", "lab"), ("providers.lab.base_url", "http://lab/v1")];
    let endpoint = chosen(&[], given(&lab)).unwrap().unwrap();
    assert_eq!((&*endpoint.provider.name, endpoint.provider.vendor.name), ("lab", "openai_compat"));
    let like = |vendor| given(&[lab[0], lab[1], ("providers.lab.like", vendor)]);
    let endpoint = chosen(&[], like("vllm")).unwrap().unwrap();
    assert_eq!((endpoint.provider.vendor.name, &*endpoint.base_url), ("vllm", "http://lab/v1"));
    let error = chosen(&[], like("vlm")).unwrap_err();
    assert!(error.message.contains("did you mean `vllm`?"), "{error}");
    let nowhere = given(&[("provider", "lab"), ("providers.lab.like", "vllm")]);
    assert!(chosen(&[], nowhere).unwrap_err().message.contains("base_url"));
}
