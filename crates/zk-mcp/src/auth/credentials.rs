//! Stored tokens and client registration of one server.

use std::sync::{Arc, Mutex, PoisonError};

use secrecy::ExposeSecret;
use zk_auth::{AuthError, Credential, CredentialStore, Http, OAuthSession, OAuthTokens, Secret, TokenSource};
use zk_core::kernel::Scope;

use super::challenge::Challenge;
use super::registration::Registration;

/// Sign-in state of one server.
pub(crate) struct ServerAuth {
    url: String,
    store: Arc<dyn CredentialStore>,
    http: Http,
    scope: Scope,
    /// Last challenge of the server.
    challenge: Mutex<Option<Challenge>>,
    /// OAuth session of the stored registration.
    session: Mutex<Option<(Registration, OAuthSession)>>,
}

impl ServerAuth {
    pub(crate) fn new(url: &str, store: Arc<dyn CredentialStore>, http: &Http, scope: Scope) -> Self {
        let (challenge, session) = (Mutex::default(), Mutex::default());
        // The server names its authorisation server, which may lead to any address.
        let http = reqwest::Url::parse(url)
            .map_or_else(|_| http.clone(), |server| http.restricted_for_server(&server));
        Self { url: url.to_owned(), store, http, scope, challenge, session }
    }

    pub(super) fn http(&self) -> &Http {
        &self.http
    }

    /// Returns the name under which the tokens of an issuer for this server are stored.
    fn tokens_name(&self, issuer: &str) -> String {
        format!("{} {issuer}", self.url)
    }

    pub(super) async fn registration(&self) -> Result<Option<Registration>, AuthError> {
        match self.store.get(&self.url).await? {
            Some(Credential::ApiKey(text)) => Ok(serde_json::from_str(text.expose_secret()).ok()),
            Some(Credential::OAuth(_)) | None => Ok(None),
        }
    }

    pub(super) async fn store_registration(&self, registration: &Registration) -> Result<(), AuthError> {
        let text = serde_json::to_string(registration).unwrap_or_default();
        self.store.put(&self.url, &Credential::ApiKey(text.into())).await?;
        Ok(())
    }

    pub(super) async fn store_tokens(&self, issuer: &str, tokens: OAuthTokens) -> Result<(), AuthError> {
        self.store.put(&self.tokens_name(issuer), &Credential::OAuth(tokens)).await?;
        Ok(())
    }

    /// Removes the tokens and the registration; returns whether there were any.
    pub(crate) async fn forget(&self) -> Result<bool, AuthError> {
        let registration = self.registration().await.ok().flatten();
        let tokens = match registration {
            Some(known) => self.store.remove(&self.tokens_name(&known.issuer)).await?,
            None => false,
        };
        Ok(self.store.remove(&self.url).await? || tokens)
    }

    pub(super) fn client(&self, registration: &Registration) -> zk_auth::OAuthClient {
        registration.client(self.tokens_name(&registration.issuer))
    }

    /// Returns the session of the stored registration, which another program may have replaced.
    async fn session(&self) -> Option<OAuthSession> {
        let known = self.registration().await.ok().flatten()?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, session)) = &*session
            && *of == known
        {
            return Some(session.clone());
        }
        let made = OAuthSession::new(self.client(&known), self.store.clone(), self.http.clone());
        *session = Some((known, made.clone()));
        Some(made)
    }

    /// Returns a token for the next request, refreshed if necessary, if the person has signed in.
    pub(crate) async fn token(&self) -> Option<Secret> {
        let session = self.session().await?;
        session.token(&self.scope.bus()?.cx()).await.ok()
    }

    /// Returns a token to replace one that the server rejected.
    pub(crate) async fn replace(&self, rejected: &Secret) -> Option<Secret> {
        let session = self.session().await?;
        session.replace(rejected, &self.scope.bus()?.cx()).await.ok().flatten()
    }

    /// Records the challenge of the server.
    pub(crate) fn record_challenge(&self, challenge: Challenge) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge);
    }

    /// Records a challenge, and stores the additional scopes for other programs.
    pub(crate) async fn note_wanted(&self, challenge: Challenge) {
        if let Ok(Some(mut known)) = self.registration().await {
            let more: Vec<String> =
                challenge.scopes.iter().filter(|scope| !known.wanted.contains(scope)).cloned().collect();
            if !more.is_empty() {
                known.wanted.extend(more);
                // If storing fails, a sign-in in this process still uses the challenge in memory.
                let _ = self.store_registration(&known).await;
            }
        }
        self.record_challenge(challenge);
    }

    /// Whether the server asked for a sign-in since the last one, or an earlier program recorded that.
    pub(crate) async fn wants_sign_in(&self) -> bool {
        let waits =
            || async { self.registration().await.ok().flatten().is_some_and(|one| !one.wanted.is_empty()) };
        self.challenge().is_some() || waits().await
    }

    /// Clears the challenge after a sign-in.
    pub(super) fn clear_challenge(&self) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the last challenge of the server, if there was one.
    pub(crate) fn challenge(&self) -> Option<Challenge> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
