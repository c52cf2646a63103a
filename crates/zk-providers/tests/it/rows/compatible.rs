use serde_json::{Value, json};
use zk_core::model::{ErrorKind, Phase};

use super::{Row, data};

const BAD: &str = "400 Bad Request";
const LIMITED: &str = "429 Too Many Requests";
const CHANGE: &str = "change what the provider names";

fn error(error: impl Into<Value>) -> String {
    json!({ "error": error.into() }).to_string()
}

/// Chunk with some text, and the text after it.
fn behind(last: Value) -> String {
    data([json!({"model": "m-1", "choices": [{"delta": {"content": "hel"}}]}), last])
}

fn finish(reason: &str) -> String {
    behind(json!({"choices": [{"delta": {}, "finish_reason": reason}]}))
}

fn openrouter() -> Vec<Row> {
    let p = "openrouter";
    let coded = |code: u16, message: &str| {
        error(json!({"code": code, "message": message, "metadata": {"provider_name": "x"}}))
    };
    let overflow =
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021";
    let raw = json!({"code": 400, "message": "Provider returned error",
        "metadata": {"raw": "Unknown field `x`", "provider_name": "y"}});
    let flagged = json!({"code": 403, "message": "Your input was flagged",
        "metadata": {"reasons": ["violence"], "flagged_input": "…", "provider_name": "y"}});
    let inside = json!({"choices": [{"delta": {}, "finish_reason": "error",
        "error": {"code": 502, "message": "Upstream went away"}}]});
    vec![
        Row::new(
            p,
            (BAD, coded(400, "m-1 is not a valid model ID")),
            ErrorKind::Rejected,
            "not a valid",
            CHANGE,
        ),
        Row::new(p, (BAD, error(raw)), ErrorKind::Rejected, "Unknown field `x`", CHANGE),
        Row::new(p, (BAD, coded(400, overflow)), ErrorKind::ContextExceeded, "2500021", "larger window"),
        Row::new(
            p,
            ("401 Unauthorized", coded(401, "Missing Authentication header")),
            ErrorKind::Auth,
            "Missing Authentication",
            "No API key reached",
        ),
        Row::new(
            p,
            ("402 Payment Required", coded(402, "Insufficient credits")),
            ErrorKind::Quota,
            "Insufficient credits",
            "check the account's credit",
        ),
        Row::with(
            p,
            "402 Payment Required",
            "retry-after: 5\r\n",
            coded(402, "Credits are reserved by requests in flight"),
            ErrorKind::Rate,
            "in flight",
            "requests under way",
        )
        .waits(5.0),
        Row::new(p, ("403 Forbidden", error(flagged)), ErrorKind::Refused, "flagged", "other words"),
        Row::new(
            p,
            ("403 Forbidden", coded(403, "This key has no access")),
            ErrorKind::Auth,
            "no access",
            "check its rights",
        ),
        Row::new(
            p,
            ("404 Not Found", coded(404, "No endpoints found for this model")),
            ErrorKind::Rejected,
            "No endpoints",
            "it is served here",
        ),
        Row::new(
            p,
            ("408 Request Timeout", coded(408, "Timed out")),
            ErrorKind::Overloaded,
            "Timed out",
            "too long to arrive",
        ),
        Row::new(p, (LIMITED, coded(429, "Limited upstream")), ErrorKind::Rate, "Limited", "larger plan"),
        Row::new(
            p,
            ("502 Bad Gateway", coded(502, "Model is down")),
            ErrorKind::Overloaded,
            "down",
            "in front of the model",
        ),
        Row::new(
            p,
            ("503 Service Unavailable", coded(503, "No provider available")),
            ErrorKind::Overloaded,
            "No provider",
            "away",
        ),
        Row::new(p, ("200 OK", coded(502, "Failed behind")), ErrorKind::Overloaded, "behind", "in front"),
        Row::streaming(
            p,
            behind(
                json!({"error": {"code": 429, "message": "Cut off"}, "choices": [{"delta": {}, "finish_reason": "error"}]}),
            ),
            ErrorKind::Rate,
            "Cut off",
            "larger plan",
        ),
        Row::streaming(p, behind(inside), ErrorKind::Overloaded, "Upstream went away", "in front"),
    ]
}

