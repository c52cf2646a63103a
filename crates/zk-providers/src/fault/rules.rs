//! From a response that failed to its class.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;
use zk_core::model::ErrorKind;

use super::body::ErrorBody;
use super::{Fault, is_overflow, quota, retry_after, should_retry};

/// What the names that providers give their errors mean: codes, types and statuses.
const NAMES: &[(&str, ErrorKind)] = &[
    ("authentication_error", ErrorKind::Auth),
    ("invalid_api_key", ErrorKind::Auth),
    ("api_key_invalid", ErrorKind::Auth),
    ("permission_error", ErrorKind::Auth),
    ("permission_denied", ErrorKind::Auth),
    ("unauthenticated", ErrorKind::Auth),
    ("unauthorized", ErrorKind::Auth),
    ("billing_error", ErrorKind::Quota),
    ("insufficient_quota", ErrorKind::Quota),
    ("insufficient_balance", ErrorKind::Quota),
    ("billing_hard_limit_reached", ErrorKind::Quota),
    ("billing_not_active", ErrorKind::Quota),
    ("enforced_spend_limit_reached", ErrorKind::Quota),
    ("contract_spend_limit_reached", ErrorKind::Quota),
    ("usage_limit_reached", ErrorKind::Quota),
    ("usage_not_included", ErrorKind::Quota),
    ("rate_limit_error", ErrorKind::Rate),
    ("rate_limit_exceeded", ErrorKind::Rate),
    ("rate_limited", ErrorKind::Rate),
    ("ramp_limit_exceeded", ErrorKind::Rate),
    ("too_many_requests", ErrorKind::Rate),
    ("resource_exhausted", ErrorKind::Rate),
    ("queue_exceeded", ErrorKind::Rate),
    ("overloaded_error", ErrorKind::Overloaded),
    ("api_error", ErrorKind::Overloaded),
    ("server_error", ErrorKind::Overloaded),
    ("timeout_error", ErrorKind::Overloaded),
    ("unavailable", ErrorKind::Overloaded),
    ("unavailable_error", ErrorKind::Overloaded),
    ("service_unavailable", ErrorKind::Overloaded),
    ("engine_overloaded", ErrorKind::Overloaded),
    ("server_is_overloaded", ErrorKind::Overloaded),
    ("slow_down", ErrorKind::Overloaded),
    ("vector_store_timeout", ErrorKind::Overloaded),
    ("content_policy_violation", ErrorKind::Refused),
    ("content_filter", ErrorKind::Refused),
    ("image_content_policy_violation", ErrorKind::Refused),
    ("bio_policy", ErrorKind::Refused),
    ("cyber_policy", ErrorKind::Refused),
    // In a stream of the Responses API these come without a type that says whose fault it is.
    ("invalid_prompt", ErrorKind::Rejected),
    ("invalid_image", ErrorKind::Rejected),
    ("invalid_image_format", ErrorKind::Rejected),
    ("invalid_base64_image", ErrorKind::Rejected),
    ("invalid_image_url", ErrorKind::Rejected),
    ("invalid_image_mode", ErrorKind::Rejected),
    ("image_too_large", ErrorKind::Rejected),
    ("image_too_small", ErrorKind::Rejected),
    ("image_file_too_large", ErrorKind::Rejected),
    ("image_parse_error", ErrorKind::Rejected),
    ("image_file_not_found", ErrorKind::Rejected),
    ("empty_image_file", ErrorKind::Rejected),
    ("failed_to_download_image", ErrorKind::Rejected),
    ("unsupported_image_media_type", ErrorKind::Rejected),
    ("previous_response_not_found", ErrorKind::Rejected),
    // z.ai, of a prompt that does not fit.
    ("1261", ErrorKind::ContextExceeded),
    ("model_not_found", ErrorKind::Rejected),
    ("not_found_error", ErrorKind::Rejected),
];

/// Phrases (lower case) that say what neither status nor name does. That the request is bad counts only against
/// a status that blames the server.
const PHRASES: &[(&str, ErrorKind)] = &[
    ("incorrect api key", ErrorKind::Auth),
    ("invalid api key", ErrorKind::Auth),
    ("api key not valid", ErrorKind::Auth),
    ("missing authentication", ErrorKind::Auth),
    ("no auth credentials", ErrorKind::Auth),
    ("specified api usage limits", ErrorKind::Quota),
    ("credit balance is too low", ErrorKind::Quota),
    ("exceeded your current quota", ErrorKind::Quota),
    ("insufficient credits", ErrorKind::Quota),
    ("insufficient balance", ErrorKind::Quota),
    ("monthly limit", ErrorKind::Quota),
    // Ollama, of a model that does not fit into the machine.
    ("requires more system memory", ErrorKind::Rejected),
    // llama.cpp answers these with 500, and will every time.
    ("requires --jinja", ErrorKind::Rejected),
    ("image input is not supported", ErrorKind::Rejected),
    ("param requires", ErrorKind::Rejected),
    ("failed to parse", ErrorKind::Rejected),
    ("parse error", ErrorKind::Rejected),
];

/// Errors that come and go although the provider calls the request bad.
const WORTH_A_RETRY: &[&str] = &["tool_use_failed"];

