//! A prompt larger than what may be sent in a minute. Gemini says "too many requests" to it instead of "too
//! long", and asks to try again; it would fail for ever.

use zk_core::model::{Block, ErrorKind, ProviderError, ToolContent};
use zk_core::service::Request;

/// What stands before the limit in the error's text.
const LIMIT: &str = "input_token_count, limit: ";
/// More bytes of text than a token has on average, so that no request is taken for larger than it is.
const BYTES_PER_TOKEN: u64 = 5;

/// The bytes of text a request holds; images and documents weigh little.
pub(super) fn text_bytes(request: &Request) -> u64 {
    let blocks = request.history.messages().iter().flat_map(|message| &message.content);
    let text: usize = blocks.map(weight).sum();
    (text + request.system.len()) as u64
}

fn weight(block: &Block) -> usize {
    match block {
        Block::Text(text) => text.text.len(),
        Block::Thinking(thinking) => thinking.text.len(),
        Block::Compaction(compaction) => compaction.summary.len(),
        Block::ToolResult(result) => match &result.content {
            ToolContent::Text(text) => text.len(),
            ToolContent::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).map(str::len).sum(),
        },
        Block::ToolCall(_) | Block::Image(_) | Block::Document(_) | Block::Provider(_) => 0,
    }
}

/// The error of a request of so much text, said as it is.
pub(super) fn judge(mut error: ProviderError, text_bytes: u64) -> ProviderError {
    let limit = error.message.split_once(LIMIT).map(|(_, rest)| rest);
    let digits = limit.and_then(|rest| rest.split(|char: char| !char.is_ascii_digit()).next());
    if let Some(limit) = digits.and_then(|digits| digits.parse::<u64>().ok())
        && error.kind == ErrorKind::Rate
        && text_bytes / BYTES_PER_TOKEN > limit
    {
        error.kind = ErrorKind::ContextExceeded;
        error.retry_after = None;
        error.hint = Some(format!(
            "This request alone is larger than the {limit} tokens that may be sent in a minute: compact the conversation"
        ));
    }
    error
}
