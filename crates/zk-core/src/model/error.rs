use std::fmt;
use std::time::{Duration, SystemTime};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Budget, EntryId, RunId, Spent, utc_time};
use crate::kernel::EmitError;

/// Class of a provider error, for callers to match on instead of on text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests; a retry after a wait may succeed.
    Rate,
    /// No credit, or the plan is used up; waiting does not help.
    Quota,
    /// The provider is overloaded or failing; a retry after a wait may succeed.
    Overloaded,
    /// The request does not fit the model's window.
    ContextExceeded,
    /// The key is missing, wrong or not allowed.
    Auth,
    /// The provider could not be reached or the connection broke.
    Transport,
    /// No data, or no progress, within the time limit.
    Stalled,
    /// The response violates the provider's protocol, or ended early.
    Malformed,
    /// The provider rejects the request; a retry does not help.
    Rejected,
    /// The model or a filter refused to answer.
    Refused,
    /// The run was stopped.
    Aborted,
}

impl ErrorKind {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Rate | Self::Overloaded | Self::Transport | Self::Stalled => true,
            Self::Quota
            | Self::ContextExceeded
            | Self::Auth
            | Self::Malformed
            | Self::Rejected
            | Self::Refused
            | Self::Aborted => false,
        }
    }

    /// Returns a name of the class in words, for messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate limited",
            Self::Quota => "quota exhausted",
            Self::Overloaded => "overloaded",
            Self::ContextExceeded => "context window exceeded",
            Self::Auth => "not authorised",
            Self::Transport => "connection failed",
            Self::Stalled => "stalled",
            Self::Malformed => "malformed response",
            Self::Rejected => "request rejected",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
        }
    }
}

/// Phase that a request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Building the request.
    Request,
    /// Connecting and sending.
    Connect,
    /// Waiting for the response head.
    Response,
    /// Waiting for the first event of the stream.
    FirstEvent,
    /// In the middle of the stream.
    Stream,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "building the request",
            Self::Connect => "connecting",
            Self::Response => "waiting for the response",
            Self::FirstEvent => "waiting for the first event",
            Self::Stream => "in the stream",
        })
    }
}

/// Failed request to a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderError {
    /// Class of the error.
    pub kind: ErrorKind,
    /// Name of the provider.
    pub provider: String,
    /// Id of the requested model.
    pub model: String,
    /// Phase that the request had reached.
    pub phase: Phase,
    /// Description of the failure, free of secrets.
    pub message: String,
    /// HTTP status of the response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Error code or type that the provider gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Request id that the provider assigned, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Time since the request was started; with retries, since the first attempt.
    #[serde(rename = "elapsed_ms", with = "super::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub elapsed: Duration,
    /// Number of times that the request was sent.
    #[serde(default = "one_attempt", skip_serializing_if = "is_one_attempt")]
    pub attempts: u32,
    /// Wait that the provider asks for before a retry.
    #[serde(
        rename = "retry_after_ms",
        with = "super::millis::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub retry_after: Option<Duration>,
    /// The provider's own statement about retrying, which overrides the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// Size of the model's window in tokens, if the error reports an overflow with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Advice for a person on what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

fn one_attempt() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_one_attempt(attempts: &u32) -> bool {
    *attempts == 1
}

impl ProviderError {
    /// Creates an error without details.
    pub fn new(
        kind: ErrorKind,
        provider: impl Into<String>,
        model: impl Into<String>,
        phase: Phase,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            provider: provider.into(),
            model: model.into(),
            phase,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            elapsed: Duration::ZERO,
            attempts: one_attempt(),
            retry_after: None,
            should_retry: None,
            window: None,
            hint: None,
        }
    }

    /// Whether the provider rejected the API key of the request, so that another key may help.
    #[must_use]
    pub fn rejects_key(&self) -> bool {
        let is_other =
            matches!(self.code.as_deref(), Some(Self::NO_KEY | Self::SIGN_IN | Self::NOT_SIGNED_IN));
        self.kind == ErrorKind::Auth && self.status == Some(401) && !is_other
    }

    /// Error code for a provider that requires an API key and was sent none.
    pub const NO_KEY: &str = "no_key_sent";
    /// Error code for a provider that rejected the token of a sign-in.
    pub const SIGN_IN: &str = "sign_in_rejected";
    /// Error code for a request that was not sent because the person is not signed in, or no longer.
    pub const NOT_SIGNED_IN: &str = "not_signed_in";

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or_else(|| self.kind.is_retryable())
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.model.as_str() {
            // Placeholder of an error that concerns no single model.
            "*" => write!(f, "{}: {}", self.provider, self.kind.as_str())?,
            model => write!(f, "{}/{model}: {}", self.provider, self.kind.as_str())?,
        }
        if let Some(status) = self.status {
            write!(f, " (HTTP {status}")?;
            if let Some(code) = self.code.as_ref().filter(|code| **code != status.to_string()) {
                write!(f, ", {code}")?;
            }
            f.write_str(")")?;
        } else if let Some(code) = &self.code {
            write!(f, " ({code})")?;
        }
        write!(f, " while {}", self.phase)?;
        match self.elapsed {
            Duration::ZERO => {}
            short if short < Duration::from_secs(1) => write!(f, " after {} ms", short.as_millis().max(1))?,
            long => write!(f, " after {:.1} s", long.as_secs_f64())?,
        }
        if self.attempts > 1 {
            write!(f, " and {} attempts", self.attempts)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(id) = &self.request_id {
            write!(f, " [request {id}]")?;
        }
        if let Some(hint) = &self.hint {
            let is_sentence = self.request_id.is_none() && self.message.ends_with(['.', '!', '?', '…']);
            write!(f, "{} {hint}", if is_sentence { "" } else { "." })?;
        }
        Ok(())
    }
}

