use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use zk_core::model::ErrorKind;

use crate::catalogue::errors::{is_overflow, quota};

use super::{ErrorBody, RequestContext, WireError, of_response, of_stream, quote, retry_after};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect()
}

fn error(status: u16, body: &str) -> WireError {
    let status = StatusCode::from_u16(status).unwrap();
    of_response(status, &HeaderMap::new(), body.as_bytes(), SystemTime::now())
}

fn kind(status: u16, body: &str) -> ErrorKind {
    error(status, body).kind
}

#[test]
fn every_known_wording_of_an_overflow_is_found() {
    for text in [
        "prompt is too long: 3333404 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens",
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens",
        "The input exceeds the model's maximum context length of 131,072 tokens",
        "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "request (40018 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "exceed_context_size_error",
        "prompt token count of 140000 exceeds the limit of 128000",
        "Trying to keep the first 5000 tokens when context the overflows. tokens is greater than the context length",
        "Your request exceeded model token limit: 262144",
        "Prompt contains 325011 tokens and 0 draft tokens, too large for model with 262144 maximum context length",
        "prompt has 9000 tokens, but the configured context size is 8192",
        "Range of input length should be [1, 129024]",
        "prompt too long; exceeded max context length by 4 tokens (ref: 1)",
        "Error code: context_length_exceeded",
    ] {
        assert!(is_overflow(text), "{text}");
        assert_eq!(kind(400, &json!({"error": {"message": text}}).to_string()), ErrorKind::ContextExceeded);
    }
}

#[test]
fn the_window_that_an_overflow_names_is_read() {
    for (text, window) in [
        ("prompt is too long: 3333404 tokens > 200000 maximum", Some(200_000)),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens",
            Some(8192),
        ),
        ("The input exceeds the model's maximum context length of 131,072 tokens", Some(131_072)),
        ("exceeds the maximum context length of (4096)", Some(4096)),
        (
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
            Some(1_048_576),
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            Some(131_072),
        ),
        ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", Some(8192)),
        ("request (40018 tokens) exceeds the available context size (4096 tokens), try it", Some(4096)),
        ("prompt token count of 140000 exceeds the limit of 128000", Some(128_000)),
        ("Your request exceeded model token limit: 262144", Some(262_144)),
        (
            "Prompt contains 325011 tokens and 0 draft tokens, too large for model with 262144 maximum context length",
            Some(262_144),
        ),
        ("prompt has 9000 tokens, but the configured context size is 8192", Some(8192)),
        ("Range of input length should be [1, 129024]", Some(129_024)),
        ("prompt too long; exceeded max context length by 4 tokens (ref: 1)", None),
        ("Your input exceeds the context window of this model. Please adjust your input", None),
    ] {
        let body = json!({"error": {"message": text}}).to_string();
        assert_eq!(error(400, &body).window, window, "{text}");
    }
    let rate = json!({"error": {"message": "maximum context length is 8192 tokens"}}).to_string();
    assert_eq!(error(429, &rate).window, None);
}

#[test]
fn a_bare_word_about_tokens_or_context_is_no_overflow() {
    for text in [
        "Rate limit reached: too many tokens per minute",
        "429 Too Many Requests: maximum context length is 8192 tokens",
        "invalid token",
        "`max_tokens` must be greater than `thinking.budget_tokens`",
        "the context was canceled",
        "maximum context length is unknown",
        "Throttled: too many tokens",
    ] {
        assert!(!is_overflow(text), "{text}");
    }
}

