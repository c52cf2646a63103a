//! Size of a request's text, to detect requests that certainly exceed a window.

use serde_json::Value;
use zk_core::model::{Block, ToolContent};
use zk_core::service::Request;

/// Returns the bytes of text in a request, without images and documents.
pub(crate) fn bytes(request: &Request) -> u64 {
    let mut sum = 0;
    let mut add = |text: &str| sum += text.len() as u64;
    visit_texts(request, &mut add);
    request.tools.iter().for_each(|tool| visit_strings(&tool.schema, &mut add));
    let blocks = request.history.messages().iter().flat_map(|message| &message.content);
    for block in blocks {
        if let Block::Thinking(thinking) = block {
            add(&thinking.text);
        }
    }
    sum
}

/// Returns a lower bound of a request's tokens: one for each word, and more for the longest. Thinking and
/// schemas do not count, since not every template shows them to the model.
pub(crate) fn least_tokens(request: &Request) -> u64 {
    let mut sum = 0;
    visit_texts(request, &mut |text| {
        let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
        sum += words.map(|word| 1 + word.len() as u64 / MAX_TOKEN_BYTES).sum::<u64>();
    });
    sum
}

/// Longest part of a word that a tokenizer may encode as one token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64;

fn visit_texts(request: &Request, take: &mut impl FnMut(&str)) {
    take(&request.system);
    for tool in request.tools.iter() {
        take(&tool.name);
        take(&tool.description);
    }
    for block in request.history.messages().iter().flat_map(|message| &message.content) {
        match block {
            Block::Text(text) => take(&text.text),
            Block::Compaction(compaction) => take(&compaction.summary),
            Block::ToolCall(call) => {
                take(&call.name);
                visit_strings(&call.args, take);
            }
            Block::ToolResult(result) => match &result.content {
                ToolContent::Text(text) => take(text),
                ToolContent::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).for_each(&mut *take),
            },
            Block::Thinking(_) | Block::Image(_) | Block::Document(_) | Block::Provider(_) => {}
        }
    }
}

/// Visits the strings of a JSON value, including names of fields.
fn visit_strings(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| visit_strings(item, take)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            take(name);
            visit_strings(value, take);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