fn deepseek() -> Vec<Row> {
    let p = "deepseek";
    let invalid = |message: &str| {
        error(json!({"message": message, "type": "invalid_request_error", "param": null,
            "code": "invalid_request_error"}))
    };
    let said = [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Thinking mode does not support this tool_choice",
        "unknown variant image_url, expected text",
        "No tool output found for tool call call-a.",
    ];
    let said =
        said.into_iter().map(|said| Row::new(p, (BAD, invalid(said)), ErrorKind::Rejected, said, CHANGE));
    let overflow =
        "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens";
    let more = [
        Row::new(p, (BAD, invalid(overflow)), ErrorKind::ContextExceeded, "1250025", "larger window"),
        Row::new(
            p,
            ("402 Payment Required", invalid("Insufficient Balance")),
            ErrorKind::Quota,
            "Balance",
            "check the account's credit",
        ),
        Row::streaming(
            p,
            finish("insufficient_system_resource"),
            ErrorKind::Overloaded,
            "`insufficient_system_resource`",
            "could not go on",
        ),
    ];
    said.chain(more).collect()
}

fn hosted() -> Vec<Row> {
    let groq_call = json!({"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=f{>"});
    let mistral = |kind: &str, code: &str, message: &str| {
        json!({"object": "error", "message": message, "type": kind, "param": null, "code": code}).to_string()
    };
    let detail =
        json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "Extra inputs"}]});
    vec![
        Row::new("groq", (BAD, error(groq_call)), ErrorKind::Rejected, "The model wrote: <function=f{>", "wrote a tool call")
            .retried(true)
            .code("tool_use_failed"),
        Row::new(
            "groq",
            (BAD, error(json!({"message": "Please reduce the length of the messages or completion."}))),
            ErrorKind::ContextExceeded,
            "reduce the length",
            "larger window",
        ),
        Row::new(
            "groq",
            ("413 Payload Too Large", error(json!({"message": "Request too large for model"}))),
            ErrorKind::ContextExceeded,
            "too large for model",
            "too many bytes",
        ),
        Row::streaming(
            "groq",
            format!("{}event: error\n{}", behind(json!({})), data([json!({"error": {"message": "Stopped", "type": "server_error"}})])),
            ErrorKind::Overloaded,
            "Stopped",
            "itself failed",
        ),
        Row::new(
            "xai",
            (BAD, json!({"code": "invalid-argument", "error": "Incorrect API key provided: x***y"}).to_string()),
            ErrorKind::Auth,
            "Incorrect API key",
            "Check the API key",
        ),
        Row::new(
            "xai",
            (BAD, json!({"code": "invalid-argument", "error": "Argument not supported: stop"}).to_string()),
            ErrorKind::Rejected,
            "Argument not supported",
            CHANGE,
        )
        .code("invalid-argument"),
        Row::new(
            "xai",
            (BAD, json!({"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}).to_string()),
            ErrorKind::ContextExceeded,
            "537812",
            "larger window",
        ),
        Row::new(
            "mistral",
            (BAD, mistral("invalid_model", "1500", "Invalid model: m-1")),
            ErrorKind::Rejected,
            "Invalid model",
            CHANGE,
        ),
        Row::new(
            "mistral",
            ("422 Unprocessable Entity", detail.to_string()),
            ErrorKind::Rejected,
            "Extra inputs at",
            "another dialect",
        ),
        Row::new(
            "mistral",
            ("401 Unauthorized", json!({"detail": "Unauthorized"}).to_string()),
            ErrorKind::Auth,
            "Unauthorized",
            "Check the API key",
        ),
        Row::new(
            "mistral",
            (LIMITED, mistral("rate_limited", "1300", "Rate limit exceeded")),
            ErrorKind::Rate,
            "Rate limit",
            "larger plan",
        ),
        Row::new(
            "mistral",
            (BAD, mistral("invalid_request", "3051", "Prompt contains 325011 tokens, too large for model with 262144 maximum context length")),
            ErrorKind::ContextExceeded,
            "325011",
            "larger window",
        ),
        Row::new(
            "zai",
            (BAD, error(json!({"code": "1261", "message": "The input is longer than it may be"}))),
            ErrorKind::ContextExceeded,
            "longer than it may be",
            "larger window",
        ),
        Row::streaming("zai", finish("network_error"), ErrorKind::Overloaded, "`network_error`", "could not go on"),
        Row::streaming("zai", finish("error"), ErrorKind::Overloaded, "`error`", "could not go on"),
        Row::new(
            "moonshot",
            (BAD, error(json!({"message": "Your request exceeded model token limit: 262144", "type": "invalid_request_error"}))),
            ErrorKind::ContextExceeded,
            "262144",
            "larger window",
        ),
        Row::streaming("moonshot", behind(json!({})), ErrorKind::Malformed, "without `finish_reason`", "cuts long"),
    ]
}

fn cerebras() -> Vec<Row> {
    let p = "cerebras";
    let wrong = |kind: &str, code: &str, message: &str| {
        json!({"message": message, "type": kind, "param": "x", "code": code}).to_string()
    };
    vec![
        Row::new(
            p,
            (BAD, wrong("invalid_request_error", "wrong_api_format", "property 'logit_bias' is unsupported")),
            ErrorKind::Rejected,
            "'logit_bias'",
            CHANGE,
        ),
        Row::new(p, (BAD, ""), ErrorKind::ContextExceeded, "without a body", "means that it is too long"),
        Row::new(
            p,
            ("413 Payload Too Large", ""),
            ErrorKind::ContextExceeded,
            "without a body",
            "too many bytes",
        ),
        Row::new(
            p,
            ("422 Unprocessable Entity", wrong("invalid_request_error", "x", "Field 'y' is not known")),
            ErrorKind::Rejected,
            "'y' is not known",
            "another dialect",
        ),
        Row::new(
            p,
            (LIMITED, wrong("too_many_requests_error", "queue_exceeded", "We see high traffic")),
            ErrorKind::Rate,
            "high traffic",
            "queue is full",
        )
        .code("queue_exceeded"),
    ]
}

fn local() -> Vec<Row> {
    let p = "llama.cpp";
    let coded = |code: u16, kind: &str, message: &str| {
        error(json!({"code": code, "message": message, "type": kind, "n_prompt_tokens": 9000, "n_ctx": 4096}))
    };
    let failed = "500 Internal Server Error";
    vec![
        Row::new(
            p,
            (BAD, coded(400, "exceed_context_size_error", "the request exceeds it (9000 tokens)")),
            ErrorKind::ContextExceeded,
            "9000",
            "larger window",
        ),
        Row::new(
            p,
            (failed, coded(500, "server_error", "tools param requires --jinja flag")),
            ErrorKind::Rejected,
            "--jinja",
            "Start llama-server with",
        ),
        Row::new(
            p,
            (failed, coded(500, "server_error", "image input is not supported")),
            ErrorKind::Rejected,
            "image input",
            "sees no images",
        ),
        Row::new(
            p,
            (failed, coded(500, "server_error", "Failed to parse messages: no template")),
            ErrorKind::Rejected,
            "Failed to parse",
            "chat template",
        ),
        Row::new(
            p,
            ("503 Service Unavailable", coded(503, "unavailable_error", "Loading model")),
            ErrorKind::Overloaded,
            "Loading model",
            "still loads",
        ),
        Row::streaming(p, "", ErrorKind::Malformed, "before it began", "too long for them")
            .at(Phase::FirstEvent),
        Row::streaming(
            p,
            behind(json!({"error": {"code": 500, "message": "Slot gone", "type": "server_error"}})),
            ErrorKind::Overloaded,
            "Slot gone",
            "itself failed",
        ),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    [openrouter(), deepseek(), hosted(), cerebras(), local()].into_iter().flatten().collect()
}
