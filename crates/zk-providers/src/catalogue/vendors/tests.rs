use std::collections::HashSet;

use serde_json::Value;
use zk_core::model::ThinkingReplay;

use super::*;
use crate::catalogue::models::{self, Override};
use crate::wire::secret::Auth;

#[test]
fn every_name_is_taken_once_and_fits_where_names_stand() {
    let mut names = HashSet::new();
    for vendor in VENDORS {
        assert!(names.insert(vendor.name), "{} stands twice", vendor.name);
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
        assert!(vendor.name.chars().all(legal), "{}", vendor.name);
    }
}

#[test]
fn every_vendor_makes_a_provider_of_its_name() {
    for vendor in VENDORS {
        let usual = vendor.connection().key("k-test");
        let connection = Connection {
            base_url: vendor.base_url.unwrap_or("http://127.0.0.1:1").to_owned(),
            account: Some("acc".to_owned()),
            ..usual
        };
        let provider = vendor.provider(connection).expect(vendor.name);
        assert_eq!(provider.name(), vendor.name);
        assert_eq!(provider.default_model().as_deref(), vendor.default_model);
    }
}

#[test]
fn a_vendor_knows_the_models_of_the_table_at_its_own_address_and_elsewhere_only_what_is_said() {
    for vendor in VENDORS {
        let mut usual = vendor.connection().key("canary-key");
        usual.account = Some("canary-account".to_owned());
        let Some(base_url) = vendor.base_url else { continue };
        let said = Override { window: Some(7), ..Override::default() };
        usual.models = [("said-1".to_owned(), said)].into_iter().collect();
        let elsewhere = Connection { base_url: "https://canary-host.example/v1".to_owned(), ..usual.clone() };
        let ids = |connection: Connection| {
            let known = vendor.provider(connection).expect(vendor.name).known_models();
            let text = serde_json::to_string(&known).unwrap();
            assert!(!text.contains("canary") && !text.contains(base_url), "{}: {text}", vendor.name);
            assert!(known.iter().all(|model| model.provider == vendor.name), "{}", vendor.name);
            known.into_iter().map(|model| model.id).collect::<Vec<_>>()
        };
        let mut table: Vec<_> = models::known_models(vendor.name).map(str::to_owned).collect();
        assert_eq!(ids(elsewhere), ["said-1"], "{}", vendor.name);
        table.push("said-1".to_owned());
        table.sort_unstable();
        assert_eq!(ids(usual), table, "{}", vendor.name);
    }
}

#[test]
fn every_chat_vendor_has_its_profile() {
    for vendor in VENDORS {
        if let VendorDialect::Chat(profile) = vendor.dialect {
            assert!(CompatProfile::named(profile).is_some(), "{} has no profile {profile}", vendor.name);
        }
    }
}

#[test]
fn local_servers_are_on_this_machine_at_their_port() {
    for vendor in VENDORS {
        if let Access::Local(port) = vendor.access {
            let expected = format!("http://127.0.0.1:{port}");
            assert!(vendor.base_url.is_some_and(|url| url.starts_with(&expected)), "{}", vendor.name);
        }
    }
}

#[test]
fn services_are_asked_over_an_encrypted_connection() {
    for vendor in VENDORS.iter().filter(|vendor| !matches!(vendor.access, Access::Local(_))) {
        assert!(vendor.base_url.is_none_or(|url| url.starts_with("https://")), "{}", vendor.name);
    }
}

#[test]
fn a_default_model_is_one_the_table_knows() {
    for vendor in VENDORS {
        if let Some(model) = vendor.default_model {
            assert!(
                models::find(None, model).is_some(),
                "the default model `{model}` of the vendor `{}` has no row in the table of models: add a `Change::Add` for it \
                 to xtask/src/models/corrections.rs and run `cargo xtask models`, or leave `.with(\"{model}\")` out",
                vendor.name
            );
        }
    }
}

#[test]
fn a_connection_shows_no_key() {
    let connection = Connection { auth: Auth::Key("k-secret".into()), ..Connection::at("http://u:pw@h/") };
    let shown = format!("{connection:?}");
    assert!(!shown.contains("k-secret") && !shown.contains("pw"), "{shown}");
}

#[test]
fn every_profile_survives_being_written_as_settings() {
    for profile in PROFILES {
        let written = serde_json::to_value(profile).expect("it can be written");
        assert_eq!(&serde_json::from_value::<CompatProfile>(written).expect("and read"), profile);
    }
}

#[test]
fn an_unknown_option_is_reported_with_the_known_ones() {
    let options = |value: Value| value.as_object().cloned().unwrap_or_default();
    let any = Vendor::named("openai_compat").expect("a row");
    let make = |value| any.provider_with(Connection::at("http://h"), &options(value)).map(|_| ());
    let error = make(serde_json::json!({"visoin": true})).expect_err("a misspelt option").to_string();
    assert!(error.contains("visoin") && error.contains("`vision`"), "{error}");
    let error = make(serde_json::json!({"vision": false, "echo": "maybe"})).expect_err("no echo").to_string();
    assert!(error.contains("`echo`: unknown variant `maybe`"), "{error}");
    let error = make(serde_json::json!({"echo_models": [{"models": "(", "echo": "no"}]}));
    assert!(error.expect_err("a bad pattern").to_string().contains("no pattern of model ids"));
    let gemini = Vendor::named("gemini").expect("a row");
    assert!(gemini.provider_with(gemini.connection(), &options(serde_json::json!({"a": 1}))).is_err());
}

#[test]
fn rules_of_an_option_go_before_those_of_the_vendor_and_do_not_replace_them() {
    let cerebras = Vendor::named("cerebras").expect("a row");
    let options = serde_json::json!({"echo_models": [{"models": "^gpt-oss-20b", "echo": "no"}]});
    let options = options.as_object().expect("an object");
    let provider = cerebras.provider_with(cerebras.connection().key("k"), options).expect("valid");
    let thinking = |id: &str| provider.rules(&provider.model(id)).thinking;
    assert_eq!(thinking("gpt-oss-20b"), ThinkingReplay::Never);
    assert_eq!(thinking("gpt-oss-120b"), ThinkingReplay::Echo);
}

#[test]
fn options_replace_only_what_they_name() {
    let options = serde_json::json!({"num_ctx": 8192});
    let ollama = Vendor::named("ollama").expect("a row");
    let provider = ollama.provider_with(ollama.connection(), options.as_object().expect("an object"));
    assert_eq!(provider.expect("valid").model("m").window, Some(8192));
}