/// The failure a response with this head and body stands for.
pub(crate) fn of_response(status: StatusCode, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Fault {
    let parsed = ErrorBody::parse(body);
    let kind = if status == StatusCode::PAYLOAD_TOO_LARGE || is_bare_overflow(status, body) {
        ErrorKind::ContextExceeded
    } else if status.is_redirection() {
        ErrorKind::Rejected
    } else {
        classify(Some(status), &parsed)
    };
    let mut fault = fault(kind, parsed.clone());
    fault.status = Some(status.as_u16());
    fault.retry_after = retry_after(headers, parsed.json.as_ref(), now);
    fault.should_retry = should_retry(headers).or(fault.should_retry);
    let resets = |json: &Value| {
        json.pointer("/error/resets_at").or(json.pointer("/error/resets_in_seconds")).is_some()
    };
    if let Some(wait) = fault.retry_after
        && kind == ErrorKind::Quota
        && parsed.json.as_ref().is_some_and(resets)
    {
        fault.hint = Some(format!("The plan's limit is lifted in {}", in_words(wait)));
    }
    if fault.message.is_empty() {
        fault.message = match status.canonical_reason() {
            Some(reason) => format!("{reason}, without a body"),
            None => "an empty body".to_owned(),
        };
    }
    if let Some(place) = headers.get("location").and_then(|place| place.to_str().ok())
        && status.is_redirection()
    {
        fault.message = format!("a redirect to {}", super::body::quote(place));
        fault.hint = Some("Redirects are not followed: set the base URL to where it leads".to_owned());
    }
    fault
}

/// The failure that an error inside a stream, or inside a response of status 200, stands for.
pub(crate) fn of_stream(body: ErrorBody) -> Fault {
    let status = body.names.iter().find_map(|name| name.parse::<u16>().ok());
    let status = status.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
    let kind = if body.is_html { ErrorKind::Malformed } else { classify(status, &body) };
    let mut fault = fault(kind, body);
    if fault.message.is_empty() {
        fault.message = "an error without a word about it".to_owned();
    }
    fault
}

fn fault(kind: ErrorKind, body: ErrorBody) -> Fault {
    let mut fault = Fault::new(kind, body.message);
    if body.names.iter().any(|name| WORTH_A_RETRY.contains(&name.as_str())) {
        fault.should_retry = Some(true);
    }
    fault.code = body.code;
    fault.request_id = body.request_id;
    fault.hint = if body.is_html {
        Some("This looks like a web page, not a model API: check the base URL".to_owned())
    } else {
        advice(kind).map(str::to_owned)
    };
    fault
}

fn classify(status: Option<StatusCode>, body: &ErrorBody) -> ErrorKind {
    let text = body.text().to_lowercase();
    // The rate comes first: such texts speak of tokens too.
    if status != Some(StatusCode::TOO_MANY_REQUESTS) && is_overflow(&text) {
        return ErrorKind::ContextExceeded;
    }
    // A server that is overloaded can name a time to wait too.
    let is_about_quota = status.is_none_or(|status| status.is_client_error());
    if let Some(kind) = body.json.as_ref().and_then(quota::class).filter(|_| is_about_quota) {
        return kind;
    }
    let is_server_error = status.is_some_and(|status| status.is_server_error());
    let counts = |kind: ErrorKind| kind != ErrorKind::Rejected || is_server_error;
    if let Some((_, kind)) = PHRASES.iter().find(|(phrase, kind)| counts(*kind) && text.contains(phrase)) {
        return *kind;
    }
    // Ollama calls a wrong key an `api_error`: that the server is at fault is for the status to say.
    let blames_request = status.is_some_and(|status| status.is_client_error() && !may_pass(status));
    let named = body.names.iter().find_map(|name| {
        let name = name.to_lowercase();
        NAMES
            .iter()
            .find(|(known, kind)| *known == name && !(blames_request && *kind == ErrorKind::Overloaded))
    });
    if let Some((_, kind)) = named {
        return *kind;
    }
    match status.map(|status| status.as_u16()) {
        Some(401 | 403) => ErrorKind::Auth,
        Some(402) => ErrorKind::Quota,
        Some(429) => ErrorKind::Rate,
        Some(413) => ErrorKind::ContextExceeded,
        Some(408 | 409 | 500..) => ErrorKind::Overloaded,
        Some(_) => ErrorKind::Rejected,
        None if body.names.iter().any(|name| name == "invalid_request_error") => ErrorKind::Rejected,
        // In a stream nothing but the text is known, and the request itself was accepted.
        None => ErrorKind::Overloaded,
    }
}

/// Whether a status of the 4xx is about the moment and not about the request.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 429)
}

/// Cerebras says nothing at all when a prompt is too long.
fn is_bare_overflow(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::BAD_REQUEST && body.iter().all(u8::is_ascii_whitespace)
}

fn in_words(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    match (minutes / (24 * 60), minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Auth => Some("Check the API key, and that it may use this model"),
        ErrorKind::Quota => Some("Waiting does not help: check the plan, the credit and the spending limits"),
        ErrorKind::ContextExceeded => Some("Start a new session, or take a model with a larger window"),
        ErrorKind::Rate
        | ErrorKind::Overloaded
        | ErrorKind::Transport
        | ErrorKind::Stalled
        | ErrorKind::Malformed
        | ErrorKind::Rejected
        | ErrorKind::Refused
        | ErrorKind::Aborted => None,
    }
}