#[test]
fn classes_follow_names_before_status_and_phrases_before_names() {
    let typed = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "…"}}).to_string();
    let coded = |code: &str| json!({"error": {"code": code, "type": "x", "message": "…"}}).to_string();
    for (status, body, expected) in [
        (400, typed("invalid_request_error"), ErrorKind::Rejected),
        (401, typed("authentication_error"), ErrorKind::Auth),
        (402, typed("billing_error"), ErrorKind::Quota),
        (403, typed("permission_error"), ErrorKind::Auth),
        (404, typed("not_found_error"), ErrorKind::Rejected),
        (409, typed("conflict_error"), ErrorKind::Overloaded),
        (413, typed("request_too_large"), ErrorKind::ContextExceeded),
        (429, typed("rate_limit_error"), ErrorKind::Rate),
        (500, typed("api_error"), ErrorKind::Overloaded),
        (529, typed("overloaded_error"), ErrorKind::Overloaded),
        (429, coded("insufficient_quota"), ErrorKind::Quota),
        (429, coded("rate_limit_exceeded"), ErrorKind::Rate),
        (400, coded("context_length_exceeded"), ErrorKind::ContextExceeded),
        (401, coded("invalid_api_key"), ErrorKind::Auth),
        (
            401,
            json!({"error": {"type": "api_error", "message": "Unauthorized"}}).to_string(),
            ErrorKind::Auth,
        ),
        (
            400,
            json!({"code": "invalid-argument", "error": "Incorrect API key provided"}).to_string(),
            ErrorKind::Auth,
        ),
        (400, json!({"error": {"message": "Your credit balance is too low"}}).to_string(), ErrorKind::Quota),
        (
            400,
            json!({"error": {"message": "You have reached your specified API usage limits."}}).to_string(),
            ErrorKind::Quota,
        ),
        (400, String::new(), ErrorKind::ContextExceeded),
        (413, String::new(), ErrorKind::ContextExceeded),
        (
            500,
            json!({"error": {"code": 500, "message": "tools param requires --jinja flag"}}).to_string(),
            ErrorKind::Rejected,
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
                .to_string(),
            ErrorKind::Overloaded,
        ),
        (
            422,
            json!({"detail": [{"loc": ["body", "x"], "msg": "field required"}]}).to_string(),
            ErrorKind::Rejected,
        ),
        (502, "<html><head><title>502 Bad Gateway</title></head></html>".into(), ErrorKind::Overloaded),
        (301, String::new(), ErrorKind::Rejected),
    ] {
        assert_eq!(kind(status, &body), expected, "{status} {body}");
    }
}

#[test]
fn a_phrase_about_a_bad_request_counts_only_where_the_status_blames_the_server() {
    let body = |code: &str| format!(r#"{{"error":{{"message":"failed to parse","code":"{code}"}}}}"#);
    assert_eq!(kind(500, &body("server_error")), ErrorKind::Rejected);
    assert_eq!(kind(429, &body("rate_limit_exceeded")), ErrorKind::Rate);
    assert_eq!(kind(401, &body("invalid_api_key")), ErrorKind::Auth);
}

#[test]
fn errors_inside_a_stream_are_classed_by_what_they_say() {
    for (body, expected) in [
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            ErrorKind::Overloaded,
        ),
        (json!({"error": {"code": 429, "message": "slow down"}}), ErrorKind::Rate),
        (json!({"error": {"code": 502, "message": "upstream"}}), ErrorKind::Overloaded),
        (json!({"error": {"type": "invalid_request_error", "message": "bad"}}), ErrorKind::Rejected),
        (json!({"error": "out of memory"}), ErrorKind::Overloaded),
    ] {
        assert_eq!(of_stream(ErrorBody::of(body.clone())).kind, expected, "{body}");
    }
}

