use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_auth::{AuthError, AuthorizationCode, Credential, CredentialStore, Login, OAuthClient};
use zk_core::service::{Exec, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec};
use zk_providers::Http;
use zk_providers::select::{CredentialSource, StoredCredentials};
use zk_tui::TerminalError;
use zk_tui::term::{print_stderr, secret};

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::actions::AuthAction;
use crate::credentials;
use crate::exit::{Exit, Failure, Outcome};
use zk_settings::suggest;

use crate::stdin;

/// Longest time for a person to sign in.
pub(super) const SIGN_IN_LIMIT: Duration = Duration::from_secs(10 * 60);

pub(crate) fn auth(app: &AppContext, action: AuthAction) -> Outcome<Exit> {
    match action {
        AuthAction::Login { provider, key, browser } => login(app, provider, key, browser),
        AuthAction::Logout { provider } => logout(app, provider),
        AuthAction::Status { provider } => status(app, provider),
    }
}

fn login(app: &AppContext, provider: Option<String>, key: bool, browser: bool) -> Outcome<Exit> {
    let name = named(app, provider)?;
    let client = credentials::client(app, &name)?.filter(|_| !key);
    let credential = match client {
        None => {
            let provider = app.settings.known_providers().find(&name)?;
            if provider.prebuilt.is_some() {
                return Err(Failure::usage(format!("{name} is a part of this program and takes no key")));
            }
            if provider.is_sign_in_only() {
                return Err(Failure::usage(format!("{name} takes no key: run `zk auth login {name}`")));
            }
            Credential::ApiKey(typed(&name)?.into())
        }
        Some(client) => runtime()?.block_on(sign_in(app, client, browser))?,
    };
    let store = credentials::store(app)?;
    let aside = runtime()?.block_on(store.put(&name, &credential)).map_err(Failure::failed)?;
    if let Some(aside) = aside {
        let path = aside.path.display();
        print_stderr(&format!("zk: warning: the old file was damaged ({}) and is now {path}", aside.reason));
    }
    print(app, &[format!("{name}: {}, in {}", what(&credential), store.path().display())])
}

