use serde_json::{Value, json};
use zk_core::model::{ErrorKind, Phase};

use super::{Row, data};

const BAD: &str = "400 Bad Request";
const LIMITED: &str = "429 Too Many Requests";
const CHANGE: &str = "change what the provider names";

fn gemini() -> Vec<Row> {
    let p = "gemini";
    let error = |code: u16, status: &str, message: &str, details: Value| json!({"error": {"code": code, "message": message, "status": status, "details": details}});
    let body = |code, status: &str, message: &str| error(code, status, message, json!([])).to_string();
    let reason = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let quota = |id: &str| json!([{"violations": [{"quotaId": id}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}]);
    let exhausted =
        |message: &str, id: &str| error(429, "RESOURCE_EXHAUSTED", message, quota(id)).to_string();
    let overflow = "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).";
    let said = [
        "Function call is missing a thought_signature in functionCall parts.",
        "Please ensure that the number of function response parts is equal to the number of function call parts.",
        "You can only set only one of thinking budget and thinking level.",
    ];
    let said = said.into_iter().map(|said| {
        Row::new(p, (BAD, body(400, "INVALID_ARGUMENT", said)), ErrorKind::Rejected, said, CHANGE)
    });
    let text = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hel"}]}}]});
    let ended = |reason: &str| data([text.clone(), json!({"candidates": [{"finishReason": reason}]})]);
    let wrapped = Value::Array(vec![error(503, "UNAVAILABLE", "It is down", json!([]))]);
    let more = vec![
        Row::new(
            p,
            (BAD, error(400, "INVALID_ARGUMENT", "API key not valid.", reason).to_string()),
            ErrorKind::Auth,
            "API key not valid",
            "Check the API key",
        )
        .code("API_KEY_INVALID"),
        Row::new(
            p,
            (BAD, body(400, "INVALID_ARGUMENT", overflow)),
            ErrorKind::ContextExceeded,
            "1250074",
            "window",
        ),
        Row::new(
            p,
            (LIMITED, exhausted("A minute's worth", "GenerateRequestsPerMinutePerProject")),
            ErrorKind::Rate,
            "A minute's worth",
            "larger plan",
        )
        .waits(48.0),
        Row::new(
            p,
            (LIMITED, exhausted("A day's worth", "GenerateRequestsPerDayPerProject")),
            ErrorKind::Quota,
            "A day's worth",
            "wait for the next day",
        )
        .waits(48.0),
        Row::new(
            p,
            ("503 Service Unavailable", body(503, "UNAVAILABLE", "The model is overloaded.")),
            ErrorKind::Overloaded,
            "overloaded",
            "away",
        ),
        Row::new(
            p,
            ("503 Service Unavailable", wrapped.to_string()),
            ErrorKind::Overloaded,
            "is down",
            "away",
        ),
        Row::new(
            p,
            ("500 Internal Server Error", body(500, "INTERNAL", "Internal error")),
            ErrorKind::Overloaded,
            "Internal error",
            "itself failed",
        ),
        Row::new(
            p,
            ("403 Forbidden", body(403, "PERMISSION_DENIED", "Not for this project")),
            ErrorKind::Auth,
            "Not for this project",
            "check its rights",
        ),
        Row::new(
            p,
            ("404 Not Found", body(404, "NOT_FOUND", "models/m-1 is not found")),
            ErrorKind::Rejected,
            "models/m-1",
            "name of the model",
        ),
        Row::streaming(
            p,
            ended("MALFORMED_FUNCTION_CALL"),
            ErrorKind::Malformed,
            "tool call that cannot be read",
            "another model",
        )
        .retried(true)
        .code("MALFORMED_FUNCTION_CALL"),
        Row::streaming(
            p,
            ended("UNEXPECTED_TOOL_CALL"),
            ErrorKind::Malformed,
            "was not given",
            "more of the tools",
        )
        .retried(true),
        Row::streaming(
            p,
            ended("TOO_MANY_TOOL_CALLS"),
            ErrorKind::Malformed,
            "too many tools",
            "less at once",
        ),
        Row::streaming(
            p,
            ended("MISSING_THOUGHT_SIGNATURE"),
            ErrorKind::Malformed,
            "thought signature",
            "new session",
        ),
        Row::streaming(p, data([&text]), ErrorKind::Malformed, "without `finishReason`", "cuts long answers"),
        Row::streaming(
            p,
            data([&text, &error(500, "INTERNAL", "Half way", json!([]))]),
            ErrorKind::Overloaded,
            "Half way",
            "itself failed",
        ),
    ];
    said.chain(more).collect()
}

fn ollama() -> Vec<Row> {
    let p = "ollama";
    let error = |text: &str| json!({ "error": text }).to_string();
    let begun = json!({"message": {"content": "half"}, "done": false});
    let too_long = "prompt too long; exceeded max context length by 4 tokens (ref: x)";
    vec![
        Row::new(
            p,
            ("404 Not Found", error("model 'm-1' not found")),
            ErrorKind::Rejected,
            "not found",
            "ollama pull m-1",
        ),
        Row::new(
            p,
            (BAD, error("m-1 does not support tools")),
            ErrorKind::Rejected,
            "support tools",
            "cannot call tools",
        ),
        Row::new(
            p,
            (BAD, error("\"m-1\" does not support thinking")),
            ErrorKind::Rejected,
            "thinking",
            "turn thinking off",
        ),
        Row::new(
            p,
            (BAD, error("the input length exceeds the context length")),
            ErrorKind::ContextExceeded,
            "exceeds the context length",
            "larger window",
        ),
        Row::new(p, (BAD, error(too_long)), ErrorKind::ContextExceeded, "by 4 tokens", "larger window"),
        Row::new(p, ("401 Unauthorized", error("Unauthorized")), ErrorKind::Auth, "Unauthorized", "API key"),
        Row::new(
            p,
            (
                "500 Internal Server Error",
                error("model requires more system memory (9 GiB) than is available"),
            ),
            ErrorKind::Rejected,
            "9 GiB",
            "smaller",
        ),
        Row::new(
            p,
            ("503 Service Unavailable", error("server busy, please try again")),
            ErrorKind::Overloaded,
            "busy",
            "away",
        ),
        Row::streaming(
            p,
            format!("{begun}\n{}\n", error("unexpected EOF")),
            ErrorKind::Overloaded,
            "unexpected EOF",
            "could not go on",
        ),
        Row::streaming(p, format!("{begun}\n"), ErrorKind::Malformed, "without `done`", "cuts long answers"),
        Row::streaming(p, "{\"message\": oops\n", ErrorKind::Malformed, "oops", "dialect")
            .at(Phase::FirstEvent),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    [gemini(), ollama()].into_iter().flatten().collect()
}
