use serde::Serialize;
use serde_json::{Value, json};
use zk_agent::RunOutcome;
use zk_core::events::PermissionDecided;
use zk_core::model::{AgentError, CallId, SessionId, StopReason, Usage};
use zk_core::service::Redactor;

use zk_chat::is_empty;
use zk_view::{RefusedCall, escape_controls, redact_json};

/// Version of the result's JSON shape. Additions increase the second part, removals the first.
const VERSION: &str = "1.0";

/// The words of [`RunResult::subtype`].
const SUBTYPES: [&str; 11] = [
    "success",
    "max_tokens",
    "empty",
    "refusal",
    "incomplete",
    "denied",
    "auth",
    "limit",
    "aborted",
    "context_exceeded",
    "error",
];

/// End of a run, which the program has an exit code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnding {
    /// The run did what it was asked.
    Done,
    /// Every call of the last step was refused.
    Denied,
    /// There is no key, or the provider does not accept it.
    Auth,
    /// A limit of the run was reached.
    Limit,
    /// The run failed or was stopped.
    Failed,
}

/// Returns the JSON Schema of a [`RunResult`].
fn json_schema() -> Value {
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let texts = json!({ "type": "array", "items": text });
    let nullable = |kind: &str| json!({ "type": [kind, "null"] });
    let denied = json!({
        "type": "object",
        "properties": { "tool": text, "reason": text },
        "required": ["tool", "reason"],
    });
    let denial = json!({
        "type": "object",
        "properties": {
            "tool": text, "call_id": text, "args": {}, "reasons": texts,
            "allowed_by": nullable("string"), "flag": nullable("string"),
        },
        "required": ["tool", "call_id", "args", "reasons", "allowed_by", "flag"],
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What a run comes to: the object of `--output-format json`, and the last line of `stream-json`",
        "version": VERSION,
        "type": "object",
        "properties": {
            "type": { "const": "result" },
            "subtype": { "enum": SUBTYPES },
            "result": text,
            "is_error": { "type": "boolean" },
            "stop_reason": text,
            "turns": count,
            "usage": {
                "type": "object",
                "properties": {
                    "input": count, "output": count, "cache_read": count, "cache_write": count, "reasoning": count,
                    "cache_write_1h": count, "billed": count, "unpriced": count, "last_read": count,
                },
                "required": ["input", "output", "cache_read", "cache_write", "reasoning"],
            },
            "cost": nullable("number"),
            "session_id": nullable("string"),
            "duration_ms": count,
            "output": {},
            "denied": { "type": "array", "items": denied },
            "permission_denials": { "type": "array", "items": denial },
            "error": text,
        },
        "required": [
            "type", "subtype", "result", "is_error", "stop_reason", "turns", "usage", "cost", "session_id", "duration_ms",
        ],
        "additionalProperties": false,
    })
}

/// Result of a run: the one object of `--output-format json`, and the last line of `stream-json`.
///
/// `is_error` holds exactly when the exit code is not 0.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Outcome of the run: `success`, `max_tokens`, `empty`, `refusal` or `incomplete` with exit code 0,
    /// otherwise `denied`, `auth`, `limit`, `aborted`, `context_exceeded` or `error`.
    subtype: &'static str,
    result: String,
    is_error: bool,
    stop_reason: String,
    turns: u32,
    usage: Usage,
    /// In US dollars, as far as prices are known; nothing where none is.
    cost: Option<f64>,
    session_id: Option<SessionId>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// The calls of the run that were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denied: Vec<RefusedCall>,
    /// The calls that nobody approved or that were not allowed, those of sub-agents included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permission_denials: Vec<PermissionDenial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A call that the permission gate refused.
#[derive(Clone, Debug, Serialize)]
pub struct PermissionDenial {
    tool: String,
    call_id: CallId,
    args: Value,
    reasons: Vec<String>,
    /// The tightest permission mode in which it would have run; nothing where a rule stands against it in every mode.
    pub allowed_by: Option<String>,
    /// The flag that chooses that mode.
    flag: Option<String>,
}

impl PermissionDenial {
    /// Creates the record of a refused call; `flag` names the flag that chooses a mode.
    #[must_use]
    pub fn of(decided: &PermissionDecided, flag: impl Fn(&str) -> String) -> Self {
        let allowed_by = decided.allowed_by.clone();
        Self {
            tool: decided.call.name.clone(),
            call_id: decided.call.call_id.clone(),
            args: decided.args.clone(),
            reasons: decided.reasons.clone(),
            flag: allowed_by.as_deref().map(flag),
            allowed_by,
        }
    }
}

impl RunResult {
    /// Returns the JSON Schema of the object.
    #[must_use]
    pub fn json_schema() -> Value {
        json_schema()
    }

    /// Creates the result of a run with the `text` of its answer, and its calls that were refused.
    #[must_use]
    pub fn new(
        outcome: &RunOutcome,
        text: String,
        ending: RunEnding,
        error: Option<String>,
        session_id: Option<SessionId>,
        (denied, permission_denials): (Vec<RefusedCall>, Vec<PermissionDenial>),
    ) -> Self {
        let stats = &outcome.stats;
        Self {
            kind: "result",
            subtype: subtype(outcome, ending, &text),
            result: text,
            is_error: ending != RunEnding::Done,
            stop_reason: stop_reason(outcome).to_owned(),
            turns: stats.turns,
            usage: stats.usage,
            cost: stats.known_cost(),
            session_id,
            duration_ms: stats.duration_ms,
            output: stats.output.clone(),
            denied,
            permission_denials,
            error,
        }
    }

