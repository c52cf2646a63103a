//! Selection of the provider from settings and credentials, and messages about its outcome.

use zk_core::model::Model;
use zk_providers::Vendor;
use zk_providers::select::{
    CredentialError, CredentialOrigin, CredentialSource, GivenValues, LocalServer, LocalServerState,
    NamedProvider, RequestedName, SelectError, SelectedEndpoint, Selection, SelectionReason,
    StoredCredentials, UnknownModel, stored_credentials,
};

use crate::app::AppContext;
use crate::compose::backends;
use crate::credentials;
use crate::exit::{Exit, Explain, Outcome};
use crate::settings::Settings;
use zk_settings::suggest;

#[cfg(test)]
mod tests;

impl AppContext {
    /// Selects the endpoint by settings, keys and local servers.
    pub(crate) async fn endpoint(&self) -> Outcome<SelectedEndpoint> {
        let stored = credentials::all_stored(&self.work.machine).await;
        Ok(selection(&self.settings, self.given.clone(), stored).endpoint().await?)
    }

    /// Returns the endpoint of a provider named during a conversation. Address and key of the command line do
    /// not apply: they are for the provider of the start.
    pub(crate) async fn endpoint_of(&self, name: &str) -> Outcome<SelectedEndpoint> {
        let stored = credentials::all_stored(&self.work.machine).await;
        let reason = SelectionReason::Named { origin: format!("/provider {name}") };
        Ok(selection(&self.settings, GivenValues::default(), stored).endpoint_of(name, reason)?)
    }

    /// Returns the endpoint of the provider `name`, with `key` as its credential.
    pub(crate) async fn endpoint_with_key(&self, name: &str, key: &str) -> Outcome<SelectedEndpoint> {
        let given = GivenValues { api_key: Some(key.into()), ..self.given.clone() };
        let reason = SelectionReason::Named { origin: name.to_owned() };
        let stored = StoredCredentials::new();
        Ok(selection(&self.settings, given, stored).endpoint_of(name, reason)?)
    }

    /// Whether no provider is configured, or its credential is missing.
    pub(crate) async fn lacks_provider(&self) -> bool {
        // Backends have credentials of their own.
        if backends::initial_backend(&self.settings, None).is_ok_and(|chosen| chosen.is_some()) {
            return false;
        }
        let stored = match credentials::store(&self.work.machine) {
            Ok(store) => stored_credentials(&store).await.0,
            Err(_) => StoredCredentials::new(),
        };
        let endpoint = selection(&self.settings, self.given.clone(), stored).endpoint().await;
        endpoint.is_err_and(|error| error.lacks_credential())
    }

    /// The source of the credential used for a provider, and its origin.
    pub(crate) fn credential(
        &self,
        provider: &NamedProvider,
        stored: &StoredCredentials,
    ) -> Option<(CredentialSource, String)> {
        let selection = selection(&self.settings, self.given.clone(), stored.clone());
        let (source, origin) = selection.credential(provider)?;
        let origin = match origin {
            CredentialOrigin::Given => "--api-key".to_owned(),
            CredentialOrigin::Set(origin) => origin,
            CredentialOrigin::Stored => "stored".to_owned(),
        };
        Some((source, origin))
    }
}

/// Creates the selection from the settings, the given values and the stored credentials.
fn selection(settings: &Settings, given: GivenValues, stored: StoredCredentials) -> Selection {
    let requested = |key: &str, name: Option<String>| {
        let origin = settings.origin(key).map(ToString::to_string).unwrap_or_default();
        name.map(|name| RequestedName { name, origin })
    };
    let layer = |key: &str| settings.origin(key).map(|origin| origin.layer);
    Selection {
        known: settings.known_providers(),
        stored,
        given,
        provider: requested("provider", settings.program.provider.clone()),
        model: requested("model", settings.program.model.clone()),
        keeps_provider: layer("provider").is_some() && layer("provider") >= layer("model"),
    }
}

/// Describes the reason for the selection of a provider.
pub(crate) fn selection_reason(endpoint: &SelectedEndpoint) -> String {
    let name = &endpoint.provider.name;
    match &endpoint.reason {
        SelectionReason::Named { origin } => origin.clone(),
        SelectionReason::Set { setting, origin } => format!("{setting} is set ({origin})"),
        SelectionReason::Stored => format!("`zk auth login {name}` stored a credential"),
        SelectionReason::GivenAddress => "--base-url".to_owned(),
        SelectionReason::GivenKey => "--api-key".to_owned(),
        SelectionReason::Model { model, origin } => format!("the model {model} is its ({origin})"),
        SelectionReason::LocalServer { port } => {
            format!("nothing is configured, and {name} runs on port {port}")
        }
    }
}

