use serde_json::Value;

use super::super::{Checked, Rule, broken, text_of};

/// Whether an assistant message may carry blocks of this kind because the provider makes them itself.
pub(super) fn is_kind(kind: &str) -> bool {
    matches!(kind, "server_tool_use" | "mcp_tool_use" | "compaction" | "fallback" | "container_upload")
        || kind.ends_with("_tool_result")
}

fn is_call(block: &Value) -> bool {
    matches!(text_of(block, "type"), Some("server_tool_use" | "mcp_tool_use"))
}

/// Whether the provider goes on with a message that ends like this.
pub(super) fn is_paused(blocks: &[&Value]) -> bool {
    blocks.iter().any(|block| text_of(block, "type").is_some_and(is_kind))
}

/// Every call of a hosted tool has its result, unless the message is the provider's to go on with, or code of
/// the call waits for a result of the user's.
pub(super) fn check(blocks: &[&Value], is_last: bool, at: usize) -> Checked {
    let calls_user = blocks.iter().any(|block| text_of(block, "type") == Some("tool_use"));
    if is_last || calls_user {
        return Ok(());
    }
    for call in blocks.iter().filter(|block| is_call(block)) {
        let id = text_of(call, "id").unwrap_or_default();
        if !blocks.iter().any(|block| text_of(block, "tool_use_id") == Some(id)) {
            return broken(
                Rule::UnansweredCall,
                format!("messages.{at}: `{id}` was found without a corresponding result block"),
            );
        }
    }
    Ok(())
}
