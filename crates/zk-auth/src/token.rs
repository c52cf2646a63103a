//! Requests to a token endpoint.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::time::timeout;
use zk_core::service::Redactor;

use super::client::{ClientAuth, OAuthClient, TokenBody};
use super::{AuthError, OAuthTokens, jwt};
use crate::Secret;
use crate::http::{Http, HttpError, Received, read_up_to_limit, root_cause};

/// Size limit of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 256 << 10;
/// Maximum length of a quote of a server's text, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Token endpoint of a client.
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) client: &'a OAuthClient,
    pub(crate) http: &'a Http,
    pub(crate) limit: Duration,
}

/// Grant in exchange for tokens.
pub(crate) enum Grant<'a> {
    Code { code: &'a Secret, verifier: &'a Secret, state: &'a Secret, redirect: &'a str },
    Refresh { tokens: &'a OAuthTokens, refresh: &'a Secret },
}

impl TokenEndpoint<'_> {
    /// Sends one request for tokens.
    pub(crate) async fn request_tokens(&self, grant: &Grant<'_>) -> Result<OAuthTokens, AuthError> {
        let url = self.client.token_url()?;
        let fields = self.form_fields(grant);
        let answer = timeout(self.limit, self.send_fields(&url, &fields)).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", self.limit.as_secs_f32());
            Err(AuthError::Unavailable { place: origin_of(&url), reason })
        });
        let (status, kind, body) = answer?;
        let body = serde_json::from_slice::<Value>(&body).ok();
        if !status.is_success() {
            return Err(self.refusal_error(&url, status, body.as_ref(), grant));
        }
        let malformed = |reason: String| AuthError::Malformed { place: origin_of(&url), reason };
        let Some(Value::Object(answer)) = body else {
            return Err(malformed(format!("no JSON object but `{kind}`")));
        };
        self.parse_tokens(&answer, grant).map_err(malformed)
    }

    fn form_fields<'a>(&'a self, grant: &Grant<'a>) -> Vec<(&'static str, &'a str)> {
        let mut fields = match &self.client.auth {
            ClientAuth::None => vec![("client_id", self.client.client_id.as_str())],
            // The header contains the client's credentials.
            ClientAuth::Basic(_) => Vec::new(),
            ClientAuth::Post(secret) => {
                vec![("client_id", self.client.client_id.as_str()), ("client_secret", secret.reveal())]
            }
        };
        match grant {
            Grant::Code { code, verifier, state, redirect } => {
                fields.push(("grant_type", "authorization_code"));
                fields.push(("code", code.expose_secret()));
                fields.push(("code_verifier", verifier.expose_secret()));
                fields.push(("redirect_uri", redirect));
                if self.client.token_body == TokenBody::Json {
                    // Servers with JSON deviate from the standard and expect the state here, too.
                    fields.push(("state", state.expose_secret()));
                }
            }
            Grant::Refresh { refresh, .. } => {
                fields.push(("grant_type", "refresh_token"));
                fields.push(("refresh_token", refresh.expose_secret()));
            }
        }
        fields.extend(self.client.resource.as_deref().map(|resource| ("resource", resource)));
        fields
    }

    async fn send_fields(
        &self,
        url: &Url,
        fields: &[(&'static str, &str)],
    ) -> Result<(StatusCode, String, Vec<u8>), AuthError> {
        let unavailable = |error: &reqwest::Error| AuthError::Unavailable {
            place: origin_of(url),
            reason: root_cause(error),
        };
        let (kind, body) = match self.client.token_body {
            TokenBody::Form => ("application/x-www-form-urlencoded", encode_form(fields)),
            TokenBody::Json => {
                let fields: Map<String, Value> =
                    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
                ("application/json", Value::Object(fields).to_string())
            }
        };
        let no_client =
            |error: HttpError| AuthError::Unavailable { place: origin_of(url), reason: error.to_string() };
        let client = self.http.client(url).map_err(no_client)?;
        let request = client.post(url.clone()).header(CONTENT_TYPE, kind).header(ACCEPT, "application/json");
        let request = match &self.client.auth {
            ClientAuth::Basic(secret) => {
                request.basic_auth(form_text(&self.client.client_id), Some(form_text(secret.reveal())))
            }
            ClientAuth::None | ClientAuth::Post(_) => request,
        };
        let response = request.body(body).send().await.map_err(|error| unavailable(&error))?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = sanitise(kind.unwrap_or("something without a type"));
        let mut body = Received::default();
        read_up_to_limit(response, MAX_RESPONSE_BYTES, &mut body).await;
        Ok((status, kind, body.bytes))
    }

    fn parse_tokens(&self, answer: &Map<String, Value>, grant: &Grant<'_>) -> Result<OAuthTokens, String> {
        let text = |field: &str| answer.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let access = text("access_token").ok_or("it has no `access_token`")?;
        if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err("its `token_type` is not `Bearer`".to_owned());
        }
        let before = match grant {
            Grant::Code { .. } => None,
            Grant::Refresh { tokens, .. } => Some(*tokens),
        };
        let claims = jwt::claims(access);
        let id_claims = text("id_token").and_then(jwt::claims);
        let path = &self.client.account_claim;
        let account = [&claims, &id_claims].into_iter().flatten().find_map(|all| jwt::text_at(all, path));
        let ends = claims.as_ref().and_then(|claims| claims.get("exp")?.as_u64()).map(Duration::from_secs);
        let expires_at = match answer.get("expires_in").and_then(seconds) {
            Some(seconds) => SystemTime::now().checked_add(seconds),
            None => ends.and_then(|end| UNIX_EPOCH.checked_add(end)),
        };
        Ok(OAuthTokens {
            access: access.into(),
            // Without rotation, the server does not repeat the refresh token.
            refresh: text("refresh_token")
                .map(Secret::from)
                .or_else(|| before.and_then(|before| before.refresh.clone())),
            expires_at,
            account: account.or_else(|| before.and_then(|before| before.account.clone())),
            issuer: self.client.issuer(),
        })
    }

    /// Error for a response with an error status. Only an explicit refusal ends the sign-in.
    fn refusal_error(
        &self,
        url: &Url,
        status: StatusCode,
        body: Option<&Value>,
        grant: &Grant<'_>,
    ) -> AuthError {
        let text = |field: &str| body.and_then(|body| body.get(field)).and_then(Value::as_str);
        let reason = match (text("error"), text("error_description")) {
            (Some(code), Some(words)) => format!("HTTP {}, {code}: {words}", status.as_u16()),
            (Some(code), None) => format!("HTTP {}, {code}", status.as_u16()),
            (None, _) => format!("HTTP {}", status.as_u16()),
        };
        // In this order, since cutting first could leave half of a secret.
        let reason = sanitise(&grant.redact(&reason, &self.client.auth));
        let place = origin_of(url);
        let busy = matches!(text("error"), Some("temporarily_unavailable" | "slow_down" | "server_error"));
        let understood = matches!(status.as_u16(), 400 | 401 | 403);
        if understood && !busy {
            AuthError::Refused { name: self.client.name.clone(), place, reason }
        } else {
            AuthError::Unavailable { place, reason }
        }
    }
}