    /// Creates the result of a run that could not even begin.
    #[must_use]
    pub fn not_begun(ending: RunEnding, message: String) -> Self {
        Self {
            kind: "result",
            subtype: if ending == RunEnding::Auth { "auth" } else { "error" },
            result: String::new(),
            is_error: true,
            stop_reason: "error".to_owned(),
            turns: 0,
            usage: Usage::default(),
            cost: Some(0.0),
            session_id: None,
            duration_ms: 0,
            output: None,
            denied: Vec::new(),
            permission_denials: Vec::new(),
            error: Some(message),
        }
    }

    /// Appends the result as one line, without secrets.
    pub fn write(&self, out: &mut Vec<u8>, redactor: &Redactor) {
        // Strings, numbers and JSON values always serialise.
        let begin = out.len();
        let _ = serde_json::to_writer(&mut *out, self);
        redact_json(out, begin, redactor);
        escape_controls(out, begin);
        out.push(b'\n');
    }
}

fn subtype(outcome: &RunOutcome, ending: RunEnding, text: &str) -> &'static str {
    match (ending, &outcome.result, &outcome.stop) {
        (RunEnding::Done, _, Some(StopReason::MaxTokens)) => "max_tokens",
        (RunEnding::Done, _, Some(StopReason::Refusal(_))) => "refusal",
        (RunEnding::Done, _, Some(StopReason::Other(_))) => "incomplete",
        (RunEnding::Done, ..) if is_empty(outcome, text) => "empty",
        (RunEnding::Done, ..) => "success",
        (RunEnding::Denied, ..) => "denied",
        (RunEnding::Auth, ..) => "auth",
        (RunEnding::Limit, ..) => "limit",
        (_, Err(AgentError::Aborted), _) => "aborted",
        (_, Err(AgentError::ContextExceeded(_)), _) => "context_exceeded",
        (RunEnding::Failed, ..) => "error",
    }
}

fn stop_reason(outcome: &RunOutcome) -> &str {
    match &outcome.result {
        Ok(()) => outcome.stop.as_ref().map_or("end_turn", |stop| stop.as_str()),
        Err(AgentError::Aborted) => "aborted",
        Err(AgentError::TurnLimit { .. }) => "turn_limit",
        Err(AgentError::Budget { .. }) => "budget",
        Err(AgentError::Parked { .. } | AgentError::AwaitsTime { .. }) => "parked",
        Err(AgentError::HandedOver) => "handed_over",
        Err(AgentError::AwaitsChildren { .. }) => "awaits_children",
        Err(AgentError::Fenced) => "fenced",
        Err(AgentError::StoreFailed { .. }) => "store_failed",
        Err(AgentError::Stuck { .. }) => "stuck",
        Err(AgentError::ContextExceeded(_)) => "context_exceeded",
        Err(
            AgentError::Provider(_)
            | AgentError::Hook(_)
            | AgentError::Unguarded { .. }
            | AgentError::Usage(_)
            | AgentError::Output(_),
        ) => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the schema describes every field of `value`, and that no required field is missing.
    fn follows(value: &Value, schema: &Value) {
        let fields = value.as_object().unwrap();
        for (field, value) in fields {
            let described = &schema["properties"][field];
            assert!(!described.is_null(), "{field} is not described");
            if let Some(words) = described["enum"].as_array() {
                assert!(words.contains(value), "{field}: {value}");
            }
            if described["items"]["properties"].is_object() {
                value.as_array().unwrap().iter().for_each(|item| follows(item, &described["items"]));
            }
            if described["properties"].is_object() {
                follows(value, described);
            }
        }
        for field in schema["required"].as_array().unwrap() {
            assert!(fields.contains_key(field.as_str().unwrap()), "{field} is missing");
        }
    }

    #[test]
    fn what_is_printed_follows_the_schema() {
        let full = RunResult {
            kind: "result",
            subtype: "denied",
            result: "Done.".into(),
            is_error: true,
            stop_reason: "end_turn".into(),
            turns: 2,
            usage: Usage { input: 3, billed: Some(4), last_read: Some(1), ..Usage::default() },
            cost: None,
            session_id: Some("s".into()),
            duration_ms: 5,
            output: Some(json!({ "a": [1] })),
            denied: vec![RefusedCall { tool: "shell".into(), reason: "no".into() }],
            permission_denials: vec![PermissionDenial {
                tool: "shell".into(),
                call_id: "c".into(),
                args: json!({ "command": "rm x" }),
                reasons: vec!["it writes".into()],
                allowed_by: Some("all".into()),
                flag: None,
            }],
            error: Some("denied".into()),
        };
        let printed = serde_json::to_value(&full).unwrap();
        follows(&printed, &json_schema());
        assert_eq!(
            printed.as_object().unwrap().len(),
            json_schema()["properties"].as_object().unwrap().len()
        );
        for subtype in SUBTYPES {
            let least = RunResult {
                subtype,
                session_id: None,
                cost: Some(0.5),
                output: None,
                denied: Vec::new(),
                permission_denials: Vec::new(),
                error: None,
                result: String::new(),
                stop_reason: String::new(),
                ..full.clone()
            };
            follows(&serde_json::to_value(least).unwrap(), &json_schema());
        }
    }
}
