//! Classifies failed responses.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use zk_core::model::ErrorKind;

use super::body::ErrorBody;
use super::{WireError, retry_after, should_retry};
use crate::catalogue::errors::advice::{self, Advice};
use crate::catalogue::errors::{NAMES, PHRASES, RETRYABLE_NAMES, STATUSES, is_overflow, quota, window};

/// Returns the error for a response with this head and body.
#[cfg(test)]
pub(crate) fn of_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> WireError {
    of_partial_response(status, headers, body, true, now)
}

/// Returns the error for a response with this head and a partial body. Only received bytes count: a body that
/// did not arrive completely does not count as empty.
pub(crate) fn of_partial_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    is_whole: bool,
    now: SystemTime,
) -> WireError {
    let parsed = ErrorBody::parse(body);
    let (kind, what_to_do) = if status == StatusCode::PAYLOAD_TOO_LARGE {
        (ErrorKind::ContextExceeded, advice::TOO_LARGE)
    } else if is_whole && is_bare_overflow(status, body) {
        (ErrorKind::ContextExceeded, advice::BARE)
    } else if status.is_redirection() {
        (ErrorKind::Rejected, advice::DIALECT)
    } else if status == StatusCode::PAYMENT_REQUIRED && headers.contains_key(RETRY_AFTER) {
        // Credit that other requests reserve and may release.
        (ErrorKind::Rate, advice::IN_FLIGHT)
    } else {
        classify(Some(status), &parsed)
    };
    let mut error = error(kind, what_to_do, parsed.clone());
    error.status = Some(status.as_u16());
    error.retry_after = retry_after(headers, parsed.json.as_ref(), now);
    error.should_retry = should_retry(headers).or(error.should_retry);
    let resets = |json: &Value| {
        json.pointer("/error/resets_at").or(json.pointer("/error/resets_in_seconds")).is_some()
    };
    if let Some(wait) = error.retry_after
        && kind == ErrorKind::Quota
        && parsed.json.as_ref().is_some_and(resets)
    {
        error.hint = Some(format!("The plan's limit is lifted in {}", format_wait(wait)));
    }
    if error.message.is_empty() {
        error.message = match status.canonical_reason() {
            Some(reason) if is_whole => format!("{reason}, without a body"),
            Some(reason) => format!("{reason}, and its body did not come"),
            None if is_whole => "an empty body".to_owned(),
            None => "its body did not come".to_owned(),
        };
    }
    if let Some(place) = headers.get("location").and_then(|place| place.to_str().ok())
        && status.is_redirection()
    {
        error.message = format!("a redirect to {}", super::body::quote(place));
        error.hint = Some("Redirects are not followed: set the base URL to where it leads".to_owned());
    }
    error
}

/// Returns the error for an error object inside a stream or a response of status 200.
pub(crate) fn of_stream(body: ErrorBody) -> WireError {
    let status = body.names.iter().find_map(|name| name.parse::<u16>().ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
    let (kind, what_to_do) =
        if body.is_html { (ErrorKind::Malformed, None) } else { classify(status, &body) };
    let mut error = error(kind, what_to_do, body);
    if error.message.is_empty() {
        error.message = "an error without a word about it".to_owned();
    }
    error
}

fn error(kind: ErrorKind, what_to_do: Advice, body: ErrorBody) -> WireError {
    let mut error = WireError::new(kind, body.message);
    if kind == ErrorKind::ContextExceeded {
        error.window = window(&error.message);
    }
    if body.names.iter().any(|name| RETRYABLE_NAMES.contains(&name.as_str())) {
        error.should_retry = Some(true);
    }
    // The model's own text must not influence the class.
    let attempt = body.json.as_ref().and_then(|json| json.pointer("/error/failed_generation")?.as_str());
    if let Some(attempt) = attempt.filter(|attempt| !attempt.is_empty()) {
        error.message.push_str(&format!(" The model wrote: {}", super::body::quote(attempt)));
    }
    error.code = body.code;
    error.request_id = body.request_id;
    // A failing gateway answers with an HTML page too.
    error.hint = if body.is_html && kind != ErrorKind::Overloaded {
        Some("This looks like a web page, not a model API: check the base URL".to_owned())
    } else {
        what_to_do.map(str::to_owned)
    };
    error
}

fn classify(status: Option<StatusCode>, body: &ErrorBody) -> (ErrorKind, Advice) {
    let text = body.text().to_lowercase();
    // The rate limit is checked first, since its texts mention tokens too.
    if status != Some(StatusCode::TOO_MANY_REQUESTS) && is_overflow(&text) {
        return (ErrorKind::ContextExceeded, advice::WINDOW);
    }
    // An overloaded server may suggest a wait too.
    let is_about_quota = status.is_none_or(|status| status.is_client_error());
    if let Some(meant) = body.json.as_ref().and_then(quota::class).filter(|_| is_about_quota) {
        return meant;
    }
    let is_server_error = status.is_some_and(|status| status.is_server_error());
    let counts = |kind: ErrorKind| kind != ErrorKind::Rejected || is_server_error;
    let phrase = PHRASES.iter().find(|(phrase, kind, _)| counts(*kind) && text.contains(phrase));
    if let Some((_, kind, advice)) = phrase {
        return (*kind, *advice);
    }
    // A wrong key may be called an `api_error`; only the status tells whether the server is at fault.
    let blames_request = status.is_some_and(|status| status.is_client_error() && !is_transient(status));
    let named = body.names.iter().find_map(|name| {
        let name = name.to_lowercase();
        let counts = |kind: ErrorKind| !(blames_request && kind == ErrorKind::Overloaded);
        NAMES.iter().find(|(known, kind, _)| *known == name && counts(*kind))
    });
    if let Some((_, kind, advice)) = named {
        return (*kind, *advice);
    }
    let by_class = |kind| (kind, advice::of_kind(kind));
    let Some(status) = status.map(|status| status.as_u16()) else {
        // An error in a stream has only text, and the request itself had been accepted.
        let is_rejected = body.names.iter().any(|name| name == "invalid_request_error");
        return by_class(if is_rejected { ErrorKind::Rejected } else { ErrorKind::Overloaded });
    };
    match STATUSES.iter().find(|(known, ..)| *known == status) {
        Some((_, kind, advice)) => (*kind, *advice),
        None => by_class(if status >= 500 { ErrorKind::Overloaded } else { ErrorKind::Rejected }),
    }
}

/// Whether a 4xx status is temporary instead of caused by the request.
fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429)
}

/// Whether a request was rejected without a message, as some servers do for a prompt that is too long.
fn is_bare_overflow(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::BAD_REQUEST && body.iter().all(u8::is_ascii_whitespace)
}

fn format_wait(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    match (minutes / (24 * 60), minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
