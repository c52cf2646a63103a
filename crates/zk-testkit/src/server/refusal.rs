//! Error bodies as the providers write them.

use serde_json::json;
use zk_core::model::{ErrorKind, ProviderError};

use super::reply::Reply;
use crate::rules::Dialect;

/// The status and code of a class of errors.
pub(super) struct Class {
    pub(super) status: u16,
    pub(super) code: Option<&'static str>,
}

/// How `dialect` reports an error of `kind`, when it can be reported at all.
pub(super) fn class(dialect: Dialect, kind: ErrorKind) -> Option<Class> {
    let plain = |status| Some(Class { status, code: None });
    match (kind, dialect) {
        (ErrorKind::Rate, _) => plain(429),
        (ErrorKind::Quota, Dialect::Anthropic) => plain(402),
        (ErrorKind::Quota, Dialect::Chat) => Some(Class { status: 429, code: Some("insufficient_quota") }),
        (ErrorKind::Overloaded, Dialect::Anthropic) => plain(529),
        (ErrorKind::Overloaded, Dialect::Chat) => plain(503),
        (ErrorKind::ContextExceeded, Dialect::Anthropic) => plain(400),
        (ErrorKind::ContextExceeded, Dialect::Chat) => {
            Some(Class { status: 400, code: Some("context_length_exceeded") })
        }
        (ErrorKind::Auth, _) => plain(401),
        (ErrorKind::Rejected | ErrorKind::Refused, _) => plain(400),
        (ErrorKind::Transport | ErrorKind::Stalled | ErrorKind::Malformed | ErrorKind::Aborted, _) => None,
    }
}

/// The message of a scripted error: overflow is only told by its wording.
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
        _ => error.message.clone(),
    }
}

/// An error as the body of an answer with this status.
pub(super) fn reply(dialect: Dialect, status: u16, message: &str, number: usize) -> Reply {
    coded(dialect, status, None, message, number)
}

/// As [`reply`], with a code over the usual one.
pub(super) fn coded(
    dialect: Dialect,
    status: u16,
    code: Option<&str>,
    message: &str,
    number: usize,
) -> Reply {
    let body = body(dialect, status, code, message, number);
    Reply::json(status, body).with_header(Some((request_id_header(dialect), request_id(number))))
}

/// The error alone.
pub(super) fn body(
    dialect: Dialect,
    status: u16,
    code: Option<&str>,
    message: &str,
    number: usize,
) -> String {
    match dialect {
        Dialect::Anthropic => json!({
            "type": "error",
            "error": {"type": anthropic_type(status), "message": message},
            "request_id": request_id(number),
        })
        .to_string(),
        Dialect::Chat => {
            let (kind, usual) = chat_type(status);
            let kind = if code == Some("insufficient_quota") { "insufficient_quota" } else { kind };
            json!({"error": {"message": message, "type": kind, "param": null, "code": code.or(usual)}})
                .to_string()
        }
    }
}

/// The header that carries the id of a request.
pub(super) fn request_id_header(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "request-id",
        Dialect::Chat => "x-request-id",
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

fn chat_type(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        503 | 529 => ("service_unavailable_error", None),
        _ => ("server_error", None),
    }
}
