use serde_json::Value;

use super::super::{Checked, Rule, reject, text_of};

/// Whether the provider itself generates blocks of this kind in assistant messages.
pub(super) fn is_kind(kind: &str) -> bool {
    matches!(kind, "server_tool_use" | "mcp_tool_use" | "compaction" | "fallback" | "container_upload")
        || kind.ends_with("_tool_result")
}

fn is_call(block: &Value) -> bool {
    matches!(text_of(block, "type"), Some("server_tool_use" | "mcp_tool_use"))
}

/// Whether the provider continues a message with this end.
pub(super) fn is_paused(blocks: &[&Value]) -> bool {
    blocks.iter().any(|block| text_of(block, "type").is_some_and(is_kind))
}

/// Checks that every call of a hosted tool has a result, unless the provider will continue the message, or
/// code of the call waits for a result of the user.
pub(super) fn check(blocks: &[&Value], is_last: bool, at: usize) -> Checked {
    let calls_user = blocks.iter().any(|block| text_of(block, "type") == Some("tool_use"));
    if is_last || calls_user {
        return Ok(());
    }
    for call in blocks.iter().filter(|block| is_call(block)) {
        let id = text_of(call, "id").unwrap_or_default();
        if !blocks.iter().any(|block| text_of(block, "tool_use_id") == Some(id)) {
            return reject(
                Rule::UnansweredCall,
                format!("messages.{at}: `{id}` was found without a corresponding result block"),
            );
        }
    }
    Ok(())
}
