use std::ops::Range;
use std::sync::Arc;

use zk_core::model::{Message, Role};

/// The messages that leave when about `keep` bytes of the newest stay: from the first, and never between a call and its
/// result. Nothing when there is nothing to leave.
pub(crate) fn find(messages: &[Arc<Message>], keep: usize) -> Option<Range<usize>> {
    let mut size = 0;
    let mut newest = messages.len();
    for (at, message) in messages.iter().enumerate().rev() {
        size += message.size();
        if size > keep && newest < messages.len() {
            break;
        }
        newest = at;
    }
    // Calls whose results are the last message belong to what is being done.
    let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
    let end = (1..=newest.min(messages.len().saturating_sub(1)))
        .rev()
        .find(|at| messages.get(*at).is_some_and(|message| message.results().next().is_none()))?;
    let end = match last_answer {
        Some(answer) if answer < end && has_open_results(messages, answer) => answer,
        _ => end,
    };
    (end > 0).then_some(0..end)
}

/// The messages that leave when those from `limit` on stay: from the first, and never between a call and its result.
pub(crate) fn up_to(messages: &[Arc<Message>], limit: usize) -> Option<Range<usize>> {
    let is_cut = |at: &usize| messages.get(*at).is_some_and(|message| message.results().next().is_none());
    let end = (1..=limit.min(messages.len().saturating_sub(1))).rev().find(is_cut)?;
    Some(0..end)
}

/// Whether the results of the answer at `answer` are the last message.
fn has_open_results(messages: &[Arc<Message>], answer: usize) -> bool {
    messages.len() == answer + 2 && messages.last().is_some_and(|last| last.results().next().is_some())
}

/// Whether a person said it.
pub(crate) fn is_prompt(message: &Message) -> bool {
    message.role == Role::User && message.injected_by.is_none() && message.results().next().is_none()
}
