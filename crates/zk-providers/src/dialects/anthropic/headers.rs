//! The version and the betas that requests name, and how a key is shown.

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
/// The first version without sampling parameters, and what they are.
const UNSAMPLED: &str = "2026-10-21";
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

/// The version and beta headers of requests.
#[derive(Debug)]
pub(super) struct ApiHeaders {
    usual: Headers,
    /// Headers for models that think between their calls only if they are told that they may.
    interleaved: Headers,
}

impl ApiHeaders {
    /// The headers that `options` and `connection` ask for. What they say is taken out of the connection, and
    /// the token of a sign-in becomes the token it is.
    ///
    /// # Errors
    /// [`SetupError`] when a header cannot be sent, or a setting does not go with the version.
    pub(super) fn prepare(
        connection: &mut Connection,
        options: &AnthropicOptions,
    ) -> Result<Self, SetupError> {
        let mut version = options.version.clone();
        let mut betas = options.betas.clone();
        // These two are lists and values of zk's own too; sent twice, one of them would be lost.
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
        // Versions are dates: the later one is the greater text.
        if let Some(field) = SAMPLING.iter().find(|field| connection.extra_body.contains_key(**field))
            && &*version >= UNSAMPLED
        {
            let reason = format!("`{field}` in the extra body is an error from version {UNSAMPLED} on");
            return Err(SetupError::Options { name: connection.name.clone(), reason });
        }
        betas.extend(context::betas(options, &connection.name)?);
        connection.auth = as_token(std::mem::replace(&mut connection.auth, Auth::None));
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
        let usual = joined(&version, &betas)?;
        if !betas.iter().any(|beta| beta == INTERLEAVED) {
            betas.push(INTERLEAVED.to_owned());
        }
        Ok(Self { usual, interleaved: joined(&version, &betas)? })
    }

    /// The headers of a request; `interleaves` says that its model has to be told that it may think between calls.
    pub(super) fn of(&self, interleaves: bool) -> Headers {
        if interleaves { self.interleaved.clone() } else { self.usual.clone() }
    }
}

fn joined(version: &str, betas: &[String]) -> Result<Headers, SetupError> {
    let mut headers = Headers::new();
    headers.insert(VERSION, version)?;
    if !betas.is_empty() {
        headers.insert(BETA, &betas.join(","))?;
    }
    Ok(headers)
}

/// The token of a sign-in as the token it is, wherever a key was wanted: as a key it is refused.
fn as_token(auth: Auth) -> Auth {
    match auth {
        Auth::Key(key) if is_token(&key) => Auth::Bearer(key),
        auth => auth,
    }
}

fn is_token(secret: &Secret) -> bool {
    secret.expose_secret().trim().starts_with("sk-ant-oat")
}

/// Tokens of a sign-in need a beta of their own.
fn is_subscription(auth: &Auth) -> bool {
    match auth {
        Auth::Bearer(token) => is_token(token),
        Auth::Source(_) => true,
        Auth::None | Auth::Key(_) | Auth::Header { .. } => false,
    }
}
