//! Summaries of branches that a conversation leaves.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Source;
use zk_core::model::{AgentError, Block, Message, Role};
use zk_core::service::{SUMMARY_PART, SideCall};

use crate::Agent;

/// Time limit of the request for a summary.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum length of a summary in tokens.
const MAX_SUMMARY_TOKENS: u32 = 2_048;
/// Maximum length of the transcript in characters, taken from the end.
const MAX_TRANSCRIPT_CHARS: usize = 200_000;
/// Maximum length of one tool result in the transcript, in characters.
const MAX_RESULT_CHARS: usize = 2_000;

/// System prompt of the request for a summary.
const SYSTEM: &str = "You summarise a part of a conversation between a user and a coding agent. The user goes back to an \
    earlier point and tries another way; your summary is all that remains of this part there. Name the goal, the decisions \
    with their reasons, the files that were read or changed (with their paths), the results of commands that matter, and the \
    state in which it ended. Write plain text without a preamble.";

/// Asks the agent's model for a summary of the messages of a branch.
///
/// # Errors
/// [`AgentError`], also for an empty answer.
pub(super) async fn summarise_branch(
    agent: &Agent,
    left: &[Arc<Message>],
    instructions: Option<&str>,
) -> Result<String, AgentError> {
    let window = agent.model().window.and_then(|tokens| usize::try_from(tokens).ok());
    // A low estimate of two characters per token.
    let room = window.map_or(MAX_TRANSCRIPT_CHARS, |tokens| MAX_TRANSCRIPT_CHARS.min(tokens));
    let mut prompt = format!(
        "<conversation>\n{}</conversation>\n\nSummarise it.",
        transcript(left.iter().map(|message| &**message), room)
    );
    if let Some(instructions) = instructions {
        prompt.push_str(&format!(" The user adds: {instructions}"));
    }
    let call = SideCall {
        system: SYSTEM.to_owned(),
        max_tokens: Some(MAX_SUMMARY_TOKENS),
        limit: ANSWER_TIME_LIMIT,
        ..SideCall::new(&Source::new("branch"), "branch summary", prompt).for_part(SUMMARY_PART)
    };
    // Cancelled when the caller drops this future.
    let stop = CancellationToken::new();
    let _stop_on_drop = stop.clone().drop_guard();
    let answer = agent.side_call(call, stop).await?;
    match answer.text.trim() {
        "" => Err(AgentError::Usage("the summary of the branch is empty; the leaf was not moved".to_owned())),
        text => Ok(format!("Summary of another attempt from this point, which was left:\n\n{text}")),
    }
}

/// Returns a transcript of messages for a side call to a model, without its beginning if it has more than `room` characters.
///
/// ```
/// use zk_agent::transcript;
/// use zk_core::model::Message;
///
/// let messages = [Message::user_text("first"), Message::user_text("second")];
/// assert_eq!(transcript(messages.iter(), 100), "User: first\nUser: second\n");
/// ```
#[must_use]
pub fn transcript<'a>(messages: impl DoubleEndedIterator<Item = &'a Message>, room: usize) -> String {
    let (mut parts, mut rest) = (Vec::new(), room);
    for message in messages.rev() {
        let text = message_text(message);
        let Some(less) = rest.checked_sub(text.chars().count()) else {
            parts.push("[earlier messages are left out]\n".to_owned());
            break;
        };
        rest = less;
        parts.push(text);
    }
    parts.reverse();
    parts.concat()
}

fn message_text(message: &Message) -> String {
    let role = match message.role {
        Role::User => "User",
        Role::Assistant => "Agent",
    };
    let mut text = String::new();
    for block in &message.content {
        match block {
            Block::Text(block) => text.push_str(&format!("{role}: {}\n", block.text)),
            Block::ToolCall(call) => text.push_str(&format!("Agent calls {}: {}\n", call.name, call.args)),
            Block::ToolResult(result) => {
                let all = result.content.to_text();
                let part: String = all.chars().take(MAX_RESULT_CHARS).collect();
                let cut = if part.len() < all.len() { " …" } else { "" };
                text.push_str(&format!("Result: {part}{cut}\n"));
            }
            Block::Image(_) | Block::Document(_) => text.push_str(&format!("{role}: [an attachment]\n")),
            Block::Compaction(compaction) => text.push_str(&format!("Summary: {}\n", compaction.summary)),
            Block::Thinking(_) | Block::Provider(_) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_branch_is_summarised() {
        let messages = ["first", "second", "third"].map(Message::user_text);
        assert_eq!(transcript(messages.iter(), 1000), "User: first\nUser: second\nUser: third\n");
        assert_eq!(
            transcript(messages.iter(), 26),
            "[earlier messages are left out]\nUser: second\nUser: third\n"
        );
    }
}