impl std::error::Error for ProviderError {}

/// Cause of a run that failed or was stopped.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The history exceeds the model's window.
    #[error("{0}")]
    ContextExceeded(ProviderError),
    /// A request to the provider failed.
    #[error("{0}")]
    Provider(ProviderError),
    /// The run was stopped. Any other error of a stopped run is replaced by this one.
    #[error("the run was stopped")]
    Aborted,
    /// A handler failed whose failure has to stop the turn, normally the session store.
    #[error("{0}")]
    Hook(#[from] EmitError),
    /// The run reached its limit of turns.
    #[error(
        "stopped after {turns} turn{}, the limit of this run; raise the limit, or continue the session",
        if *turns == 1 { "" } else { "s" }
    )]
    TurnLimit {
        /// Maximum number of turns that the run may have.
        turns: u32,
    },
    /// The rest of a run's or agent's budget cannot pay the next request.
    #[error("stopped: {}; raise the budget, or continue the session", budget.describe_shortage(*spent, *wanted))]
    Budget {
        /// Budget that was reached.
        budget: Budget,
        /// Amount spent so far, sub-agents included.
        spent: Spent,
        /// Upper bound of the next request's cost.
        wanted: Spent,
    },
    /// A parked call waits for a person who is not present. The conversation can be resumed.
    #[error("`{tool}` waits for an answer: {reason}")]
    Parked {
        /// Canonical name of the tool.
        tool: String,
        /// Reason for the wait.
        reason: String,
        /// Entry of the question whose answer the run goes on with, in a leg. The turn is open then.
        question: Option<EntryId>,
    },
    /// A parked call waits for a time, at which another leg goes on with it.
    #[error("`{tool}` waits until {}: {reason}", utc_time(*until))]
    AwaitsTime {
        /// Canonical name of the tool.
        tool: String,
        /// Reason for the wait.
        reason: String,
        /// Time at which the wait is over.
        until: SystemTime,
    },
    /// The leg ended because its worker is to end; another leg goes on with the run.
    #[error("the run was handed over: another worker goes on with it")]
    HandedOver,
    /// The model is done, and child runs of its run are not: another leg goes on with their results.
    #[error("the run waits for {} of its own", match children.len() { 0 => "news of runs".to_owned(), 1 => "a run".to_owned(), count => format!("{count} runs") })]
    AwaitsChildren {
        /// Ids of the children that have not ended; none if the engine could not be asked about them.
        children: Vec<RunId>,
    },
    /// Another worker has the session under a newer lease, so this one wrote nothing more.
    #[error(
        "the session was taken over by another writer, so nothing more was written here; open it again to go on"
    )]
    Fenced,
    /// The store of the session failed for a cause that may pass, and the leg ended: another leg goes on with what is stored.
    #[error("{error}; another leg goes on with what is stored")]
    StoreFailed {
        /// Error of the store.
        error: String,
    },
    /// The model repeated a call that failed each time in the same way.
    #[error(
        "stopped: the same call of `{tool}` failed {failures} times in a row in the same way; the last result is in the history"
    )]
    Stuck {
        /// Canonical name of the tool.
        tool: String,
        /// Number of failures in a row.
        failures: u32,
    },
    /// A tool may do more than read, and no gate decides about its calls: there is no
    /// [`CallGuard`](crate::service::CallGuard), and the agent was not built unguarded.
    #[error(
        "tool `{tool}` may do more than read, and no gate is here to decide on its calls: install one, such as `PermissionGate`, or build the agent with `.unguarded()`, and nobody is asked"
    )]
    Unguarded {
        /// Canonical name of the tool.
        tool: String,
    },
    /// The caller used the agent in an unsupported way.
    #[error("{0}")]
    Usage(String),
    /// The model did not give the requested structured output.
    #[error("no structured output: {0}")]
    Output(String),
}

