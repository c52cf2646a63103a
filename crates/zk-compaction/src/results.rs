//! Tool results in a shorter form.

use std::sync::Arc;

use zk_core::model::{Block, Message, ToolContent, output_bytes};

/// What stands in for a result that was left out.
pub(crate) const STUB: &str =
    "[This result was left out to save context. Run the call again if you need it.]";

/// The most bytes of a skill that stays whatever its age.
const MOST_OF_SKILL: usize = 64_000;

/// Whether a tool result is the text of a skill: it is not stubbed for its age, since it holds while the skill is active. When
/// its message is compacted, the skill is attached again.
pub(crate) fn is_skill(content: &ToolContent) -> bool {
    match content {
        ToolContent::Text(text) => text.len() <= MOST_OF_SKILL && text.starts_with("<skill_content "),
        ToolContent::Blocks(_) => false,
    }
}

/// The bytes of the results in a message that could still be left out.
pub(crate) fn result_bytes(message: &Message) -> usize {
    let results = message.results().filter(|result| !is_skill(&result.content));
    results.map(|result| output_bytes(&result.content)).filter(|bytes| *bytes > STUB.len()).sum()
}

/// The message without its results, and how many they are; nothing if none would become shorter.
pub(crate) fn without_results(message: &Message) -> Option<(Arc<Message>, usize)> {
    change(message, |content| {
        let saves = output_bytes(content) > STUB.len() && !is_skill(content);
        if saves {
            *content = STUB.into();
        }
        saves
    })
}

/// The message with the middle of results left out whose text is longer than `bytes`, and how many they are.
pub(crate) fn clipped(message: &Message, bytes: usize) -> Option<(Arc<Message>, usize)> {
    change(message, |content| match content {
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
    })
}

fn change(message: &Message, change: impl Fn(&mut ToolContent) -> bool) -> Option<(Arc<Message>, usize)> {
    message.results().next()?;
    let mut message = message.clone();
    let mut changed = 0;
    for block in &mut message.content {
        if let Block::ToolResult(result) = block {
            changed += usize::from(change(&mut result.content));
        }
    }
    (changed > 0).then(|| (message.shared(), changed))
}

/// Leaves out the middle of a text that is longer than `bytes`. Gives whether it was.
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
