//! Keys and tokens of this user: their store, and the authentication of requests with them.

use std::path::PathBuf;
use std::sync::Arc;

use zk_auth::{CredentialStore, FileStore, KeyRing, KeySource, OAuthClient, StoreError};
use zk_exec::{Environment, ProcessExec};
use zk_providers::select::{CredentialAccess, CredentialSource, StoredCredentials, stored_credentials};
use zk_providers::{Auth, Http};

use crate::app::Machine;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

/// Variables that password managers need to reach their agents, besides those of every command.
const KEY_COMMAND_ENV: [&str; 6] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR", "WAYLAND_DISPLAY"];

/// Message for a user without a home directory.
pub(crate) const NO_STORE: &str = "there is no place for credentials: set HOME or ZK_HOME";

/// The store of this user.
pub(crate) fn store(machine: &Machine) -> Outcome<FileStore> {
    machine.dirs.credentials().map(FileStore::new).ok_or_else(|| Failure::usage(NO_STORE))
}

/// Returns all stored credentials. Unreadable ones are left out with a notice.
pub(crate) async fn all_stored(machine: &Machine) -> StoredCredentials {
    let Ok(store) = store(machine) else { return StoredCredentials::new() };
    let (stored, errors) = stored_credentials(&store).await;
    for error in errors {
        let next = match &error {
            StoreError::Entry { name, .. } => format!(": `zk auth login {name}`"),
            _ => String::new(),
        };
        machine.notices.show(&format!("warning: {error}{next}"));
    }
    stored
}

/// Returns the OAuth client of a provider: the configured one, or the built-in one.
pub(crate) fn client(settings: &Settings, name: &str) -> Outcome<Option<OAuthClient>> {
    let Some(mut table) = settings.table(&["providers", name, "oauth"]) else {
        return Ok(Some(zk_providers::subscription_sign_in()).filter(|client| client.name == name));
    };
    table.insert("name".to_owned(), name.into());
    let client = table.try_into::<OAuthClient>();
    client.map(Some).map_err(|error| {
        Failure::usage(format!("providers.{name}.oauth cannot be used: {}", error.message()))
    })
}

/// Returns the authentication of requests to `provider` with the credential of `source`.
pub(crate) async fn auth(
    machine: &Machine,
    settings: &Settings,
    provider: &str,
    source: Option<&CredentialSource>,
    http: &Http,
) -> Outcome<Auth> {
    let client = match source {
        Some(CredentialSource::SignIn { .. }) => client(settings, provider)?,
        Some(CredentialSource::Key(_) | CredentialSource::Bearer(_) | CredentialSource::StoredKey) | None => {
            None
        }
    };
    let store = store(machine).ok().map(|store| Arc::new(store) as Arc<dyn CredentialStore>);
    let env = machine.env.clone();
    let mut keys = KeyRing::new(move |name| env.text(name).map(str::to_owned));
    let exec = match source.and_then(CredentialSource::key_source) {
        Some(KeySource::Command(_)) => Some(Arc::new(ProcessExec::new(key_environment(machine)))),
        Some(KeySource::Literal(_) | KeySource::Env(_)) | None => None,
    };
    if let Some(exec) = &exec {
        // The command runs outside of the project, which could otherwise choose the program at a relative
        // path.
        keys = keys.running(exec.clone(), machine.env.path("HOME").unwrap_or_else(|| PathBuf::from("/")));
    }
    let access = CredentialAccess { store, client, keys, http, redactor: &machine.redactor };
    let auth = access.auth(provider, source).await;
    if let Some(exec) = exec {
        exec.close().await;
    }
    Ok(auth?)
}

/// Environment of a command that prints a key.
fn key_environment(machine: &Machine) -> Environment {
    let granted = KEY_COMMAND_ENV.iter().filter_map(|name| Some((*name, machine.env.get(name)?)));
    let environment = Environment::filtered(machine.env.without_secrets());
    granted.fold(environment, |all, (name, value)| all.grant(name, value))
}