/// Message about a model that its provider does not have, with similar names.
pub(crate) fn unknown_model_message(model: &Model, unknown: &UnknownModel) -> String {
    let near = suggest::either(&unknown.near);
    format!(
        "{} does not know {}: did you mean {near}? `zk models` lists what it has",
        model.provider, model.id
    )
}

/// Note on a model that is missing in the catalogue.
pub(crate) fn unlisted_model_note(unknown: &UnknownModel) -> String {
    let hint = match unknown.near.as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", suggest::either(near)),
    };
    format!("zk does not know this model{hint}")
}

impl Explain for SelectError {
    fn exit(&self) -> Exit {
        if self.lacks_credential() { Exit::Auth } else { Exit::Usage }
    }

    fn explain(&self) -> String {
        match self {
            Self::UnknownProvider { name, known } => {
                let hint = match Vendor::also_called(name) {
                    Some(vendor) => format!("; did you mean `{vendor}`?"),
                    None => suggest::did_you_mean(name, known.iter().map(String::as_str)),
                };
                format!(
                    "unknown provider `{name}`{hint} (zk knows {}; one of your own needs a `base_url` under \
                     [providers.{name}]; a server named with --base-url alone is `{}`)",
                    suggest::either(known),
                    Vendor::COMPATIBLE
                )
            }
            Self::UnknownVendor { provider, vendor, known } => {
                let hint = suggest::did_you_mean(vendor, known.iter().copied());
                format!("providers.{provider}.like: unknown provider `{vendor}`{hint}")
            }
            Self::NoAddress { provider } => format!(
                "nobody says where {provider} is: use --base-url, or set `base_url` under [providers.{provider}]"
            ),
            Self::NotSignedIn { provider } => {
                format!("not signed in to {provider}: run `zk auth login {provider}`")
            }
            Self::NoKey { provider, variable } => format!(
                "no key for {provider}: run `zk auth login {provider}`, set {variable}, or `api_key` under \
                 [providers.{provider}] in your settings; a server that needs none is named with --base-url"
            ),
            Self::NothingConfigured { services, servers } => nothing_configured(services, servers),
            Self::Model { model, source } => format!("the model {model}: {}", source.explain()),
        }
    }
}

impl Explain for CredentialError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoStore => Exit::Usage,
            Self::Store(_) | Self::Key(_) | Self::Replaced { .. } | Self::NoClient { .. } => Exit::Auth,
        }
    }

    fn explain(&self) -> String {
        match self {
            Self::NoStore => credentials::NO_STORE.to_owned(),
            Self::NoClient { provider } => format!(
                "the stored sign-in to {provider} cannot be used without [providers.{provider}.oauth] in your settings: put \
                 it back, or run `zk auth login {provider}`"
            ),
            Self::Store(_) | Self::Key(_) | Self::Replaced { .. } => self.to_string(),
        }
    }
}

fn nothing_configured(services: &[(&str, &str)], servers: &[LocalServer]) -> String {
    let mut services = services.iter();
    let usual = services.next().map(|(name, key)| format!(" Run `zk auth login {name}`, or set {key}."));
    let another = services.next().map(|(name, key)| format!(", such as `zk auth login {name}` or {key}"));
    let (usual, another) = (usual.unwrap_or_default(), another.unwrap_or_default());
    let seen: String = servers.iter().filter_map(unusable_server_remark).collect();
    let all: Vec<String> =
        servers.iter().map(|server| format!("{} (port {})", server.name, server.port)).collect();
    format!(
        "no API key found.{usual}{seen}\n\
         Other providers work the same way{another}. A local model \
         server needs no key: start {}, or name one with --base-url.\n\
         `zk demo` needs no key; `zk doctor` shows what is configured.",
        suggest::or(&all)
    )
}

/// Remark on a local server that was found but cannot be used.
fn unusable_server_remark(server: &LocalServer) -> Option<String> {
    let LocalServer { name, port, state } = server;
    Some(match state {
        LocalServerState::Absent | LocalServerState::Ready => return None,
        LocalServerState::Other => format!("\nWhat listens on port {port} is not {name}."),
        LocalServerState::Locked => format!(
            "\nWhat listens on port {port} wants a key: if it is {name}, use --provider {name} and --api-key."
        ),
        LocalServerState::Busy => format!(
            "\nWhat listens on port {port} does not answer yet: if it is {name} and loads its model, try again soon."
        ),
        LocalServerState::Empty => format!("\n{name} runs on port {port} and has no model yet."),
    })
}
