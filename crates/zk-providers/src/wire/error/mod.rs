//! Errors of requests and their classes, which tables define.

mod body;
mod classify;
mod retry_after;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_auth::AuthError;
use zk_core::model::{ErrorKind, Phase, ProviderError};

use crate::catalogue::errors::advice;

pub(crate) use body::{ErrorBody, quote};
#[cfg(test)]
pub(crate) use classify::of_response;
pub(crate) use classify::{of_partial_response, of_stream};
pub(crate) use retry_after::{retry_after, should_retry};

/// Failure of a request or response without provider and model, as a dialect reports it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct WireError {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) phase: Option<Phase>,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) should_retry: Option<bool>,
    pub(crate) window: Option<u64>,
    pub(crate) hint: Option<String>,
}

impl WireError {
    /// Creates an error of this kind; `message` is shown to people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            phase: None,
            status: None,
            code: None,
            request_id: None,
            retry_after: None,
            should_retry: None,
            window: None,
            hint: None,
        }
    }

    /// Creates the error for a response that violates the protocol.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, message)
    }

    /// Creates the error for a response that ended before its final event `mark`; `started` says whether any
    /// of it came.
    #[must_use]
    pub fn ended_early(started: bool, mark: &str) -> Self {
        if started {
            let message = format!("the response ended without `{mark}`: what arrived is incomplete");
            return Self::malformed(message)
                .retryable()
                .hint("Try again; if it persists, something on the way to the model cuts long answers off");
        }
        Self::malformed("the response ended before it began")
            .retryable()
            .hint("Some servers answer like this when the prompt is too long for them; their log says more")
    }

    /// Creates the error for an error event inside a stream, classified by its names and wording. Supports
    /// the forms `{"error": {…}}` and `{"message": …}` with `code`, `type` or `status`.
    #[must_use]
    pub fn from_event(event: serde_json::Value) -> Self {
        of_stream(ErrorBody::of(event))
    }

    /// Creates the error for a request that cannot be serialised as JSON.
    pub(crate) fn unwritable(error: &serde_json::Error) -> Self {
        Self::new(ErrorKind::Rejected, format!("the request cannot be written: {error}"))
    }

    pub(crate) fn aborted() -> Self {
        Self::new(ErrorKind::Aborted, "the run was stopped")
    }

    /// Marks the error as retryable, unless the provider stated whether it is.
    pub(crate) fn retryable(self) -> Self {
        Self { should_retry: self.should_retry.or(Some(true)), ..self }
    }

    pub(crate) fn at(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets the hint on what to do about the error.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the hint for a server on the person's own machine, whose window can be enlarged.
    pub(crate) fn with_local_hint(self) -> Self {
        let is_usual = self.hint.is_none() || self.hint.as_deref() == advice::WINDOW;
        match advice::OWN_WINDOW.filter(|_| is_usual && self.kind == ErrorKind::ContextExceeded) {
            Some(advice) => self.hint(advice),
            None => self,
        }
    }

    /// Adds the hint for a request without a key.
    pub(crate) fn with_missing_key_hint(self) -> Self {
        let is_usual = self.hint.is_none() || self.hint.as_deref() == advice::KEY;
        match advice::NO_KEY.filter(|_| is_usual && self.kind == ErrorKind::Auth) {
            Some(advice) => Self { code: Some(ProviderError::NO_KEY.to_owned()), ..self }.hint(advice),
            None => self,
        }
    }

    pub(crate) fn never_retry(mut self) -> Self {
        self.should_retry = Some(false);
        self
    }
}

impl From<AuthError> for WireError {
    fn from(error: AuthError) -> Self {
        let code = error.wants_sign_in().then(|| ProviderError::NOT_SIGNED_IN.to_owned());
        Self { code, ..Self::new(error.kind(), error.to_string()) }
    }
}

/// Provider, model and progress of a request, which convert a [`WireError`] to a [`ProviderError`].
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) started: Instant,
    pub(crate) phase: Phase,
    pub(crate) request_id: Option<String>,
}

impl RequestContext {
    pub(crate) fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            started: Instant::now(),
            phase: Phase::Request,
            request_id: None,
        }
    }

    pub(crate) fn error(&self, error: WireError) -> ProviderError {
        let phase = error.phase.unwrap_or(self.phase);
        let hint = error.hint.or_else(|| {
            let is_unknown = error.code.as_deref() == Some("model_not_found") || error.status == Some(404);
            if is_unknown {
                let near =
                    crate::catalogue::models::did_you_mean(&self.provider, &self.model, SystemTime::now());
                return near
                    .or_else(|| Some("Check the name of the model, and that it is served here".to_owned()));
            }
            // An error before sending has its own hint.
            advice::of_kind(error.kind).filter(|_| phase != Phase::Request).map(str::to_owned)
        });
        ProviderError {
            status: error.status,
            code: error.code.as_deref().map(quote),
            request_id: error.request_id.as_deref().or(self.request_id.as_deref()).map(quote),
            elapsed: self.started.elapsed(),
            attempts: 1,
            retry_after: error.retry_after,
            should_retry: error.should_retry,
            window: error.window,
            hint,
            ..ProviderError::new(
                error.kind,
                &*self.provider,
                &*self.model,
                phase,
                body::sanitise(&error.message),
            )
        }
    }
}
