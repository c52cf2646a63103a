use serde_json::json;
use zk_core::model::{Block, Message, ToolCall, ToolContent, ToolResult};
use zk_core::service::{CompactionMark, CustomEntry, EntryKind};

/// Source of the entries that zk itself adds to a session.
pub(super) const OWN_SOURCE: &str = "zk";

/// Text in the place of removed content.
const REMOVED: &str = "[removed]";

/// The entry without its content; `None` if it has none, or other entries depend on it.
pub(super) fn without_content(kind: &EntryKind) -> Option<EntryKind> {
    match kind.clone() {
        EntryKind::Message { message, usage } => {
            Some(EntryKind::Message { message: empty_message(&message).shared(), usage })
        }
        EntryKind::OpenTurn { turn_id, message, usage } => {
            Some(EntryKind::OpenTurn { turn_id, message: empty_message(&message).shared(), usage })
        }
        EntryKind::CallBegin { turn_id, call_id, name, .. } => {
            Some(EntryKind::CallBegin { turn_id, call_id, name, args: json!({}), summary: None })
        }
        EntryKind::CallEnd { turn_id, call_id, result, elapsed_ms, .. } => Some(EntryKind::CallEnd {
            turn_id,
            call_id,
            summary: None,
            result: Box::new(empty_result(&result)),
            display: None,
            details: None,
            elapsed_ms,
        }),
        EntryKind::CallData { turn_id, call_id, elapsed_ms, .. } => Some(EntryKind::CallData {
            turn_id,
            call_id,
            summary: None,
            display: None,
            details: None,
            elapsed_ms,
        }),
        EntryKind::Custom(custom) if custom.source != OWN_SOURCE && CompactionMark::of(&custom).is_none() => {
            Some(EntryKind::Custom(CustomEntry { data: json!({ "removed": true }).into(), ..custom }))
        }
        EntryKind::Label { target, .. } => Some(EntryKind::Label { target, label: None }),
        EntryKind::Custom(_)
        | EntryKind::Leaf { .. }
        | EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. }
        | EntryKind::Usage { .. } => None,
    }
}

fn empty_message(message: &Message) -> Message {
    let mut content: Vec<Block> = Vec::new();
    for block in &message.content {
        let left = match block {
            Block::ToolCall(call) => Block::ToolCall(ToolCall::new(call.id.clone(), &*call.name, json!({}))),
            Block::ToolResult(result) => Block::ToolResult(empty_result(result)),
            Block::Text(_) | Block::Image(_) | Block::Document(_) | Block::Compaction(_) => {
                Block::text(REMOVED)
            }
            // Their own model alone can read these blocks, and only unchanged.
            Block::Thinking(_) | Block::Provider(_) => continue,
        };
        if content.last() != Some(&left) {
            content.push(left);
        }
    }
    if content.is_empty() {
        content.push(Block::text(REMOVED));
    }
    Message { content, ..message.clone() }
}

fn empty_result(result: &ToolResult) -> ToolResult {
    ToolResult { content: ToolContent::Text(REMOVED.to_owned()), ..result.clone() }
}
