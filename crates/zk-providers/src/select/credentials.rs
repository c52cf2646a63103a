//! Keys and tokens: where they are stored, whose they are, and how they become what a request shows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use zk_auth::{
    Credential, CredentialStore, FileStore, KeyRing, KeySource, OAuthClient, OAuthSession, StoreError,
};
use zk_exec::{Environment, ProcessExec};
use zk_providers::{Auth, Http, Secret};

use crate::app::AppContext;
use crate::endpoint::Key;
use crate::exit::{Failure, Outcome};

/// Variables that password managers need beside those of every command: for reaching their agents.
const KEY_COMMAND_ENV: [&str; 6] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR", "WAYLAND_DISPLAY"];

/// Stored credentials, by the names of their providers.
pub(crate) type StoredCredentials = BTreeMap<String, Credential>;

/// The store of this user.
pub(crate) fn store(app: &AppContext) -> Outcome<FileStore> {
    app.dirs
        .credentials()
        .map(FileStore::new)
        .ok_or_else(|| Failure::usage("there is no place for credentials: set HOME or ZK_HOME"))
}

/// Everything that is stored. A store that cannot be read is told of, and costs only what is in it.
pub(crate) async fn all_stored(app: &AppContext) -> StoredCredentials {
    let Ok(store) = store(app) else { return StoredCredentials::new() };
    let mut stored = StoredCredentials::new();
    let warn = |error: StoreError| {
        let next = match &error {
            StoreError::Entry { name, .. } => format!(": `zk auth login {name}`"),
            _ => String::new(),
        };
        app.notices.show(&format!("warning: {error}{next}"));
    };
    let names = store.names().await.unwrap_or_else(|error| {
        warn(error);
        Vec::new()
    });
    for name in names {
        match store.get(&name).await {
            Ok(credential) => stored.extend(credential.map(|credential| (name, credential))),
            Err(error) => warn(error),
        }
    }
    stored
}

/// The authorisation server of a provider: from the settings, or the one that is known.
pub(crate) fn client(app: &AppContext, name: &str) -> Outcome<Option<OAuthClient>> {
    let Some(mut table) = app.settings.table(&["providers", name, "oauth"]) else {
        return Ok(Some(zk_providers::subscription_sign_in()).filter(|client| client.name == name));
    };
    table.insert("name".to_owned(), name.into());
    let client = table.try_into::<OAuthClient>();
    client.map(Some).map_err(|error| {
        Failure::usage(format!("providers.{name}.oauth cannot be used: {}", error.message()))
    })
}

/// Returns the authentication of a request with `key`.
pub(crate) async fn auth(app: &AppContext, provider: &str, key: Option<&Key>, http: &Http) -> Outcome<Auth> {
    Ok(match key {
        None => Auth::None,
        Some(Key::Stored) => {
            let stored = store(app)?.get(provider).await;
            match stored.map_err(|error| Failure::auth(error.to_string()))? {
                Some(Credential::ApiKey(key)) => {
                    app.redactor.learn(key.expose_secret());
                    Auth::Key(key)
                }
                Some(Credential::OAuth(_)) | None => {
                    let what = "was replaced just now: start again";
                    return Err(Failure::auth(format!("the stored key of {provider} {what}")));
                }
            }
        }
        Some(Key::Api(key)) => Auth::Key(resolve_key(app, key.expose_secret()).await?),
        Some(Key::Bearer(token)) => Auth::Bearer(resolve_key(app, token.expose_secret()).await?),
        Some(Key::SignIn { .. }) => {
            let client = client(app, provider)?.ok_or_else(|| {
                Failure::auth(format!(
                    "the stored sign-in to {provider} cannot be used without [providers.{provider}.oauth] in \
                     your settings: put it back, or run `zk auth login {provider}`"
                ))
            })?;
            Auth::Source(Arc::new(OAuthSession::new(client, Arc::new(store(app)?), http.clone())))
        }
    })
}

/// The key that a text stands for.
async fn resolve_key(app: &AppContext, text: &str) -> Outcome<Secret> {
    let env = app.env.clone();
    let ring = KeyRing::new(move |name| env.text(name).map(str::to_owned));
    let source = KeySource::parse(text);
    let key = match &source {
        KeySource::Literal(_) | KeySource::Env(_) => ring.key(&source, &CancellationToken::new()).await,
        KeySource::Command(_) => {
            let granted = KEY_COMMAND_ENV.iter().filter_map(|name| Some((*name, app.env.get(name)?)));
            let environment = Environment::filtered(app.env.without_secrets());
            let environment = granted.fold(environment, |all, (name, value)| all.grant(name, value));
            let exec = Arc::new(ProcessExec::new(environment));
            // Not in the project: it would choose what a relative path means.
            let home = app.env.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
            let ring = ring.running(exec.clone(), home);
            let key = ring.key(&source, &CancellationToken::new()).await;
            exec.close().await;
            key
        }
    };
    let key = key.map_err(|error| Failure::auth(error.to_string()))?;
    app.redactor.learn(key.expose_secret());
    Ok(key)
}
