//! Keys and tokens: where they are stored, whose they are, and how they become what a request shows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_exec::{Environment, ProcessExec};
use zk_providers::auth::{
    Credential, CredentialStore, FileStore, KeyRing, KeySource, OAuthClient, OAuthSession, StoreError,
};
use zk_providers::{Auth, Http, Secret};

use crate::app::Ground;
use crate::endpoint::Key;
use crate::exit::{Failure, Outcome};
use crate::term::tell;

/// What password managers need beside what every command sees: how to reach their agents.
const FOR_KEY_COMMANDS: [&str; 6] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR", "WAYLAND_DISPLAY"];

/// What is stored, by the name of its provider.
pub(crate) type Stored = BTreeMap<String, Credential>;

/// The store of this user.
pub(crate) fn store(ground: &Ground) -> Outcome<FileStore> {
    ground
        .dirs
        .credentials()
        .map(FileStore::new)
        .ok_or_else(|| Failure::usage("there is no place for credentials: set HOME or ZK_HOME"))
}

/// Everything that is stored. A store that cannot be read is told of, and costs only what is in it.
pub(crate) async fn stored(ground: &Ground) -> Stored {
    let Ok(store) = store(ground) else { return Stored::new() };
    let mut stored = Stored::new();
    let warn = |error: StoreError| tell(&format!("zk: warning: {error}"));
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
pub(crate) fn client(ground: &Ground, name: &str) -> Outcome<Option<OAuthClient>> {
    let Some(mut table) = ground.settings.table(&["providers", name, "oauth"]) else {
        return Ok(Some(OAuthClient::chatgpt()).filter(|client| client.name == name));
    };
    table.insert("name".to_owned(), name.into());
    let client = table.try_into::<OAuthClient>();
    client.map(Some).map_err(|error| {
        Failure::usage(format!("providers.{name}.oauth cannot be used: {}", error.message()))
    })
}

/// What a request shows for `key`.
pub(crate) async fn auth(ground: &Ground, provider: &str, key: Option<&Key>, http: &Http) -> Outcome<Auth> {
    Ok(match key {
        None => Auth::None,
        Some(Key::Stored) => {
            let stored = store(ground)?.get(provider).await;
            match stored.map_err(|error| Failure::auth(error.to_string()))? {
                Some(Credential::ApiKey(key)) => Auth::Key(key),
                Some(Credential::OAuth(_)) | None => {
                    let what = "was replaced just now: start again";
                    return Err(Failure::auth(format!("the stored key of {provider} {what}")));
                }
            }
        }
        Some(Key::Api(key)) => Auth::Key(found(ground, key).await?),
        Some(Key::Bearer(token)) => Auth::Bearer(found(ground, token).await?),
        Some(Key::SignIn { .. }) => {
            let client = client(ground, provider)?.ok_or_else(|| {
                Failure::auth(format!(
                    "the stored sign-in to {provider} cannot be used without [providers.{provider}.oauth] in \
                     your settings: put it back, or run `zk auth login {provider}`"
                ))
            })?;
            Auth::Source(Arc::new(OAuthSession::new(client, Arc::new(store(ground)?), http.clone())))
        }
    })
}

/// The key that a text stands for.
async fn found(ground: &Ground, text: &str) -> Outcome<Secret> {
    let env = ground.env.clone();
    let ring = KeyRing::new(move |name| env.text(name).map(str::to_owned));
    let source = KeySource::parse(text);
    let key = match &source {
        KeySource::Literal(_) | KeySource::Env(_) => ring.key(&source, &CancellationToken::new()).await,
        KeySource::Command(_) => {
            let granted = FOR_KEY_COMMANDS.iter().filter_map(|name| Some((*name, ground.env.get(name)?)));
            let environment = Environment::filtered(ground.env.all().clone());
            let environment = granted.fold(environment, |all, (name, value)| all.grant(name, value));
            let exec = Arc::new(ProcessExec::new(environment));
            // Not in the project: it would choose what a relative path means.
            let home = ground.env.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
            let ring = ring.running(exec.clone(), home);
            let key = ring.key(&source, &CancellationToken::new()).await;
            exec.close().await;
            key
        }
    };
    key.map_err(|error| Failure::auth(error.to_string()))
}
