//! Why a response ended, in Gemini's words.

use zk_core::model::{ErrorKind, StopReason};

use crate::fault::{Fault, quote};

/// What a reason means.
#[derive(Clone, Copy)]
enum Means {
    End,
    Limit,
    Refusal,
    /// The response is of no use; the flag says whether another attempt may be.
    Failure {
        retry: bool,
        words: &'static str,
    },
}

const REASONS: &[(&str, Means)] = &[
    ("STOP", Means::End),
    ("MAX_TOKENS", Means::Limit),
    ("SAFETY", Means::Refusal),
    ("RECITATION", Means::Refusal),
    ("LANGUAGE", Means::Refusal),
    ("BLOCKLIST", Means::Refusal),
    ("PROHIBITED_CONTENT", Means::Refusal),
    ("SPII", Means::Refusal),
    ("MODEL_ARMOR", Means::Refusal),
    ("IMAGE_SAFETY", Means::Refusal),
    ("IMAGE_PROHIBITED_CONTENT", Means::Refusal),
    ("IMAGE_RECITATION", Means::Refusal),
    (
        "MALFORMED_FUNCTION_CALL",
        Means::Failure { retry: true, words: "the model wrote a tool call that cannot be read" },
    ),
    (
        "MALFORMED_RESPONSE",
        Means::Failure { retry: true, words: "the model wrote a response that cannot be read" },
    ),
    (
        "UNEXPECTED_TOOL_CALL",
        Means::Failure { retry: true, words: "the model called a tool that it was not given" },
    ),
    (
        "TOO_MANY_TOOL_CALLS",
        Means::Failure { retry: false, words: "the model called too many tools in a row" },
    ),
    (
        "MISSING_THOUGHT_SIGNATURE",
        Means::Failure { retry: false, words: "a call in the history has lost its thought signature" },
    ),
];

/// The stop reason of a response that called tools or not, or the failure it stands for.
pub(super) fn stop(reason: &str, message: Option<&str>, has_calls: bool) -> Result<StopReason, Fault> {
    match REASONS.iter().find(|(known, _)| *known == reason).map(|(_, means)| *means) {
        Some(Means::End) if has_calls => Ok(StopReason::ToolUse),
        Some(Means::End) => Ok(StopReason::EndTurn),
        Some(Means::Limit) => Ok(StopReason::MaxTokens),
        Some(Means::Refusal) => Ok(StopReason::Refusal(Some(quote(message.unwrap_or(reason))))),
        Some(Means::Failure { retry, words }) => {
            let said = message.map(|message| format!(": {}", quote(message))).unwrap_or_default();
            let mut fault = Fault::new(ErrorKind::Malformed, format!("{words}{said}"));
            fault.code = Some(reason.to_owned());
            fault.should_retry = Some(retry);
            Err(fault)
        }
        None => Ok(StopReason::Other(reason.to_owned())),
    }
}
