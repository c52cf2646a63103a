use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, Phase};

use super::{Row, data};

const BAD: &str = "400 Bad Request";
const LIMITED: &str = "429 Too Many Requests";
const CHANGE: &str = "change what the provider names";

fn body(kind: &str, code: &str, message: &str) -> String {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

fn invalid(message: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}})
        .to_string()
}

/// Returns the answers that both of its APIs give.
fn of_both(p: &'static str) -> Vec<Row> {
    vec![
        Row::new(
            p,
            ("401 Unauthorized", body("invalid_request_error", "invalid_api_key", "Incorrect API key: sk-…")),
            ErrorKind::Auth,
            "Incorrect API key",
            "Check the API key",
        )
        .code("invalid_api_key"),
        Row::new(
            p,
            ("403 Forbidden", body("request_forbidden", "unsupported_country", "Country not supported")),
            ErrorKind::Auth,
            "Country not supported",
            "check its rights",
        ),
        Row::with(
            p,
            LIMITED,
            "retry-after-ms: 820\r\nretry-after: 1\r\n",
            body("requests", "rate_limit_exceeded", "Rate limit reached for requests"),
            ErrorKind::Rate,
            "Rate limit reached",
            "larger plan",
        )
        .waits(0.82)
        .code("rate_limit_exceeded"),
        Row::new(
            p,
            (LIMITED, body("insufficient_quota", "insufficient_quota", "You exceeded your current quota")),
            ErrorKind::Quota,
            "current quota",
            "check the account's credit",
        ),
        Row::new(
            p,
            (BAD, body("invalid_request_error", "billing_hard_limit_reached", "Billing hard limit reached")),
            ErrorKind::Quota,
            "hard limit",
            "its owner can raise it",
        ),
        Row::new(
            p,
            (BAD, body("invalid_request_error", "context_length_exceeded", "It exceeds the context window")),
            ErrorKind::ContextExceeded,
            "exceeds the context window",
            "larger window",
        ),
        Row::new(
            p,
            (
                BAD,
                body("invalid_request_error", "unsupported_parameter", "Unsupported parameter: 'max_tokens'"),
            ),
            ErrorKind::Rejected,
            "'max_tokens'",
            "does not take this setting",
        ),
        Row::new(
            p,
            (BAD, body("invalid_request_error", "unsupported_value", "Unsupported value: 'temperature'")),
            ErrorKind::Rejected,
            "'temperature'",
            "does not take this setting",
        ),
        Row::new(
            p,
            ("500 Internal Server Error", body("server_error", "server_error", "The server had an error")),
            ErrorKind::Overloaded,
            "had an error",
            "itself failed",
        ),
        Row::new(
            p,
            ("503 Service Unavailable", body("server_error", "slow_down", "Slow down")),
            ErrorKind::Overloaded,
            "Slow down",
            "more requests than it can take",
        ),
    ]
}

