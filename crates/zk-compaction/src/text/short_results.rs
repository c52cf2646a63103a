//! Shortening of tool results.

use std::sync::Arc;

use zk_core::model::{Block, CallId, Message, ToolContent, ToolResult, output_bytes};

use crate::window::report::SKILL_TOOL;

/// Text in place of an omitted result.
pub(crate) const STUB: &str =
    "[This result was left out to save context. Run the call again if you need it.]";

/// Largest skill that stays regardless of its age, in bytes.
const MAX_SKILL_BYTES: usize = 64_000;

/// Message before the one at `at`: the answer with the calls of its results.
pub(crate) fn answer_before(messages: &[Arc<Message>], at: usize) -> Option<&Message> {
    at.checked_sub(1).and_then(|before| messages.get(before)).map(|message| &**message)
}

/// Whether a result of a call in `answer` is the text of a skill. Such a result is not omitted by age, since
/// it is valid while the skill is active; when its message is compacted, the skill is pinned. Skills are
/// recognised by their tool call, since any tool may print such a text.
pub(crate) fn is_skill(result: &ToolResult, answer: Option<&Message>) -> bool {
    let mut calls = answer.into_iter().flat_map(Message::calls);
    match &result.content {
        ToolContent::Text(text) => {
            text.len() <= MAX_SKILL_BYTES
                && calls.any(|call| call.id == result.call_id && call.name == SKILL_TOOL)
        }
        ToolContent::Blocks(_) => false,
    }
}

/// Bytes of the results in the message at `at` that can still be left out.
pub(crate) fn result_bytes(messages: &[Arc<Message>], at: usize) -> usize {
    let answer = answer_before(messages, at);
    let results = messages.get(at).into_iter().flat_map(|message| message.results());
    let results = results.filter(|result| !is_skill(result, answer));
    results.map(|result| output_bytes(&result.content)).filter(|bytes| *bytes > STUB.len()).sum()
}

/// Message after `answer` without its results, and the number of omitted ones; `None` if it would not become
/// shorter.
pub(crate) fn without_results(message: &Message, answer: Option<&Message>) -> Option<(Arc<Message>, usize)> {
    change_results(message, |result| {
        let saves = output_bytes(&result.content) > STUB.len() && !is_skill(result, answer);
        if saves {
            result.content = STUB.into();
        }
        saves
    })
}

/// Message after `answer` with each result that `line` has a text for replaced by it, and the number of replaced
/// ones; `None` if it would not become shorter.
pub(crate) fn replaced_results(
    message: &Message,
    answer: Option<&Message>,
    line: impl Fn(&CallId) -> Option<String>,
) -> Option<(Arc<Message>, usize)> {
    change_results(message, |result| {
        let Some(line) = line(&result.call_id).filter(|_| !is_skill(result, answer)) else { return false };
        let saves = output_bytes(&result.content) > line.len();
        if saves {
            result.content = ToolContent::Text(line);
        }
        saves
    })
}

/// Message after `answer` with the middle of results longer than `bytes` left out, and the number of clipped
/// ones.
pub(crate) fn clipped(
    message: &Message,
    answer: Option<&Message>,
    bytes: usize,
) -> Option<(Arc<Message>, usize)> {
    change_results(message, |result| !is_skill(result, answer) && clip_result(result, bytes))
}

fn clip_result(result: &mut ToolResult, bytes: usize) -> bool {
    match &mut result.content {
        ToolContent::Text(text) => clip(text, bytes),
        ToolContent::Blocks(blocks) => blocks.iter_mut().fold(false, |clipped, block| match block {
            Block::Text(text) => clip(&mut text.text, bytes) || clipped,
            Block::Image(_)
            | Block::Document(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => clipped,
        }),
    }
}

fn change_results(
    message: &Message,
    change: impl Fn(&mut ToolResult) -> bool,
) -> Option<(Arc<Message>, usize)> {
    message.results().next()?;
    let mut message = message.clone();
    let mut changed = 0;
    for block in &mut message.content {
        if let Block::ToolResult(result) = block {
            changed += usize::from(change(result));
        }
    }
    (changed > 0).then(|| (message.shared(), changed))
}

/// Leaves out the middle of a text longer than `bytes`. Returns whether it did.
fn clip(text: &mut String, bytes: usize) -> bool {
    if text.len() <= bytes {
        return false;
    }
    let (head, tail) =
        (text.floor_char_boundary(bytes / 3 * 2), text.ceil_char_boundary(text.len() - bytes / 3));
    let left_out = tail.saturating_sub(head);
    text.replace_range(head..tail, &format!("\n[… {left_out} bytes were left out to save context …]\n"));
    true
}
