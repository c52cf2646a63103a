use serde_json::Value;
use zk_core::model::{Block, Document, Image, ToolContent, Usage};

/// Text at a key; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Number at a key; 0 if it is missing.
pub(super) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Whether the value at a key is `true`.
pub(super) fn is_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Items of the list at a key.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Block with the image or document of a `data:` URL in base64.
pub(super) fn block_of_data_url(url: &str, name: &str) -> Option<Block> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(media_block(media_type, data, name))
}

/// Block with an image, or with a document for any other media type.
pub(super) fn media_block(media_type: &str, data: &str, name: &str) -> Block {
    if media_type.starts_with("image/") {
        return Block::Image(Image::new(media_type, data));
    }
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    Block::Document(Document { media_type: media_type.to_owned(), name, data: data.to_owned() })
}

/// Content of a result: plain text if all blocks are text.
pub(super) fn content_of(blocks: Vec<Block>) -> ToolContent {
    if blocks.iter().all(|block| block.as_text().is_some()) {
        let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
        return ToolContent::Text(texts.join("\n"));
    }
    ToolContent::Blocks(blocks)
}

/// Usage as the Messages API of Anthropic reports it.
pub(super) fn anthropic_usage(usage: &Value) -> Usage {
    let hour = usage.get("cache_creation").map_or(0, |made| count(made, "ephemeral_1h_input_tokens"));
    Usage {
        input: count(usage, "input_tokens"),
        output: count(usage, "output_tokens"),
        cache_read: count(usage, "cache_read_input_tokens"),
        cache_write: count(usage, "cache_creation_input_tokens"),
        cache_write_1h: hour,
        ..Usage::default()
    }
}

/// Cost in billionths of a dollar; `None` for 0, which may mean an unknown cost.
pub(super) fn nano_dollars(cost: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and rounded")]
    (cost > 0.0 && cost < 1e9).then(|| (cost * 1e9).round() as u64)
}
