use std::collections::BTreeSet;

use zk_providers::select::{CredentialSource, StoredCredentials};

use super::super::print_words as print;
use super::describe_credential;
use crate::app::{AppContext, runtime};
use crate::credentials;
use crate::exit::{Exit, Outcome};

pub(super) fn status(app: &AppContext, provider: Option<String>) -> Outcome<Exit> {
    let runtime = runtime()?;
    let stored = runtime.block_on(credentials::all_stored(&app.work.machine));
    let all: BTreeSet<String> = match provider {
        Some(name) => [name].into(),
        None => app.settings.known_providers().names().into_iter().chain(stored.keys().cloned()).collect(),
    };
    let asked = all.len() == 1;
    let states: Vec<(String, Option<String>)> = all
        .into_iter()
        .map(|name| (credential_state(app, &stored, &name), name))
        .map(|(state, name)| (name, state))
        .collect();
    let missing = states.iter().all(|(_, state)| state.is_none());
    if missing && !asked {
        let what = "no credentials: `zk auth login anthropic` stores a key, and so for every other provider";
        print(&app.work.machine, &[what.to_owned()])?;
        return Ok(Exit::Done);
    }
    let line = |(name, state): &(String, Option<String>)| {
        (asked || state.is_some()).then(|| format!("{name:<14} {}", state.as_deref().unwrap_or("nothing")))
    };
    print(&app.work.machine, &states.iter().filter_map(line).collect::<Vec<_>>())?;
    Ok(if missing { Exit::Auth } else { Exit::Done })
}

/// Describes the credential that requests to a provider would use, and its place.
pub(super) fn credential_state(app: &AppContext, stored: &StoredCredentials, name: &str) -> Option<String> {
    let Ok(provider) = app.settings.known_providers().find(name) else {
        return stored
            .get(name)
            .map(|credential| format!("{}, unused: unknown provider", describe_credential(credential)));
    };
    let (key, place) = app.credential(&provider, stored)?;
    let what = match key {
        CredentialSource::Key(_) => "a key".to_owned(),
        CredentialSource::Bearer(_) => "a token".to_owned(),
        CredentialSource::StoredKey | CredentialSource::SignIn { .. } => {
            describe_credential(stored.get(name)?)
        }
    };
    Some(format!("{what} ({place})"))
}
