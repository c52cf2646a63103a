//! One sign-in of a person to one server.

use async_trait::async_trait;
use zk_auth::{AuthError, AuthorizationCode, Callback, Login};

use super::SignInError;
use super::challenge::Challenge;
use super::credentials::ServerAuth;
use super::discovery::{Discovered, discover, quote_untrusted};
use super::registration::{Registration, register, without_registration};
use crate::config::oauth_config::OAuthConfig;

/// Sign-in page: shows the address to the person and waits for the result.
#[async_trait]
pub trait SignInPage: Send + Sync {
    /// Sends the person to [`Login::url`] and waits for the answer, by [`Login::callback`] or
    /// [`Login::pasted`].
    ///
    /// # Errors
    /// The errors of [`Login`].
    async fn code(&self, login: &Login) -> Result<AuthorizationCode, AuthError>;
}

/// Options of a host for all sign-ins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInOptions {
    /// URL of a document that describes this program to authorisation servers (Client ID Metadata Document),
    /// which the host has to publish.
    pub client_metadata_url: Option<String>,
}

/// Signs a person in and stores the tokens.
pub(crate) async fn sign_in(
    auth: &ServerAuth,
    url: &reqwest::Url,
    config: &OAuthConfig,
    options: &SignInOptions,
    page: &dyn SignInPage,
) -> Result<(), SignInError> {
    let challenge = auth.challenge().unwrap_or_default();
    let found = discover(auth.http(), url, &challenge).await?;
    let stored = auth.registration().await?;
    check_issuer(config, stored.as_ref(), &found)?;
    let before = stored.filter(|known| known.issuer == found.server.issuer);
    let scopes = scopes(before.as_ref(), &challenge, config, &found);
    let (registration, callback) = registration(auth, before, &found, config, options, &scopes).await?;
    let registration = Registration { scopes, wanted: Vec::new(), ..registration };
    let login = Login::begin_with(auth.client(&registration), Some(callback), auth.http().clone())?;
    let code = page.code(&login).await?;
    let tokens = match login.exchange(code).await {
        Ok(tokens) => tokens,
        Err(error) => {
            if let (AuthError::Refused { .. }, None) = (&error, &config.client_id) {
                // The authorisation server may have forgotten the client, so the next sign-in registers
                // again.
                let _ = auth.forget().await;
            }
            return Err(error.into());
        }
    };
    auth.store_tokens(&registration.issuer, tokens).await?;
    auth.store_registration(&registration).await?;
    auth.clear_challenge();
    Ok(())
}

/// Checks that the configured client is used only at its authorisation server: the configured issuer, or else
/// the first one it was used at.
fn check_issuer(
    config: &OAuthConfig,
    stored: Option<&Registration>,
    found: &Discovered,
) -> Result<(), SignInError> {
    let Some(id) = &config.client_id else { return Ok(()) };
    let used = || stored.filter(|known| known.client_id == *id).map(|known| &known.issuer);
    match config.issuer.as_ref().or_else(used) {
        Some(issuer) if *issuer != found.server.issuer => Err(SignInError::server_error(format!(
            "it names the authorisation server {}, but the client of its settings belongs to {}; if that moved, name \
             it with `oauth.issuer`",
            quote_untrusted(&found.server.issuer),
            quote_untrusted(issuer),
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Returns the scopes for a new token: earlier ones, scopes requested by the server, and scopes of settings;
/// if there are none, all supported scopes. `offline_access` comes last, if it is supported.
fn scopes(
    before: Option<&Registration>,
    challenge: &Challenge,
    config: &OAuthConfig,
    found: &Discovered,
) -> Vec<String> {
    let earlier = before.into_iter().flat_map(|known| known.scopes.iter().chain(&known.wanted));
    let mut scopes: Vec<String> = Vec::new();
    let mut add = |scope: &String| {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    };
    earlier.chain(&challenge.scopes).chain(&config.scopes).for_each(&mut add);
    if scopes.is_empty() {
        scopes.extend(found.scopes.iter().cloned());
    }
    let offline = "offline_access".to_owned();
    let is_known = found.server.scopes_supported.contains(&offline);
    scopes.retain(|scope| *scope != offline);
    if is_known {
        scopes.push(offline);
    }
    scopes
}

/// Returns the client for the sign-in, and the listener for the browser's callback.
async fn registration(
    auth: &ServerAuth,
    before: Option<Registration>,
    found: &Discovered,
    config: &OAuthConfig,
    options: &SignInOptions,
    scopes: &[String],
) -> Result<(Registration, Callback), SignInError> {
    if let Some(known) = without_registration(found, config, options.client_metadata_url.as_deref()) {
        let callback = Callback::listen(&auth.client(&known)).await?;
        return Ok((known, callback));
    }
    if let Some(known) = before {
        let known = known.renewed(found);
        // The callback port is part of the registration, so another port needs another client.
        if let Ok(callback) = Callback::listen(&auth.client(&known)).await {
            return Ok((known, callback));
        }
    }
    let any = zk_auth::OAuthClient::new("zk", "zk", "https://none.invalid", "https://none.invalid");
    let any = zk_auth::OAuthClient {
        redirect: zk_auth::Redirect::Loopback {
            host: "127.0.0.1".to_owned(),
            port: config.port,
            path: "/callback".to_owned(),
        },
        ..any
    };
    let callback = Callback::listen(&any).await?;
    let redirect = callback.redirect_uri();
    let registration = register(auth.http(), found, &redirect, scopes).await?;
    let port = reqwest::Url::parse(&redirect).ok().and_then(|url| url.port());
    Ok((Registration { port, ..registration }, callback))
}
