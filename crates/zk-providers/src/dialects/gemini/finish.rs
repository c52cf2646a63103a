//! Gemini's finish reasons.

use zk_core::model::StopReason;

use crate::wire::error::{WireError, quote};

/// Meaning of a finish reason.
#[derive(Clone, Copy)]
enum Meaning {
    End,
    Limit,
    Refusal,
    /// The response failed; the flag says whether a retry may succeed.
    Failure {
        retry: bool,
        words: &'static str,
        advice: &'static str,
    },
}

const REASONS: &[(&str, Meaning)] = &[
    ("STOP", Meaning::End),
    ("MAX_TOKENS", Meaning::Limit),
    ("SAFETY", Meaning::Refusal),
    ("RECITATION", Meaning::Refusal),
    ("LANGUAGE", Meaning::Refusal),
    ("BLOCKLIST", Meaning::Refusal),
    ("PROHIBITED_CONTENT", Meaning::Refusal),
    ("SPII", Meaning::Refusal),
    ("MODEL_ARMOR", Meaning::Refusal),
    ("IMAGE_SAFETY", Meaning::Refusal),
    ("IMAGE_PROHIBITED_CONTENT", Meaning::Refusal),
    ("IMAGE_RECITATION", Meaning::Refusal),
    (
        "MALFORMED_FUNCTION_CALL",
        Meaning::Failure {
            retry: true,
            words: "the model wrote a tool call that cannot be read",
            advice: "Try again, or take another model",
        },
    ),
    (
        "MALFORMED_RESPONSE",
        Meaning::Failure {
            retry: true,
            words: "the model wrote a response that cannot be read",
            advice: "Try again, or say it in other words",
        },
    ),
    (
        "UNEXPECTED_TOOL_CALL",
        Meaning::Failure {
            retry: true,
            words: "the model called a tool that it was not given",
            advice: "Try again, or let it have more of the tools",
        },
    ),
    (
        "TOO_MANY_TOOL_CALLS",
        Meaning::Failure {
            retry: false,
            words: "the model called too many tools in a row",
            advice: "Ask for less at once",
        },
    ),
    (
        "MISSING_THOUGHT_SIGNATURE",
        Meaning::Failure {
            retry: false,
            words: "a call in the history has lost its thought signature",
            advice: "Start a new session, or go on with another model",
        },
    ),
];

/// Returns the stop reason of a response, or the failure that its finish reason stands for.
pub(super) fn stop(reason: &str, message: Option<&str>, has_calls: bool) -> Result<StopReason, WireError> {
    match REASONS.iter().find(|(known, _)| *known == reason).map(|(_, means)| *means) {
        Some(Meaning::End) if has_calls => Ok(StopReason::ToolUse),
        Some(Meaning::End) => Ok(StopReason::EndTurn),
        Some(Meaning::Limit) => Ok(StopReason::MaxTokens),
        Some(Meaning::Refusal) => Ok(StopReason::Refusal(Some(quote(message.unwrap_or(reason))))),
        Some(Meaning::Failure { retry, words, advice }) => {
            let detail = message.map(|message| format!(": {}", quote(message))).unwrap_or_default();
            let mut error = WireError::malformed(format!("{words}{detail}")).hint(advice);
            error.code = Some(reason.to_owned());
            error.should_retry = Some(retry);
            Err(error)
        }
        None => Ok(StopReason::Other(reason.to_owned())),
    }
}
