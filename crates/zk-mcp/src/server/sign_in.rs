//! Sign-in to a server.

#[cfg(not(feature = "http"))]
use super::Server;

/// Maximum number of sign-ins requested before a call works.
#[cfg(feature = "http")]
const MAX_SIGN_INS: u32 = 3;

#[cfg(feature = "http")]
mod with_http {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use async_trait::async_trait;
    use futures_util::future::BoxFuture;
    use zk_auth::{AuthError, AuthorizationCode, Login};
    use zk_core::kernel::Scope;

    use super::super::{Server, Shared};
    use super::MAX_SIGN_INS;
    use crate::auth::{ServerAuth, SignInError, SignInOptions, SignInPage, sign_in};
    use crate::config::server_config::ServerConfig;
    use crate::config::server_transport::ServerTransport;
    use crate::events::{McpAuthError, McpAuthRequired, McpAuthSuccess, McpAuthUrl};

    /// Creates the sign-in state of a server that may require a sign-in.
    pub(in crate::server) fn of(
        config: &ServerConfig,
        shared: &Shared,
        scope: &Scope,
    ) -> Option<Arc<ServerAuth>> {
        let ServerTransport::Http { url, .. } = &config.transport else { return None };
        let made = || ServerAuth::new(url, shared.http.credentials.clone(), &shared.http.http, scope.clone());
        config.takes_sign_in().then(|| Arc::new(made()))
    }

    /// Sign-in page that announces its address first.
    struct Announced<'a> {
        server: &'a Server,
        page: &'a dyn SignInPage,
    }

    #[async_trait]
    impl SignInPage for Announced<'_> {
        async fn code(&self, login: &Login) -> Result<AuthorizationCode, AuthError> {
            let (server, url) = (self.server.config.name.clone(), login.url().to_owned());
            self.server.emit(McpAuthUrl { server, url }).await;
            self.page.code(login).await
        }
    }

    impl Server {
        /// Signs a person in.
        pub(crate) async fn sign_in(
            &self,
            page: &dyn SignInPage,
            options: &SignInOptions,
        ) -> Result<(), SignInError> {
            let done = self.signed_in(page, options).await;
            let server = self.config.name.clone();
            match &done {
                Ok(()) => {
                    self.emit(McpAuthSuccess { server }).await;
                    self.retry();
                }
                Err(error) => self.emit(McpAuthError { server, error: error.to_string() }).await,
            }
            done
        }

        /// A boxed future, so that it is compiled in this crate instead of in each crate that awaits it.
        fn signed_in<'a>(
            &'a self,
            page: &'a dyn SignInPage,
            options: &'a SignInOptions,
        ) -> BoxFuture<'a, Result<(), SignInError>> {
            Box::pin(async move {
                let name = self.name();
                let (Some(auth), ServerTransport::Http { url, .. }) = (&self.auth, &self.config.transport)
                else {
                    let why = format!("MCP server {name} has its credentials in its settings, or needs none");
                    return Err(SignInError::NotWanted(why));
                };
                if self.sign_ins.fetch_add(1, Ordering::AcqRel) >= MAX_SIGN_INS {
                    let why = format!(
                        "MCP server {name} wants another sign-in after {MAX_SIGN_INS} of them: it is given up"
                    );
                    return Err(SignInError::NotWanted(why));
                }
                let url =
                    reqwest::Url::parse(url).map_err(|error| SignInError::NotWanted(error.to_string()))?;
                let page = Announced { server: self, page };
                sign_in(auth, &url, &self.config.oauth, options, &page).await
            })
        }

        /// Removes the sign-in; returns whether there was one.
        pub(crate) async fn sign_out(&self) -> Result<bool, SignInError> {
            match &self.auth {
                Some(auth) => Ok(auth.forget().await?),
                None => Ok(false),
            }
        }

        /// Whether the server asked for a sign-in, from this program or an earlier one.
        pub(crate) async fn wants_sign_in(&self) -> bool {
            match &self.auth {
                Some(auth) => auth.wants_sign_in().await,
                None => false,
            }
        }

        pub(crate) async fn announce_sign_in(&self) {
            let Some(auth) = &self.auth else { return };
            let scopes = auth.challenge().unwrap_or_default().scopes;
            self.emit(McpAuthRequired { server: self.config.name.clone(), scopes }).await;
        }

        /// Records a successful call.
        pub(crate) fn record_success(&self) {
            self.sign_ins.store(0, Ordering::Release);
        }
    }
}

#[cfg(feature = "http")]
pub(super) use with_http::of;

#[cfg(not(feature = "http"))]
impl Server {
    pub(crate) async fn announce_sign_in(&self) {}

    pub(crate) fn record_success(&self) {}
}
