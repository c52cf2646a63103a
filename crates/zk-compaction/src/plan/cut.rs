use std::ops::Range;
use std::sync::Arc;

use zk_core::model::{Message, Role};

/// Range of the first messages to leave out so that about `keep` bytes of the newest remain. Never cuts
/// between a call and its result. `None` if there is nothing to leave out.
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
    // If the last message holds results, their calls belong to the current work.
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

/// Range of the first messages to leave out so that those from `limit` on remain. Never cuts between a call
/// and its result.
pub(crate) fn omitted_range(messages: &[Arc<Message>], limit: usize) -> Option<Range<usize>> {
    let is_cut = |at: &usize| messages.get(*at).is_some_and(|message| message.results().next().is_none());
    let end = (1..=limit.min(messages.len().saturating_sub(1))).rev().find(is_cut)?;
    Some(0..end)
}

/// Whether the last message holds the results of the answer at `answer`.
fn has_open_results(messages: &[Arc<Message>], answer: usize) -> bool {
    messages.len() == answer + 2 && messages.last().is_some_and(|last| last.results().next().is_some())
}

/// Whether a message is a person's prompt.
pub(crate) fn is_prompt(message: &Message) -> bool {
    message.role == Role::User && message.injected_by.is_none() && message.results().next().is_none()
}
