mod access;
mod key;
mod messages;
mod setup;
mod sign_in;
mod status;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::SystemTime;

use zk_auth::{Credential, CredentialStore};
use zk_chat::ProviderAccess;
use zk_core::service::looks_like_key;
use zk_settings::suggest;
use zk_tui::TerminalError;
use zk_tui::plain::piped_text;
use zk_tui::term::{print_stderr, secret};

use super::print_words as print;
use crate::app::{AppContext, Machine, runtime};
use crate::args::actions::AuthAction;
use crate::credentials;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;
use messages::NOTHING_STORED;
use sign_in::sign_in;
use status::status;

pub(crate) use access::Access;
pub(crate) use setup::setup;
pub(super) use sign_in::{SIGN_IN_LIMIT, open_browser, read_pasted_code};

pub(crate) fn auth(app: &AppContext, action: AuthAction) -> Outcome<Exit> {
    match action {
        AuthAction::Login { provider, key, browser } => login(app, provider, key, browser),
        AuthAction::Logout { provider } => logout(&app.work.machine, &app.settings, provider),
        AuthAction::Status { provider } => status(app, provider),
    }
}

fn login(app: &AppContext, provider: Option<String>, key: bool, browser: bool) -> Outcome<Exit> {
    let (machine, settings) = (&app.work.machine, &app.settings);
    if provider.as_deref().is_some_and(looks_like_key) {
        return Err(Failure::usage(
            "this takes the name of a provider, and looks like a key, which a shell keeps in its history: `zk auth login` \
             asks for the key, unseen"
                .to_owned(),
        ));
    }
    let name = match provider.or_else(|| settings.program.provider.clone()) {
        Some(name) => settings.known_providers().find(&name)?.name,
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => {
            let access: Arc<dyn ProviderAccess> = Arc::new(Access(app.clone()));
            let chosen = zk_chat::sign_in(&access, &machine.terminal())?;
            return chosen.map(|_| Exit::Done).ok_or_else(|| Failure::new(Exit::Interrupted, NOTHING_STORED));
        }
        None => chosen_provider(settings, None)?,
    };
    let client = credentials::client(settings, &name)?.filter(|_| !key);
    let credential = match client {
        None => {
            let provider = settings.known_providers().find(&name)?;
            if provider.prebuilt.is_some() {
                return Err(Failure::usage(format!("{name} is a part of this program and takes no key")));
            }
            if provider.is_sign_in_only() {
                return Err(Failure::usage(format!("{name} takes no key: run `zk auth login {name}`")));
            }
            let key = read_key(&name)?;
            if let Some(remark) = runtime()?.block_on(key::store_key(app, &name, &key))? {
                print_stderr(&messages::unchecked_key(&remark));
            }
            Credential::ApiKey(key.into())
        }
        Some(client) => {
            let credential = runtime()?.block_on(sign_in(machine, client, browser))?;
            runtime()?.block_on(key::store(app, &name, &credential))?;
            credential
        }
    };
    let store = credentials::store(machine)?;
    print(machine, &[format!("{name}: {}, in {}", describe_credential(&credential), store.path().display())])
}

/// Reads a key, typed without an echo or piped to standard input.
fn read_key(name: &str) -> Outcome<String> {
    let key = if std::io::stdin().is_terminal() {
        secret::read(&format!("Key for {name} (it is not shown): ")).map_err(read_failure)?
    } else {
        piped_text(false)?.unwrap_or_default()
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(Failure::usage("there is no key: type it, or pipe it to standard input"));
    }
    if key.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Failure::usage("that is more than a key: it holds spaces or line breaks"));
    }
    Ok(key.to_owned())
}

/// Converts a failure to read a key, such as a cancelled input.
fn read_failure(error: TerminalError) -> Failure {
    match error {
        TerminalError::GivenUp => Failure::new(Exit::Interrupted, NOTHING_STORED),
        error => error.into(),
    }
}

fn logout(machine: &Machine, settings: &Settings, provider: Option<String>) -> Outcome<Exit> {
    let name = match provider.or_else(|| settings.program.provider.clone()) {
        Some(name) => name,
        None => chosen_provider(settings, None)?,
    };
    let store = credentials::store(machine)?;
    let removed = runtime()?.block_on(store.remove(&name)).map_err(Failure::failed)?;
    if !removed {
        return Err(Failure::usage(format!("nothing is stored for {name}; `zk auth status` lists what is")));
    }
    print(machine, &[format!("{name}: removed from {}", store.path().display())])
}

/// Describes a credential without its secrets.
fn describe_credential(credential: &Credential) -> String {
    let tokens = match credential {
        Credential::ApiKey(_) => return "a key".to_owned(),
        Credential::OAuth(tokens) => tokens,
    };
    let account = tokens.account.as_ref().map_or(String::new(), |account| format!(" as {account}"));
    let renewed = if tokens.refresh.is_some() { ", renewed by itself" } else { "" };
    let end = match tokens.expires_at.map(|end| end.duration_since(SystemTime::now())) {
        None => String::new(),
        Some(Ok(left)) => format!(", token good for {} min{renewed}", left.as_secs() / 60),
        Some(Err(_)) => format!(", token ended{renewed}"),
    };
    format!("signed in{account} at {}{end}", tokens.issuer)
}

/// Returns the provider that the command line or the settings name.
fn chosen_provider(settings: &Settings, provider: Option<String>) -> Outcome<String> {
    let name = provider.or_else(|| settings.program.provider.clone()).ok_or_else(|| {
        let names = settings.known_providers().names();
        Failure::usage(messages::missing_provider(&suggest::either(&names)))
    })?;
    Ok(settings.known_providers().find(&name)?.name)
}
