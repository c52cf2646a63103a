//! Version and beta headers, and the form of the credential.

use secrecy::ExposeSecret;
use zk_auth::Secret;

use super::{AnthropicOptions, context};
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;
use crate::wire::request::Headers;
use crate::wire::secret::Auth;

const VERSION: &str = "anthropic-version";
const BETA: &str = "anthropic-beta";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";
const SUBSCRIPTION: &str = "oauth-2025-04-20";
/// The first API version without sampling parameters.
const FIRST_WITHOUT_SAMPLING: &str = "2026-10-21";
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

/// Version and beta headers of requests.
#[derive(Debug)]
pub(super) struct ApiHeaders {
    usual: Headers,
    /// Headers for models that think between calls only with a beta feature.
    interleaved: Headers,
}

impl ApiHeaders {
    /// Prepares the headers from `options` and `connection`. The connection's own version and beta headers
    /// are merged in and removed there, and a sign-in token given as a key becomes a bearer token.
    ///
    /// # Errors
    /// [`SetupError`] when a header is invalid, or a setting does not fit the version.
    pub(super) fn prepare(
        connection: &mut Connection,
        options: &AnthropicOptions,
    ) -> Result<Self, SetupError> {
        let mut version = options.version.clone();
        let mut betas = options.betas.clone();
        // Merged because a second header of the same name would be ignored.
        connection.extra_headers.retain(|(name, value)| match name.to_ascii_lowercase().as_str() {
            BETA => {
                betas.extend(value.split(',').map(|beta| beta.trim().to_owned()));
                false
            }
            VERSION => {
                version.clone_from(value);
                false
            }
            _ => true,
        });
        // Versions are dates and sort as text.
        if let Some(field) = SAMPLING.iter().find(|field| connection.extra_body.contains_key(**field))
            && &*version >= FIRST_WITHOUT_SAMPLING
        {
            let reason =
                format!("`{field}` in the extra body is an error from version {FIRST_WITHOUT_SAMPLING} on");
            return Err(SetupError::Options { name: connection.name.clone(), reason });
        }
        betas.extend(context::betas(options, &connection.name)?);
        connection.auth = as_bearer_token(std::mem::replace(&mut connection.auth, Auth::None));
        if is_subscription(&connection.auth) {
            betas.push(SUBSCRIPTION.to_owned());
        }
        let mut seen = Vec::new();
        betas.retain(|beta| {
            !beta.is_empty() && !seen.contains(beta) && {
                seen.push(beta.clone());
                true
            }
        });
        let usual = api_headers(&version, &betas)?;
        if !betas.iter().any(|beta| beta == INTERLEAVED) {
            betas.push(INTERLEAVED.to_owned());
        }
        Ok(Self { usual, interleaved: api_headers(&version, &betas)? })
    }

    /// Returns the headers of a request; `interleaves` adds the beta feature for thinking between calls.
    pub(super) fn of(&self, interleaves: bool) -> Headers {
        if interleaves { self.interleaved.clone() } else { self.usual.clone() }
    }
}

fn api_headers(version: &str, betas: &[String]) -> Result<Headers, SetupError> {
    let mut headers = Headers::new();
    headers.insert(VERSION, version)?;
    if !betas.is_empty() {
        headers.insert(BETA, &betas.join(","))?;
    }
    Ok(headers)
}

/// Sends a sign-in token that was given as a key as a bearer token, because the API rejects it as a key.
fn as_bearer_token(auth: Auth) -> Auth {
    match auth {
        Auth::Key(key) if is_token(&key) => Auth::Bearer(key),
        auth => auth,
    }
}

fn is_token(secret: &Secret) -> bool {
    secret.expose_secret().trim().starts_with("sk-ant-oat")
}

/// Whether the credential is a sign-in token, which requires a beta feature.
fn is_subscription(auth: &Auth) -> bool {
    match auth {
        Auth::Bearer(token) => is_token(token),
        Auth::Source(_) => true,
        Auth::None | Auth::Key(_) | Auth::Header { .. } => false,
    }
}