/// A key from the person's hands, or from a pipe.
fn typed(name: &str) -> Outcome<String> {
    let key = if stdin::is_terminal() {
        secret::read(&format!("Key for {name} (it is not shown): ")).map_err(not_stored)?
    } else {
        stdin::text(false)?.unwrap_or_default()
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

/// The failure of a key that was not typed to its end.
fn not_stored(error: TerminalError) -> Failure {
    match error {
        TerminalError::GivenUp => Failure::new(Exit::Interrupted, "nothing was stored"),
        error => error.into(),
    }
}

async fn sign_in(app: &AppContext, client: OAuthClient, browser: bool) -> Outcome<Credential> {
    let failed = |error: AuthError| match error {
        AuthError::Client { .. } => Failure::usage(error.to_string()),
        error => Failure::auth(error.to_string()),
    };
    let login = Login::begin(client, Http::new()).await.map_err(failed)?;
    print_stderr(&format!("Open this address and sign in:\n\n{}\n", login.url()));
    if browser && !open(app, &[], login.url()).await {
        print_stderr("zk: no browser could be opened; open the address yourself");
    }
    if stdin::is_terminal() {
        print_stderr(
            "If the browser cannot come back here, paste the address it ends at, or the code it shows.",
        );
    }
    let code = tokio::select! {
        code = login.callback(SIGN_IN_LIMIT) => code,
        code = pasted(&login) => code,
    };
    let tokens = login.exchange(code.map_err(failed)?).await.map_err(failed)?;
    Ok(Credential::OAuth(tokens))
}

/// The first line on standard input that is the answer. Without one, the browser may still bring it.
pub(super) async fn pasted(login: &Login) -> Result<AuthorizationCode, AuthError> {
    let (lines, mut read) = mpsc::unbounded_channel();
    // A thread of its own, so that nobody waits for a line that never comes.
    let reader = std::thread::Builder::new().name("paste".to_owned()).spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    if reader.is_ok() {
        while let Some(line) = read.recv().await {
            if line.trim().is_empty() {
                continue;
            }
            match login.pasted(&line) {
                Err(error @ AuthError::Pasted { .. }) => print_stderr(&format!("zk: {error}")),
                answer => return answer,
            }
        }
    }
    if login.listens() {
        return std::future::pending().await;
    }
    Err(AuthError::Pasted { reason: "is nothing" })
}

/// Opens an address in the person's browser, without a shell, and says whether that worked. The browser is `opener`: a
/// program and its first arguments, `xdg-open` if there are none.
pub(super) async fn open(app: &AppContext, opener: &[String], url: &str) -> bool {
    let mut environment = Environment::filtered(app.env.without_secrets());
    for name in ["BROWSER", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_CURRENT_DESKTOP"] {
        if let Some(value) = app.env.get(name) {
            environment = environment.grant(name, value);
        }
    }
    let (program, first) = match opener.split_first() {
        Some((program, first)) => (program.as_str(), first),
        None => ("xdg-open", opener),
    };
    let args = first.iter().map(String::as_str).chain([url]).map(Into::into);
    let request = ExecRequest {
        args: args.collect(),
        timeout: Some(Duration::from_secs(5)),
        ..ExecRequest::new(program, "/")
    };
    let exec = ProcessExec::new(environment);
    let mut ignored = |_: OutputStream, _: &[u8]| ();
    let outcome = exec.run(request, &mut ignored, &CancellationToken::new()).await;
    outcome.is_ok_and(|outcome| outcome.exit == zk_core::service::Exit::Code(0))
}

fn logout(app: &AppContext, provider: Option<String>) -> Outcome<Exit> {
    let name = match provider.or_else(|| app.settings.program.provider.clone()) {
        Some(name) => name,
        None => named(app, None)?,
    };
    let store = credentials::store(app)?;
    let removed = runtime()?.block_on(store.remove(&name)).map_err(Failure::failed)?;
    if !removed {
        return Err(Failure::usage(format!("nothing is stored for {name}; `zk auth status` lists what is")));
    }
    print(app, &[format!("{name}: removed from {}", store.path().display())])
}

fn status(app: &AppContext, provider: Option<String>) -> Outcome<Exit> {
    let runtime = runtime()?;
    let stored = runtime.block_on(credentials::all_stored(app));
    let all: BTreeSet<String> = match provider {
        Some(name) => [name].into(),
        None => app.settings.known_providers().names().into_iter().chain(stored.keys().cloned()).collect(),
    };
    let asked = all.len() == 1;
    let states: Vec<(String, Option<String>)> = all
        .into_iter()
        .map(|name| (state(app, &stored, &name), name))
        .map(|(state, name)| (name, state))
        .collect();
    let missing = states.iter().all(|(_, state)| state.is_none());
    if missing && !asked {
        let what = "no credentials: `zk auth login anthropic` stores a key, and so for every other provider";
        print(app, &[what.to_owned()])?;
        return Ok(Exit::Done);
    }
    let line = |(name, state): &(String, Option<String>)| {
        (asked || state.is_some()).then(|| format!("{name:<14} {}", state.as_deref().unwrap_or("nothing")))
    };
    print(app, &states.iter().filter_map(line).collect::<Vec<_>>())?;
    Ok(if missing { Exit::Auth } else { Exit::Done })
}

/// Returns the credential that would be used for a provider, and its place.
fn state(app: &AppContext, stored: &StoredCredentials, name: &str) -> Option<String> {
    let Ok(provider) = app.settings.known_providers().find(name) else {
        return stored.get(name).map(|credential| format!("{}, unused: unknown provider", what(credential)));
    };
    let (key, place) = app.credential(&provider, stored)?;
    let what = match key {
        CredentialSource::Key(_) => "a key".to_owned(),
        CredentialSource::Bearer(_) => "a token".to_owned(),
        CredentialSource::StoredKey | CredentialSource::SignIn { .. } => what(stored.get(name)?),
    };
    Some(format!("{what} ({place})"))
}

/// A credential without its secrets.
fn what(credential: &Credential) -> String {
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

/// The provider that is named here or in the settings.
fn named(app: &AppContext, provider: Option<String>) -> Outcome<String> {
    let name = provider.or_else(|| app.settings.program.provider.clone()).ok_or_else(|| {
        let names = app.settings.known_providers().names();
        Failure::usage(format!("say for which provider: {}", suggest::either(&names)))
    })?;
    Ok(app.settings.known_providers().find(&name)?.name)
}