fn responses() -> Vec<Row> {
    let p = "responses";
    let unpaired = [
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        "No tool output found for function call call_1.",
        "No tool call found for function call output with call_id call_2.",
    ];
    let unpaired =
        unpaired.into_iter().map(|said| Row::new(p, (BAD, invalid(said)), ErrorKind::Rejected, said, CHANGE));
    let created = json!({"type": "response.created", "response": {"id": "resp_1", "model": "m-1"}});
    let ends = |events: &[Value]| data([std::slice::from_ref(&created), events].concat());
    let failed =
        |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    let error = |code: &str, message: &str| json!({"code": code, "message": message});
    let flat =
        |code: &str, message: &str| json!({"type": "error", "code": code, "message": message, "param": null});
    let streams = [
        (vec![flat("server_error", "It broke")], ErrorKind::Overloaded, "It broke", "itself failed"),
        (
            vec![flat("context_length_exceeded", "Your input exceeds the context window of this model.")],
            ErrorKind::ContextExceeded,
            "exceeds the context window",
            "larger window",
        ),
        (
            vec![
                json!({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Too fast"}}),
                failed(error("rate_limit_exceeded", "Too fast")),
            ],
            ErrorKind::Rate,
            "Too fast",
            "larger plan",
        ),
        (
            vec![failed(error("server_error", "Failed inside"))],
            ErrorKind::Overloaded,
            "Failed inside",
            "itself failed",
        ),
        (
            vec![failed(error("invalid_prompt", "Flagged"))],
            ErrorKind::Rejected,
            "Flagged",
            "does not take this prompt",
        ),
        (
            vec![failed(error("image_parse_error", "Unreadable"))],
            ErrorKind::Rejected,
            "Unreadable",
            "An image cannot be used",
        ),
        (
            vec![failed(Value::Null)],
            ErrorKind::Overloaded,
            "ended the response as `failed`",
            "could not go on",
        ),
        (
            vec![json!({"type": "response.cancelled", "response": {"status": "cancelled"}})],
            ErrorKind::Overloaded,
            "ended the response as `cancelled`",
            "could not go on",
        ),
        (vec![], ErrorKind::Malformed, "ended without `response.completed`", "cuts long answers off"),
    ];
    let streams = streams.into_iter().map(|(events, kind, says, helps)| {
        Row::streaming(p, ends(&events), kind, says, helps).at(Phase::FirstEvent)
    });
    let unknown = Row::new(
        p,
        (BAD, body("invalid_request_error", "model_not_found", "The requested model 'm-1' does not exist.")),
        ErrorKind::Rejected,
        "does not exist",
        "name of the model",
    );
    of_both(p).into_iter().chain(unpaired).chain([unknown]).chain(streams).collect()
}

/// The back end of a subscription.
fn codex() -> Vec<Row> {
    let p = "codex";
    let detail = |text: &str| json!({"detail": text}).to_string();
    let plan = |kind: &str, more: Value| {
        let mut error = json!({"type": kind, "plan_type": "plus", "message": format!("{kind} it is")});
        if let (Some(error), Value::Object(more)) = (error.as_object_mut(), more) {
            error.extend(more);
        }
        json!({"error": error}).to_string()
    };
    let resets = SystemTime::now() + Duration::from_secs(7200);
    let resets = resets.duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    vec![
        Row::new(p, (BAD, detail("Store must be set to false")), ErrorKind::Rejected, "Store must", CHANGE),
        Row::new(
            p,
            (BAD, detail("Unsupported parameter: max_output_tokens")),
            ErrorKind::Rejected,
            "max_output_tokens",
            CHANGE,
        ),
        Row::new(
            p,
            ("401 Unauthorized", detail("Could not parse your authentication token.")),
            ErrorKind::Auth,
            "authentication token",
            "Check the API key",
        ),
        Row::new(
            p,
            (LIMITED, plan("usage_limit_reached", json!({"resets_at": resets}))),
            ErrorKind::Quota,
            "usage_limit_reached",
            "is lifted in ",
        )
        .waits_until(7200.0),
        Row::new(
            p,
            (LIMITED, plan("usage_limit_reached", json!({"message": "No time given"}))),
            ErrorKind::Quota,
            "No time given",
            "until it renews",
        ),
        Row::new(
            p,
            (LIMITED, plan("usage_not_included", json!({}))),
            ErrorKind::Quota,
            "usage_not_included",
            "does not include this",
        ),
        Row::new(
            p,
            (LIMITED, plan("rate_limit_exceeded", json!({"resets_in_seconds": 20}))),
            ErrorKind::Rate,
            "rate_limit_exceeded",
            "larger plan",
        )
        .waits(20.0),
    ]
}

fn chat() -> Vec<Row> {
    let p = "openai";
    let unpaired = [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    ];
    let unpaired =
        unpaired.into_iter().map(|said| Row::new(p, (BAD, invalid(said)), ErrorKind::Rejected, said, CHANGE));
    let unknown = Row::new(
        p,
        ("404 Not Found", body("invalid_request_error", "model_not_found", "The model `m-1` does not exist")),
        ErrorKind::Rejected,
        "does not exist",
        "name of the model",
    );
    of_both(p).into_iter().chain(unpaired).chain([unknown]).collect()
}

pub(super) fn rows() -> Vec<Row> {
    [responses(), codex(), chat()].into_iter().flatten().collect()
}