impl Grant<'_> {
    /// Removes the secrets of the request from a text, since some servers quote the request.
    fn redact(&self, text: &str, auth: &ClientAuth) -> String {
        let secrets = match self {
            Self::Code { code, verifier, state, .. } => vec![*code, *verifier, *state],
            Self::Refresh { tokens, refresh } => vec![&tokens.access, *refresh],
        };
        let redactor = Redactor::new();
        secrets.iter().for_each(|secret| redactor.learn_key(secret.expose_secret()));
        match auth {
            ClientAuth::None => {}
            ClientAuth::Basic(secret) | ClientAuth::Post(secret) => redactor.learn_key(secret.reveal()),
        }
        redactor.redact(text).into_owned()
    }
}

/// Encodes fields as a form.
fn encode_form(fields: &[(&str, &str)]) -> String {
    // Uses the form encoder of the `url` crate.
    Url::parse_with_params("http://form", fields)
        .ok()
        .and_then(|url| url.query().map(str::to_owned))
        .unwrap_or_default()
}

/// Encodes a text as part of a form, as a client's id and secret in the header have to be (RFC 6749, 2.3.1).
fn form_text(text: &str) -> String {
    encode_form(&[("", text)]).split_off(1)
}

/// Parses a duration in seconds; some servers send it as text.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Origin of the server, for messages.
fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Shortens a foreign text and makes it safe to print.
pub(crate) fn sanitise(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTED_CHARS).collect()
}
