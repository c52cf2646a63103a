use std::fmt;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Budget, Spent};
use crate::kernel::EmitError;

/// Classes of provider errors. Match on these, never on text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests; waiting helps.
    Rate,
    /// No money, or the plan is used up; waiting does not help.
    Quota,
    /// The provider is overloaded or failing; waiting helps.
    Overloaded,
    /// The request does not fit the model's window.
    ContextExceeded,
    /// The key is missing, wrong or not allowed.
    Auth,
    /// The provider could not be reached or the connection broke.
    Transport,
    /// No data, or no progress, for too long.
    Stalled,
    /// The provider answered something that is not its protocol, or ended without saying so.
    Malformed,
    /// The provider rejects the request; sending it again does not help.
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

    /// The class in words.
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

/// Phase that a request had reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Making the request.
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

/// A request that a provider did not answer properly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProviderError {
    /// The class.
    pub kind: ErrorKind,
    /// The provider's name.
    pub provider: String,
    /// The model asked.
    pub model: String,
    /// Phase that the request had reached.
    pub phase: Phase,
    /// Description of the failure, without secrets.
    pub message: String,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code or type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Since the request was started, for the first time if it was sent several times.
    #[serde(rename = "elapsed_ms", with = "super::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub elapsed: Duration,
    /// Number of times that the request was sent.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// Wait that the provider asks for.
    #[serde(
        rename = "retry_after_ms",
        with = "super::millis::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub retry_after: Option<Duration>,
    /// The provider's own word about retrying; outranks the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// The tokens the model's window holds, if the error is that the request does not fit and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Advice on what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_once(attempts: &u32) -> bool {
    *attempts == 1
}

impl ProviderError {
    /// An error without details.
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
            attempts: once(),
            retry_after: None,
            should_retry: None,
            window: None,
            hint: None,
        }
    }

    /// Whether the provider rejected the API key that it was shown: another key helps.
    #[must_use]
    pub fn rejects_key(&self) -> bool {
        let is_other =
            matches!(self.code.as_deref(), Some(Self::NO_KEY | Self::SIGN_IN | Self::NOT_SIGNED_IN));
        self.kind == ErrorKind::Auth && self.status == Some(401) && !is_other
    }

    /// The code of an error of a provider that was shown no key.
    pub const NO_KEY: &str = "no_key_sent";
    /// The code of an error of a provider that rejected the token of a sign-in.
    pub const SIGN_IN: &str = "sign_in_rejected";
    /// The code of an error of a request that was not sent because nobody is signed in, or not any more.
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
            // The error is about no model.
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

/// Reason for which a run did not end well.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The history does not fit the model's window.
    #[error("{0}")]
    ContextExceeded(ProviderError),
    /// The provider failed.
    #[error("{0}")]
    Provider(ProviderError),
    /// The run was stopped. Whatever the native error was, a stopped run ends with this one.
    #[error("the run was stopped")]
    Aborted,
    /// A hook whose failure must stop the turn failed, normally the one that stores it.
    #[error("{0}")]
    Hook(#[from] EmitError),
    /// A limit of the run was reached.
    #[error(
        "stopped after {turns} turn{}, the limit of this run; raise the limit, or continue the session",
        if *turns == 1 { "" } else { "s" }
    )]
    TurnLimit {
        /// The limit.
        turns: u32,
    },
    /// The budget of the run or its agent is used up, as far as the next request could cost.
    #[error("stopped: {}; raise the budget, or continue the session", budget.describe_shortage(*spent, *wanted))]
    Budget {
        /// The budget.
        budget: Budget,
        /// Amount spent of the budget, sub-agents included.
        spent: Spent,
        /// The most that the next request could cost.
        wanted: Spent,
    },
    /// A call waits for somebody who is not here. The conversation is whole and can be gone on with.
    #[error("`{tool}` waits for approval: {reason}")]
    Parked {
        /// The tool.
        tool: String,
        /// Reason for the wait.
        reason: String,
    },
    /// The model made the same call again and again, and it failed each time in the same way.
    #[error(
        "stopped: the same call of `{tool}` failed {failures} times in a row in the same way; the last result is in the history"
    )]
    Stuck {
        /// The tool.
        tool: String,
        /// Number of times that the call failed.
        failures: u32,
    },
    /// A tool may do more than read, and nobody decides on its calls: there is no
    /// [`CallGuard`](crate::service::CallGuard), and the agent was not built unguarded.
    #[error(
        "tool `{tool}` may do more than read, and no gate is here to decide on its calls: install one, such as `PermissionGate`, or build the agent with `.unguarded()`, and nobody is asked"
    )]
    Unguarded {
        /// Canonical name of the tool.
        tool: String,
    },
    /// The agent was used in a way it cannot serve.
    #[error("{0}")]
    Usage(String),
    /// The model did not give the structured output asked for.
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
    /// Whether the same run may end well later, without anything being changed for it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.provider().is_some_and(ProviderError::is_retryable)
    }

    /// The provider's error behind it, if one is.
    #[must_use]
    pub fn provider(&self) -> Option<&ProviderError> {
        match self {
            Self::ContextExceeded(error) | Self::Provider(error) => Some(error),
            Self::Aborted
            | Self::Hook(_)
            | Self::TurnLimit { .. }
            | Self::Budget { .. }
            | Self::Parked { .. }
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
    fn the_advice_is_a_sentence_of_its_own() {
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
    fn the_time_it_took_is_told_in_a_unit_that_fits() {
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
    fn a_code_that_is_the_status_again_is_told_once() {
        let coded = |code: &str| ProviderError { code: Some(code.into()), ..error("x") }.to_string();
        assert!(coded("402").contains("(HTTP 402) "));
        assert!(coded("billing_error").contains("(HTTP 402, billing_error) "));
    }
}