#[test]
fn waiting_times_are_read_in_every_form() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
    for (pairs, expected) in [
        (vec![("retry-after", "7")], Some(7.0)),
        (vec![("retry-after", "1.5")], Some(1.5)),
        (vec![("retry-after-ms", "250.5"), ("retry-after", "7")], Some(0.2505)),
        (vec![("retry-after", date.as_str())], Some(90.0)),
        (vec![("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], Some(0.0)),
        (vec![("retry-after", "-3")], None),
        (vec![("retry-after", "soon")], None),
        (vec![], None),
    ] {
        let found = retry_after(&headers(&pairs), None, now).map(|wait| wait.as_secs_f64());
        assert_eq!(found, expected, "{pairs:?}");
    }
    let google = json!({"error": {"details": [{"@type": "x"}, {"retryDelay": "34.4s"}]}});
    assert_eq!(retry_after(&HeaderMap::new(), Some(&google), now), Some(Duration::from_secs_f64(34.4)));
    let codex = json!({"error": {"resets_at": 1_800_000_100_u64}});
    assert_eq!(retry_after(&HeaderMap::new(), Some(&codex), now), Some(Duration::from_secs(100)));
}

#[test]
fn the_header_x_should_retry_decides_about_retries() {
    let error = |value| {
        let headers = headers(&[("x-should-retry", value)]);
        of_response(StatusCode::BAD_REQUEST, &headers, b"{}", SystemTime::now()).should_retry
    };
    assert_eq!((error("true"), error("false"), error("maybe")), (Some(true), Some(false), None));
}

#[test]
fn a_quotation_is_one_short_clean_line() {
    assert_eq!(quote("  a\r\n\tb\u{1b}[31m\u{202e}c  "), "a b[31mc");
    let long = quote(&"x".repeat(10_000));
    assert_eq!((long.chars().count(), long.ends_with('…')), (501, true));
}

#[test]
fn a_code_and_an_id_are_quoted_like_any_other_text() {
    let code = format!("\u{1b}[2J{}\n", "x".repeat(10_000));
    let body = json!({"error": {"code": code, "message": "no"}, "request_id": "r\u{7}\r1"});
    let error = RequestContext::new("p", "m").error(of_stream(ErrorBody::of(body)));
    assert_eq!(error.request_id.as_deref(), Some("r 1"));
    assert_eq!(error.code.map(|code| (code.starts_with("[2Jx"), code.chars().count())), Some((true, 500)));
}

#[test]
fn a_message_is_one_line_of_bounded_length_whoever_wrote_it() {
    let error = WireError::malformed(format!("ended as `a\u{c}b\u{1b}[0m{}`", "x".repeat(9_000)));
    let message = RequestContext::new("p", "m").error(error).message;
    assert!(message.starts_with("ended as `a b[0mxx"), "{message}");
    assert!(message.chars().count() <= 2_001);
}

#[test]
fn an_error_that_says_nothing_is_still_an_error_with_a_message() {
    for body in ["", "{\"error\":\"\"}", "\u{1}"] {
        assert!(!of_stream(ErrorBody::parse(body.as_bytes())).message.is_empty(), "{body:?}");
    }
}

#[test]
fn a_page_is_described_and_not_quoted() {
    let page = "\n<!DOCTYPE html><html><head><TITLE>Sign\n in</TITLE></head><body>secret</body></html>";
    let body = ErrorBody::parse(page.as_bytes());
    assert_eq!((body.message.as_str(), body.is_html), ("an HTML page titled “Sign in”", true));
}

#[test]
fn the_text_behind_a_router_is_shown_too() {
    let body = json!({"error": {"code": 400, "message": "Provider returned error",
        "metadata": {"raw": "prompt is too long: 5 tokens", "provider_name": "x"}}});
    let error = of_response(
        StatusCode::BAD_REQUEST,
        &HeaderMap::new(),
        body.to_string().as_bytes(),
        SystemTime::now(),
    );
    assert_eq!(error.kind, ErrorKind::ContextExceeded);
    assert_eq!(error.message, "Provider returned error: prompt is too long: 5 tokens");
}

fn quota_error(details: &Value) -> Value {
    json!({"error": {"code": 429, "message": "You exceeded your current quota", "details": details}})
}

#[test]
fn a_time_to_wait_does_not_make_an_overload_a_rate_limit() {
    let error = json!({"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]});
    let body = json!({ "error": error }).to_string();
    let error =
        of_response(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new(), body.as_bytes(), SystemTime::now());
    assert_eq!((error.kind, error.retry_after), (ErrorKind::Overloaded, Some(Duration::from_secs(3))));
}

#[test]
fn the_span_of_a_quota_says_whether_waiting_helps() {
    let of = |id: &str| json!({"violations": [{"quotaId": id}]});
    let wait = json!({"retryDelay": "34.4s"});
    let minute = of("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let day = of("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let class = |body: &Value| quota::class(body).map(|(kind, _)| kind);
    assert_eq!(class(&quota_error(&json!([minute, wait]))), Some(ErrorKind::Rate));
    assert_eq!(class(&quota_error(&json!([minute, day, wait]))), Some(ErrorKind::Quota));
    assert_eq!(class(&json!([quota_error(&json!([day]))])), Some(ErrorKind::Quota));
    assert_eq!(class(&quota_error(&json!([wait]))), Some(ErrorKind::Rate));
    assert_eq!(class(&quota_error(&json!([{"reason": "API_KEY_INVALID"}]))), None);
    assert_eq!(class(&json!({"error": "text"})), None);
}
