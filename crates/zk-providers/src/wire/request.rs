//! What is sent to a server.

use std::borrow::Cow;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::wire::endpoint::SetupError;
use crate::wire::error::WireError;

/// Headers of a request, beside those of the connection.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header; blanks around the value are left out.
    ///
    /// # Errors
    /// [`SetupError::Header`] when the name or the value holds illegal characters.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), SetupError> {
        let illegal = || SetupError::Header { name: name.to_owned() };
        let key = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| illegal())?;
        self.0.push((key, HeaderValue::from_str(value.trim()).map_err(|_| illegal())?));
        Ok(())
    }

    /// The same without the beta features that the server's `message` names as ones it does not know. Nothing where it
    /// names none of them: another header would not help then, and a sign-in may need one.
    pub(crate) fn without_refused_betas(&self, message: &str) -> Option<Self> {
        let is_it = |name: &HeaderName| name.as_str().ends_with("-beta") && message.contains(name.as_str());
        let mut is_refused = false;
        let mut fewer = Self::default();
        for (name, value) in &self.0 {
            let betas: Vec<&str> = value.to_str().unwrap_or_default().split(',').collect();
            let left: Vec<&str> =
                betas.iter().copied().filter(|beta| !message.contains(beta.trim())).collect();
            if !is_it(name) || left.len() == betas.len() {
                fewer.0.push((name.clone(), value.clone()));
                continue;
            }
            is_refused = true;
            if !left.is_empty()
                && let Ok(value) = HeaderValue::from_str(&left.join(","))
            {
                fewer.0.push((name.clone(), value));
            }
        }
        is_refused.then_some(fewer)
    }

    /// The headers, for the HTTP client.
    pub(crate) fn into_pairs(self) -> Vec<(HeaderName, HeaderValue)> {
        self.0
    }
}

/// One HTTP request: a POST with a JSON body, or a GET without one.
#[derive(Clone, Debug)]
pub struct WireRequest {
    /// The path below the base URL, with a query if there is one: `/chat/completions`.
    pub path: Cow<'static, str>,
    /// Headers of this request alone.
    pub headers: Headers,
    /// The JSON document.
    pub body: Option<Bytes>,
}

impl WireRequest {
    /// A request without a body.
    #[must_use]
    pub fn get(path: impl Into<Cow<'static, str>>) -> Self {
        Self { path: path.into(), headers: Headers::new(), body: None }
    }

    /// A request with a body that is JSON already, such as one that `ApiClient::body`
    /// wrote.
    #[must_use]
    pub fn post(path: impl Into<Cow<'static, str>>, body: Bytes) -> Self {
        Self { path: path.into(), headers: Headers::new(), body: Some(body) }
    }

    /// A request whose body is `value`, written as JSON.
    ///
    /// # Errors
    /// [`WireError`] when the value cannot be written.
    pub fn json(path: impl Into<Cow<'static, str>>, value: &impl Serialize) -> Result<Self, WireError> {
        let body = serde_json::to_vec(value).map_err(|error| WireError::unwritable(&error))?;
        Ok(Self::post(path, Bytes::from(body)))
    }

    /// The same with these headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }
}