impl From<ProviderError> for AgentError {
    fn from(error: ProviderError) -> Self {
        match error.kind {
            ErrorKind::ContextExceeded => Self::ContextExceeded(error),
            ErrorKind::Aborted => Self::Aborted,
            ErrorKind::Rate
            | ErrorKind::Quota
            | ErrorKind::Overloaded
            | ErrorKind::Auth
            | ErrorKind::Transport
            | ErrorKind::Stalled
            | ErrorKind::Malformed
            | ErrorKind::Rejected
            | ErrorKind::Refused => Self::Provider(error),
        }
    }
}

impl AgentError {
    /// Whether the same run may succeed later without any change.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.provider().is_some_and(ProviderError::is_retryable)
    }

    /// Returns the provider's error that caused this one, if any.
    #[must_use]
    pub fn provider(&self) -> Option<&ProviderError> {
        match self {
            Self::ContextExceeded(error) | Self::Provider(error) => Some(error),
            Self::Aborted
            | Self::Hook(_)
            | Self::TurnLimit { .. }
            | Self::Budget { .. }
            | Self::Parked { .. }
            | Self::AwaitsTime { .. }
            | Self::HandedOver
            | Self::AwaitsChildren { .. }
            | Self::Fenced
            | Self::StoreFailed { .. }
            | Self::Stuck { .. }
            | Self::Unguarded { .. }
            | Self::Usage(_)
            | Self::Output(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> ProviderError {
        let error = ProviderError::new(ErrorKind::Quota, "openrouter", "m", Phase::Response, message);
        ProviderError { status: Some(402), hint: Some("Check the credit".into()), ..error }
    }

    #[test]
    fn the_hint_follows_as_a_sentence() {
        let start = "openrouter/m: quota exhausted (HTTP 402) while waiting for the response: ";
        for (message, id, rest) in [
            ("no credit", None, "no credit. Check the credit"),
            ("No credit.", None, "No credit. Check the credit"),
            ("No credit.", Some("r1"), "No credit. [request r1]. Check the credit"),
        ] {
            let error = ProviderError { request_id: id.map(str::to_owned), ..error(message) };
            assert_eq!(error.to_string(), format!("{start}{rest}"));
        }
    }

    #[test]
    fn an_error_is_transient_if_waiting_may_help() {
        let of = |kind| AgentError::from(ProviderError { kind, ..error("x") });
        for kind in [ErrorKind::Rate, ErrorKind::Overloaded, ErrorKind::Transport, ErrorKind::Stalled] {
            assert!(of(kind).is_transient(), "{kind:?}");
        }
        for kind in [ErrorKind::Quota, ErrorKind::ContextExceeded, ErrorKind::Auth, ErrorKind::Aborted] {
            assert!(!of(kind).is_transient(), "{kind:?}");
        }
        assert!(!AgentError::TurnLimit { turns: 3 }.is_transient());
        // The provider's own word outranks the class.
        let said = ProviderError { should_retry: Some(true), ..error("x") };
        assert!(AgentError::from(said).is_transient());
    }

    #[test]
    fn elapsed_time_is_shown_in_a_fitting_unit() {
        for (elapsed, told) in [
            (Duration::from_micros(3), "response after 1 ms: x"),
            (Duration::from_millis(250), "response after 250 ms: x"),
            (Duration::from_millis(61_240), "response after 61.2 s: x"),
        ] {
            let error = ProviderError { elapsed, ..error("x") }.to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_key_that_was_not_sent_is_not_rejected() {
        let error = ProviderError { kind: ErrorKind::Auth, status: Some(401), ..error("no") };
        assert!(error.rejects_key());
        for code in [ProviderError::NO_KEY, ProviderError::SIGN_IN] {
            assert!(!ProviderError { code: Some(code.into()), ..error.clone() }.rejects_key());
        }
        assert!(!ProviderError { status: Some(403), ..error }.rejects_key());
    }

    #[test]
    fn an_error_code_equal_to_the_status_is_shown_once() {
        let coded = |code: &str| ProviderError { code: Some(code.into()), ..error("x") }.to_string();
        assert!(coded("402").contains("(HTTP 402) "));
        assert!(coded("billing_error").contains("(HTTP 402, billing_error) "));
    }
}
