//! `/btw`: a question beside the run, about the conversation so far.

use std::time::Duration;

use zk_agent::{Agent, transcript};
use zk_core::kernel::{BoxError, Cx, Source};
use zk_core::service::SideCall;
use zk_tui::dollars;

/// Longest wait for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Longest answer, in tokens.
const MAX_ANSWER_TOKENS: u32 = 4_096;

/// Maximum length of the transcript in characters, taken from the end; less if the window is known to be
/// small.
const MAX_CONVERSATION_CHARS: usize = 400_000;

/// System prompt of a side question.
const SYSTEM: &str = "You answer a side question of the user about a conversation between the user and a coding agent. \
    The conversation so far follows; it may be in the middle of its work. You have no tools, and nothing you say changes \
    the work. Answer briefly, from what is there; say so where it does not tell.";

/// Asks the model outside of the conversation and returns the answer.
pub(super) async fn ask(agent: &Agent, question: &str, cx: &Cx) -> Result<String, BoxError> {
    if question.is_empty() {
        return Err("/btw takes a question: `/btw why was this file changed?`".into());
    }
    let window = agent.model().window.and_then(|tokens| usize::try_from(tokens).ok());
    // Two characters a token is a low estimate, except for scripts with a sign for each word.
    let room = window.map_or(MAX_CONVERSATION_CHARS, |tokens| MAX_CONVERSATION_CHARS.min(tokens * 2));
    let history = agent.history();
    let so_far = transcript(history.iter().map(|message| &**message), room);
    let prompt = format!("<conversation>\n{so_far}</conversation>\n\nThe side question: {question}");
    let call = SideCall {
        system: SYSTEM.to_owned(),
        max_tokens: Some(MAX_ANSWER_TOKENS),
        limit: ANSWER_LIMIT,
        ..SideCall::new(&Source::new("btw"), "side question", prompt)
    };
    let answer = agent.side_call(call, cx.stop_token().clone()).await?;
    let text = answer.text.trim();
    let text = if text.is_empty() { "the model said nothing to that" } else { text };
    let cost = answer.usage.cost.map_or(String::new(), |cost| format!(" · {}", dollars(cost)));
    Ok(format!("{text}\n(beside the conversation, which does not know of it{cost})"))
}
