//! Error responses in the providers' formats.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, ProviderError};

use super::fault::RetryAfter;
use super::reply::Reply;
use crate::rules::Dialect;

/// Error response for a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal<'a> {
    dialect: Dialect,
    status: u16,
    message: &'a str,
    /// Error code, if it differs from the status's usual one.
    code: Option<&'a str>,
    after: RetryAfter,
}

/// Status and code of an error kind.
pub(super) struct Class {
    pub(super) status: u16,
    pub(super) code: Option<&'static str>,
}

/// Status and code by which `dialect` reports an error of `kind`; `None` if it has none.
pub(super) fn class(dialect: Dialect, kind: ErrorKind) -> Option<Class> {
    let plain = |status| Some(Class { status, code: None });
    let coded = |status, code| Some(Class { status, code: Some(code) });
    match (kind, dialect) {
        (ErrorKind::Rate, _) => plain(429),
        (ErrorKind::Quota, Dialect::Anthropic) => plain(402),
        (ErrorKind::Quota, Dialect::Ollama) => plain(402),
        (ErrorKind::Quota, Dialect::Gemini) => coded(429, "GenerateRequestsPerDayPerProjectPerModel"),
        (ErrorKind::Auth, Dialect::Gemini) => coded(400, "API_KEY_INVALID"),
        (ErrorKind::Quota, Dialect::Codex) => coded(429, "usage_limit_reached"),
        (ErrorKind::Quota, Dialect::Chat | Dialect::Responses) => coded(429, "insufficient_quota"),
        (ErrorKind::Overloaded, Dialect::Anthropic) => plain(529),
        (ErrorKind::Overloaded, _) => plain(503),
        (ErrorKind::ContextExceeded, Dialect::Anthropic | Dialect::Gemini | Dialect::Ollama) => plain(400),
        (ErrorKind::ContextExceeded, Dialect::Chat | Dialect::Responses | Dialect::Codex) => {
            coded(400, "context_length_exceeded")
        }
        (ErrorKind::Auth, _) => plain(401),
        (ErrorKind::Rejected | ErrorKind::Refused, _) => plain(400),
        (ErrorKind::Transport | ErrorKind::Stalled | ErrorKind::Malformed | ErrorKind::Aborted, _) => None,
    }
}

/// Message of a scripted error: a context overflow is only recognisable by its wording.
pub(super) fn message(dialect: Dialect, error: &ProviderError) -> String {
    match (error.kind, dialect) {
        (ErrorKind::ContextExceeded, Dialect::Anthropic) => {
            format!("prompt is too long: 250000 tokens > 200000 maximum ({})", error.message)
        }
        (ErrorKind::ContextExceeded, Dialect::Chat) => format!(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 250000 tokens. \
             Please reduce the length of the messages. ({})",
            error.message
        ),
        (ErrorKind::ContextExceeded, Dialect::Responses | Dialect::Codex) => format!(
            "Your input exceeds the context window of this model. Please adjust your input and try again. ({})",
            error.message
        ),
        (ErrorKind::ContextExceeded, Dialect::Ollama) => {
            format!("prompt too long; exceeded max context length by 1000 tokens (ref: {})", error.message)
        }
        (ErrorKind::ContextExceeded, Dialect::Gemini) => format!(
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576). ({})",
            error.message
        ),
        _ => error.message.clone(),
    }
}

impl<'a> Refusal<'a> {
    pub(super) fn new(dialect: Dialect, status: u16, message: &'a str) -> Self {
        Self { dialect, status, message, code: None, after: RetryAfter::No }
    }

    pub(super) fn with_code(self, code: Option<&'a str>) -> Self {
        Self { code, ..self }
    }

    pub(super) fn with_retry_after(self, after: RetryAfter) -> Self {
        Self { after, ..self }
    }

    /// Turns the error into a complete response.
    pub(super) fn reply(self, number: usize) -> Reply {
        let reply = Reply::json(self.status, self.body(number).to_string())
            .with_header(request_id_header(self.dialect).map(|name| (name, request_id(number))));
        match self.dialect {
            // Gemini has the time to wait in the body.
            Dialect::Gemini => reply,
            Dialect::Anthropic | Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Ollama => {
                reply.with_header(self.after.header())
            }
        }
    }

    /// JSON body of the error.
    pub(super) fn body(self, number: usize) -> Value {
        match self.dialect {
            Dialect::Anthropic => json!({
                "type": "error",
                "error": {"type": anthropic_type(self.status), "message": self.message},
                "request_id": request_id(number),
            }),
            Dialect::Chat | Dialect::Responses => self.openai_body(),
            // Codex explains limits in detail; other errors are a sentence.
            Dialect::Codex if self.status == 429 || self.code.is_some() => self.openai_body(),
            Dialect::Codex => json!({"detail": self.message}),
            Dialect::Gemini => self.google_body(),
            Dialect::Ollama => json!({"error": self.message}),
        }
    }

    fn google_body(self) -> Value {
        let kind = |name: &str| format!("type.googleapis.com/google.rpc.{name}");
        let mut details = Vec::new();
        match self.code {
            Some(quota) if quota.contains("PerDay") => {
                let violations = json!([{"quotaId": quota, "quotaValue": "50"}]);
                details.push(json!({"@type": kind("QuotaFailure"), "violations": violations}));
            }
            Some(reason) => {
                details
                    .push(json!({"@type": kind("ErrorInfo"), "reason": reason, "domain": "googleapis.com"}));
            }
            None => {}
        }
        if let Some(wait) = self.after.wait() {
            let delay = format!("{}s", wait.as_secs_f64());
            details.push(json!({"@type": kind("RetryInfo"), "retryDelay": delay}));
        }
        let status = match self.status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            400..=499 => "INVALID_ARGUMENT",
            503 | 529 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            _ => "INTERNAL",
        };
        let error =
            json!({"code": self.status, "message": self.message, "status": status, "details": details});
        json!({ "error": error })
    }

    fn openai_body(self) -> Value {
        let (kind, usual) = match self.status {
            401 => ("invalid_request_error", Some("invalid_api_key")),
            404 => ("invalid_request_error", Some("model_not_found")),
            429 => ("requests", Some("rate_limit_exceeded")),
            400..=499 => ("invalid_request_error", None),
            503 | 529 => ("service_unavailable_error", None),
            _ => ("server_error", None),
        };
        let kind = match self.code {
            Some(code @ ("insufficient_quota" | "usage_limit_reached")) => code,
            Some(_) | None => kind,
        };
        json!({"error": {"message": self.message, "type": kind, "param": null, "code": self.code.or(usual)}})
    }
}

/// Header with the request id, if the dialect has one.
pub(super) fn request_id_header(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Anthropic => Some("request-id"),
        Dialect::Chat | Dialect::Responses | Dialect::Codex => Some("x-request-id"),
        Dialect::Gemini | Dialect::Ollama => None,
    }
}

pub(super) fn request_id(number: usize) -> String {
    format!("req_{number}")
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
