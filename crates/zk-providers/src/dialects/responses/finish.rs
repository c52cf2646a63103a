//! End of a response: stop reason, usage, failure.

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason, Usage};

use super::item::text;
use crate::wire::error::{ErrorBody, WireError, of_stream, quote};

/// State in which a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Incomplete,
    Failed,
}

/// Returns the ending that an event stands for, if any. The status takes precedence over the event's name,
/// since the back end of subscriptions may name every end `response.done`.
pub(super) fn ending(event: &str, response: &Value) -> Option<Ending> {
    let named = match event {
        "response.completed" | "response.done" => Ending::Completed,
        "response.incomplete" => Ending::Incomplete,
        "response.failed" | "response.cancelled" => Ending::Failed,
        _ => return None,
    };
    Some(match text(response, "status") {
        "completed" => Ending::Completed,
        "incomplete" => Ending::Incomplete,
        "failed" | "cancelled" => Ending::Failed,
        _ => named,
    })
}

/// Returns the error of a failed response.
pub(super) fn failure(response: &Value) -> WireError {
    match response.get("error").filter(|error| !error.is_null()) {
        Some(error) => of_stream(ErrorBody::of(json!({"error": error}))),
        None => {
            let status = match text(response, "status") {
                "" => "failed",
                status => status,
            };
            let status = quote(status);
            let message = format!("the provider ended the response as `{status}` without saying why");
            WireError::new(ErrorKind::Overloaded, message)
        }
    }
}

/// Returns the stop reason of an incomplete response.
pub(super) fn incomplete(response: &Value, refusal: Option<String>) -> StopReason {
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
    match reason.unwrap_or("incomplete") {
        "max_output_tokens" | "max_tokens" | "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal(refusal),
        other => StopReason::Other(other.to_owned()),
    }
}

/// Reads the counts and removes overlaps: cached input is counted as input too.
pub(super) fn usage(response: &Value) -> Usage {
    let count = |path: &str| {
        response.pointer("/usage").and_then(|usage| usage.pointer(path)?.as_u64()).unwrap_or_default()
    };
    let cache_read = count("/input_tokens_details/cached_tokens");
    let cache_write = count("/input_tokens_details/cache_write_tokens");
    let (input, mut output) = (count("/input_tokens"), count("/output_tokens"));
    let reasoning = count("/output_tokens_details/reasoning_tokens");
    // Some servers count reasoning separately, which the total shows.
    if reasoning > 0 && count("/total_tokens") == input + output + reasoning {
        output += reasoning;
    }
    Usage {
        input: input.saturating_sub(cache_read).saturating_sub(cache_write),
        output,
        cache_read,
        cache_write,
        reasoning,
        ..Usage::default()
    }
}
