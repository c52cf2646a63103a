//! Detects a prompt that exceeds the tokens allowed per minute. Gemini reports it as "too many requests" and
//! asks for a retry, which could never succeed.

use zk_core::model::{ErrorKind, ProviderError};

/// Phrase before the limit in the error's text.
const LIMIT: &str = "input_token_count, limit: ";
/// Average bytes of text per token.
const BYTES_PER_TOKEN: u64 = 4;

/// Reclassifies the error of a request whose text exceeds the limit of any minute.
pub(super) fn explain(mut error: ProviderError, text_bytes: impl FnOnce() -> u64) -> ProviderError {
    let limit = error.message.split_once(LIMIT).map(|(_, rest)| rest);
    let digits = limit.and_then(|rest| rest.split(|char: char| !char.is_ascii_digit()).next());
    if let Some(limit) = digits.and_then(|digits| digits.parse::<u64>().ok())
        && error.kind == ErrorKind::Rate
        && text_bytes() / BYTES_PER_TOKEN > limit
    {
        error.kind = ErrorKind::ContextExceeded;
        error.retry_after = None;
        error.hint = Some(format!(
            "This request alone is larger than the {limit} tokens that may be sent in a minute: compact the conversation"
        ));
    }
    error
}
