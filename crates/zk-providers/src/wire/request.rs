//! An HTTP request to a server.

use std::borrow::Cow;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::wire::endpoint::SetupError;
use crate::wire::error::WireError;

/// Headers of a request, besides those of the connection.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Creates an empty list of headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header, without blanks around the value.
    ///
    /// # Errors
    /// [`SetupError::Header`] when the name or the value has illegal characters.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), SetupError> {
        let illegal = || SetupError::Header { name: name.to_owned() };
        let key = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| illegal())?;
        self.0.push((key, HeaderValue::from_str(value.trim()).map_err(|_| illegal())?));
        Ok(())
    }

    /// Returns the beta features that the server's error message names as unknown. Empty if the message does
    /// not mention the header, since removing features would not help then, and a sign-in may require one.
    pub(crate) fn refused_betas(&self, message: &str) -> Vec<Beta> {
        let headers = self.0.iter().filter(|(name, _)| is_beta(name) && message.contains(name.as_str()));
        let betas = headers.flat_map(|(name, value)| {
            let betas = value.to_str().unwrap_or_default().split(',').map(str::trim);
            betas.map(|beta| Beta { header: name.clone(), name: beta.to_owned() })
        });
        // Whole words only, since one name may be a prefix of another.
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
        let words: Vec<&str> =
            message.split(|c| !is_part(c)).map(|word| word.trim_end_matches('.')).collect();
        betas.filter(|beta| !beta.name.is_empty() && words.contains(&&*beta.name)).collect()
    }

    /// Removes these beta features.
    pub(crate) fn without_betas(self, left_out: &[Beta]) -> Self {
        if left_out.is_empty() {
            return self;
        }
        let is_left_out = |header: &HeaderName, name: &str| {
            left_out.iter().any(|beta| beta.header == *header && beta.name == name.trim())
        };
        let fewer = self.0.into_iter().filter_map(|(header, value)| {
            let betas: Vec<&str> = value.to_str().unwrap_or_default().split(',').collect();
            let left: Vec<&str> = betas.iter().copied().filter(|beta| !is_left_out(&header, beta)).collect();
            if left.len() == betas.len() {
                return Some((header, value));
            }
            let value = HeaderValue::from_str(&left.join(",")).ok().filter(|_| !left.is_empty())?;
            Some((header, value))
        });
        Self(fewer.collect())
    }

    /// Returns the headers for the HTTP client.
    pub(crate) fn into_pairs(self) -> Vec<(HeaderName, HeaderValue)> {
        self.0
    }
}

fn is_beta(name: &HeaderName) -> bool {
    name.as_str().ends_with("-beta")
}

/// A beta feature that a header requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beta {
    header: HeaderName,
    pub(crate) name: String,
}

/// An HTTP request: a POST with a JSON body, or a GET without one.
#[derive(Clone, Debug)]
pub struct WireRequest {
    /// Path below the base URL, with a query if necessary: `/chat/completions`.
    pub path: Cow<'static, str>,
    /// Headers of this request only.
    pub headers: Headers,
    /// JSON document, if the request has a body.
    pub body: Option<Bytes>,
}

impl WireRequest {
    /// Creates a request without a body.
    #[must_use]
    pub fn get(path: impl Into<Cow<'static, str>>) -> Self {
        Self { path: path.into(), headers: Headers::new(), body: None }
    }

    /// Creates a request with a body that is already JSON, such as one written by `ApiClient::body`.
    #[must_use]
    pub fn post(path: impl Into<Cow<'static, str>>, body: Bytes) -> Self {
        Self { path: path.into(), headers: Headers::new(), body: Some(body) }
    }

    /// Creates a request with `value` serialised as its body.
    ///
    /// # Errors
    /// [`WireError`] when the value cannot be serialised.
    pub fn json(path: impl Into<Cow<'static, str>>, value: &impl Serialize) -> Result<Self, WireError> {
        let body = serde_json::to_vec(value).map_err(|error| WireError::unwritable(&error))?;
        Ok(Self::post(path, Bytes::from(body)))
    }

    /// Sets the headers.
    #[must_use]
    pub fn with_headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }
}
