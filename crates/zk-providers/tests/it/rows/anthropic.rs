use serde_json::{Value, json};
use zk_core::model::ErrorKind;

use super::{ID, Row, stream};

const P: &str = "anthropic";
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hel\"}}\n\n";

fn body(kind: &str, message: &str, details: &Value) -> String {
    let error = json!({"type": kind, "message": message, "details": details});
    json!({"type": "error", "error": error, "request_id": ID}).to_string()
}

fn typed(kind: &str, message: &str) -> String {
    body(kind, message, &Value::Null)
}

fn coded(kind: &str, code: &str, message: &str) -> String {
    body(kind, message, &json!({"error_code": code}))
}

fn event(kind: &str, message: &str) -> String {
    format!("{START}event: error\ndata: {}\n\n", typed(kind, message))
}

fn rejected() -> Vec<Row> {
    let messages = [
        "temperature: range: 0..1",
        "`temperature` may only be set to 1 when thinking is enabled",
        "`max_tokens` must be greater than `thinking.budget_tokens`",
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        "This model does not support effort level 'xhigh'. Supported levels: low, medium, high.",
        "Unexpected value(s) `x-2026-01-01` for the `anthropic-beta` header",
        "messages: text content blocks must be non-empty",
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`",
        "messages.3: `thinking` blocks in the latest assistant message cannot be modified",
        "role 'system' is not supported on this model",
        "The compiled grammar is too large",
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ];
    let said = messages.into_iter().map(|message| {
        let body = typed("invalid_request_error", message);
        Row::new(P, ("400 Bad Request", body), ErrorKind::Rejected, message, "change what the provider names")
    });
    let codes = ["prefix_binding_mismatch", "thread_not_found", "compaction_input_too_small"];
    let named = codes.into_iter().map(|code| {
        let body = coded("invalid_request_error", code, "The request cannot be served.");
        let cause = "The request cannot be served";
        Row::new(P, ("400 Bad Request", body), ErrorKind::Rejected, cause, "change what the provider names")
            .code(code)
    });
    said.chain(named).collect()
}

fn by_status() -> Vec<Row> {
    let bad = "400 Bad Request";
    let limited = "429 Too Many Requests";
    vec![
        Row::new(
            P,
            (bad, typed("invalid_request_error", "You have reached your specified API usage limits.")),
            ErrorKind::Quota,
            "specified API usage limits",
            "account's own settings",
        ),
        Row::new(
            P,
            (bad, typed("invalid_request_error", "Your credit balance is too low to use the API.")),
            ErrorKind::Quota,
            "credit balance",
            "check the account's credit",
        ),
        Row::new(
            P,
            (bad, typed("invalid_request_error", "prompt is too long: 3333404 tokens > 200000 maximum")),
            ErrorKind::ContextExceeded,
            "3333404 tokens > 200000",
            "larger window",
        ),
        Row::new(
            P,
            ("401 Unauthorized", typed("authentication_error", "invalid x-api-key")),
            ErrorKind::Auth,
            "invalid x-api-key",
            "Check the API key",
        ),
        Row::new(
            P,
            ("402 Payment Required", typed("billing_error", "There is an issue with your payment method.")),
            ErrorKind::Quota,
            "payment method",
            "how the account is paid for",
        ),
        Row::new(
            P,
            ("403 Forbidden", typed("permission_error", "Your key may not use this resource.")),
            ErrorKind::Auth,
            "may not use",
            "check its rights",
        ),
        Row::new(
            P,
            ("404 Not Found", typed("not_found_error", "model: m-1")),
            ErrorKind::Rejected,
            "model: m-1",
            "name of the model",
        ),
        Row::new(
            P,
            ("409 Conflict", typed("conflict_error", "The resource was changed.")),
            ErrorKind::Overloaded,
            "was changed",
            "changes the same thing",
        ),
        Row::new(
            P,
            ("413 Payload Too Large", typed("request_too_large", "Request exceeds the maximum size")),
            ErrorKind::ContextExceeded,
            "maximum size",
            "too many bytes",
        ),
        Row::with(
            P,
            limited,
            "retry-after: 7\r\nx-should-retry: true\r\n",
            typed("rate_limit_error", "This request would exceed your organization's rate limit."),
            ErrorKind::Rate,
            "rate limit",
            "larger plan",
        )
        .waits(7.0),
        Row::with(
            P,
            limited,
            "retry-after: 12\r\n",
            coded("rate_limit_error", "ramp_limit_exceeded", "Usage grows too fast."),
            ErrorKind::Rate,
            "grows too fast",
            "grow slowly",
        )
        .waits(12.0)
        .code("ramp_limit_exceeded"),
        Row::new(
            P,
            (limited, coded("rate_limit_error", "enforced_spend_limit_reached", "Spend limit reached.")),
            ErrorKind::Quota,
            "Spend limit",
            "its owner can raise it",
        )
        .code("enforced_spend_limit_reached"),
        Row::new(
            P,
            (limited, coded("rate_limit_error", "contract_spend_limit_reached", "Contract limit reached.")),
            ErrorKind::Quota,
            "Contract limit",
            "the provider can raise it",
        )
        .code("contract_spend_limit_reached"),
        Row::new(
            P,
            ("500 Internal Server Error", typed("api_error", "Internal server error")),
            ErrorKind::Overloaded,
            "Internal server error",
            "itself failed",
        ),
        Row::new(
            P,
            ("503 Service Unavailable", typed("api_error", "Service is temporarily unavailable")),
            ErrorKind::Overloaded,
            "temporarily unavailable",
            "try again in a while",
        ),
        Row::new(
            P,
            ("504 Gateway Timeout", typed("timeout_error", "Request timed out")),
            ErrorKind::Overloaded,
            "timed out",
            "too long",
        ),
        Row::new(
            P,
            ("529 Overloaded", typed("overloaded_error", "Overloaded")),
            ErrorKind::Overloaded,
            "Overloaded",
            "more requests than it can take",
        ),
    ]
}

/// Rows in which the provider's statement on retries overrides the class.
fn by_header() -> Vec<Row> {
    let overloaded = typed("overloaded_error", "Overloaded");
    let busy = "529 Overloaded";
    let class = ErrorKind::Overloaded;
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + std::time::Duration::from_secs(600));
    vec![
        Row::with(
            P,
            "503 Service Unavailable",
            "x-should-retry: false\r\n",
            typed("overloaded_error", "No use"),
            class,
            "No use",
            "",
        )
        .retried(false),
        Row::with(
            P,
            "400 Bad Request",
            "x-should-retry: true\r\n",
            typed("invalid_request_error", "Later"),
            ErrorKind::Rejected,
            "Later",
            "",
        )
        .retried(true),
        Row::with(
            P,
            busy,
            "retry-after-ms: 250.5\r\n",
            overloaded.replace("Overloaded", "Over 1"),
            class,
            "Over 1",
            "",
        )
        .waits(0.2505),
        Row::with(
            P,
            busy,
            "retry-after: 1.5\r\n",
            overloaded.replace("Overloaded", "Over 2"),
            class,
            "Over 2",
            "",
        )
        .waits(1.5),
        Row::with(
            P,
            busy,
            &format!("retry-after: {date}\r\n"),
            overloaded.replace("Overloaded", "Over 3"),
            class,
            "Over 3",
            "",
        )
        .waits_until(600.0),
    ]
}

fn in_stream() -> Vec<Row> {
    vec![
        Row::streaming(
            P,
            event("overloaded_error", "Overloaded"),
            ErrorKind::Overloaded,
            "Overloaded",
            "more requests than it can take",
        ),
        Row::streaming(P, event("api_error", "Oops"), ErrorKind::Overloaded, "Oops", "itself failed"),
        Row::streaming(P, event("rate_limit_error", "Too fast"), ErrorKind::Rate, "Too fast", "larger plan"),
        Row::streaming(
            P,
            event("invalid_request_error", "Not like this"),
            ErrorKind::Rejected,
            "Not like this",
            "change what the provider names",
        ),
        Row::streaming(
            P,
            START,
            ErrorKind::Malformed,
            "ended without `message_stop`",
            "cuts long answers off",
        ),
        Row::streaming(
            P,
            format!("{START}data: {{\"type\": oops\n\n"),
            ErrorKind::Malformed,
            "cannot be read",
            "base URL",
        ),
        Row::replying(P, stream(P, ""), ErrorKind::Malformed, "ended before it began", "too long for them")
            .at(zk_core::model::Phase::FirstEvent),
        Row::with(P, "200 OK", "", "{\"a\":1}", ErrorKind::Malformed, "not a stream", "right base URL"),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    [rejected(), by_status(), by_header(), in_stream()].into_iter().flatten().collect()
}
