use ring::digest::{Context, SHA256};
use serde::Serialize;
use zk_core::model::{Block, Message, Role};
use zk_core::service::is_said;

/// Bytes of a digest that are kept. Digests tell changes from each other; nothing is protected by them.
const DIGEST_BYTES: usize = 8;

/// Returns the digest of `bytes` as hexadecimal digits.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    finish_digest(context)
}

/// Returns the digest of a value's JSON form, in which keys are sorted.
pub(crate) fn digest_of_json(value: &impl Serialize) -> String {
    digest_of(&serde_json::to_vec(value).unwrap_or_default())
}

fn finish_digest(context: Context) -> String {
    let full = context.finish();
    full.as_ref().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the digest of what a message says: text, calls and results in their order. Ids of messages, reasoning, blocks of one
/// provider, and context that is read anew for each request are left out, because they differ between equal conversations.
/// `None` if nothing remains.
pub(crate) fn digest_of_message(message: &Message) -> Option<String> {
    let mut context = Context::new(&SHA256);
    context.update(match message.role {
        Role::User => b"user",
        Role::Assistant => b"assistant",
    });
    let mut is_empty = true;
    for block in message.content.iter().filter(|block| !is_context(block)) {
        let part = match block {
            Block::Text(text) => text.text.as_bytes().to_vec(),
            Block::ToolCall(call) => {
                serde_json::to_vec(&(&call.name, &call.args, &call.malformed)).unwrap_or_default()
            }
            Block::ToolResult(result) => {
                serde_json::to_vec(&(&result.content, result.is_error)).unwrap_or_default()
            }
            Block::Image(_) | Block::Document(_) | Block::Compaction(_) => {
                serde_json::to_vec(block).unwrap_or_default()
            }
            Block::Thinking(_) | Block::Provider(_) => continue,
        };
        is_empty = false;
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(&part);
    }
    (!is_empty).then(|| finish_digest(context))
}

/// Whether the block is context that zk reads anew for each prompt or request.
fn is_context(block: &Block) -> bool {
    block.as_text().is_some() && !is_said(block)
}
