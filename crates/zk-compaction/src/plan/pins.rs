use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{Block, Message};
use zk_core::service::{PinnedContext, has_skill_text, is_remember_line};

use crate::plan::cut::is_prompt;
use crate::window::report::SKILL_TOOL;
use crate::window::view::{PINNED, is_pinned};

/// Time limit for a plugin to provide its pinned text.
const COLLECT_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Size limit of all skills together, in bytes.
const MAX_SKILLS_BYTES: usize = 64_000;

/// Heading, for the model, of the lines that a person asked to remember.
const REMEMBER: &str = "[Said earlier in this conversation, word for word; still to be heeded]";

/// Pinned text: it is sent again after its messages were left out.
pub(crate) struct Pin {
    /// Name of the text, shown to a person.
    pub(crate) name: String,
    pub(crate) message: Arc<Message>,
}

impl Pin {
    fn new(name: impl Into<String>, text: String) -> Self {
        Self { name: name.into(), message: Message::injected(text, PINNED).shared() }
    }
}

/// Estimated bytes of the known pinned content, once all of `history` is omitted.
pub(crate) fn estimate_pinned_bytes(history: &[Arc<Message>], sent: &[Arc<Message>]) -> usize {
    let before = sent.iter().filter(|message| is_pinned(message)).map(|message| message.size()).sum();
    let lines: usize = remembered_lines(history, &[]).iter().map(String::len).sum();
    let skills: usize = skills_to_pin(history, &[]).iter().map(|(_, text)| text.len()).sum();
    (lines + skills).max(before)
}

/// Plugin that failed to provide its text.
pub(crate) struct Failed {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) error: BoxError,
}

/// Collects the pinned texts: lines that a person asked to remember and active skills, if their messages are
/// no longer sent, and texts of plugins, sorted by name. Plugins are asked in parallel, and waited for until
/// `until`.
pub(crate) async fn collect(
    history: &[Arc<Message>],
    sent: &[Arc<Message>],
    until: Option<Instant>,
    cx: &Cx,
) -> (Vec<Pin>, Vec<Failed>) {
    let mut pinned = Vec::new();
    let lines = remembered_lines(history, sent);
    if !lines.is_empty() {
        pinned.push(Pin::new("lines to remember", format!("{REMEMBER}\n{}", lines.join("\n"))));
    }
    let skills = skills_to_pin(history, sent).into_iter();
    pinned.extend(skills.map(|(name, text)| Pin::new(format!("the skill {name}"), text)));
    let mut failed = Vec::new();
    let begun = Instant::now();
    let limit = until.map_or(COLLECT_TIME_LIMIT, |until| COLLECT_TIME_LIMIT.min(until.duration_since(begun)));
    let asked = cx.items::<dyn PinnedContext>().into_iter().map(async |item| {
        let asked = AssertUnwindSafe(async { item.value.text(cx).await }).catch_unwind();
        let text = match timeout(limit, asked).await {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => Err("it panicked".into()),
            Err(_) => Err(format!("it took longer than {} s", limit.as_secs()).into()),
        };
        (item, text)
    });
    for (item, text) in join_all(asked).await {
        match text {
            Ok(Some(text)) if !text.trim().is_empty() => {
                pinned.push(Pin::new(&*item.name, text));
            }
            Ok(_) => {}
            Err(error) => {
                failed.push(Failed { name: item.name.to_string(), source: item.source.to_string(), error });
            }
        }
    }
    (pinned, failed)
}

/// Lines of prompts that begin with "remember", if the prompt is no longer sent.
fn remembered_lines(history: &[Arc<Message>], sent: &[Arc<Message>]) -> Vec<String> {
    let prompts = history.iter().filter(|message| is_prompt(message));
    let lines: Vec<_> = prompts
        .filter_map(|prompt| {
            let text = prompt.text();
            let lines: Vec<String> =
                text.lines().filter(|line| is_remember_line(line)).map(str::to_owned).collect();
            (!lines.is_empty()).then_some((prompt, lines))
        })
        .collect();
    let is_sent = |prompt: &Arc<Message>| {
        sent.iter().any(|sent| Arc::ptr_eq(sent, prompt) || (sent.id.is_some() && sent.id == prompt.id))
    };
    lines.into_iter().filter(|(prompt, _)| !is_sent(prompt)).flat_map(|(_, lines)| lines).collect()
}

/// Skills that are no longer sent, by name: the latest text of each, and of all the newest that fit.
fn skills_to_pin(history: &[Arc<Message>], sent: &[Arc<Message>]) -> Vec<(String, String)> {
    let is_sent = |text: &str| {
        // Pinned messages are about to be replaced.
        let blocks = sent.iter().filter(|message| !is_pinned(message)).flat_map(|message| &message.content);
        blocks.into_iter().any(|block| match block {
            Block::Text(sent) => sent.text == text,
            Block::ToolResult(result) => result.content.to_text() == text,
            Block::Image(_)
            | Block::Document(_)
            | Block::ToolCall(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => false,
        })
    };
    let mut asked = HashMap::new();
    let mut given: Vec<(String, String)> = Vec::new();
    let mut note = |name: &str, text: String| {
        // A mere notice that a skill is active does not replace the skill's text.
        if !has_skill_text(&text) && given.iter().any(|(other, _)| other == name) {
            return;
        }
        given.retain(|(other, _)| other != name);
        given.push((name.to_owned(), text));
    };
    for message in history {
        for call in message.calls().filter(|call| call.name == SKILL_TOOL) {
            let name = call.args.get("skill").and_then(|name| name.as_str()).unwrap_or_default();
            asked.insert(&call.id, name);
        }
        if let Some(name) = message.injected_by.as_deref().and_then(|by| by.strip_prefix("skill:")) {
            note(name, message.text());
        }
        for result in message.results().filter(|result| !result.is_error) {
            if let Some(name) = asked.get(&result.call_id) {
                note(name, result.content.to_text());
            }
        }
    }
    given.retain(|(_, text)| !is_sent(text));
    let mut room = MAX_SKILLS_BYTES;
    let mut kept: Vec<_> = given
        .into_iter()
        .rev()
        .take_while(|(_, text)| {
            let fits = text.len() <= room;
            room = room.saturating_sub(text.len());
            fits
        })
        .collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::ToolCall;

    use super::*;

    #[test]
    fn a_skill_that_is_only_said_to_be_in_use_is_pinned_with_its_text() {
        let text = "<skill_content name=\"review\">Look twice.</skill_content>";
        let uses = [("c_1", text), ("c_2", "The skill review is in use; its text is above, unchanged.")];
        let used = |(id, text): (&str, &str)| {
            let call = ToolCall::new(id, SKILL_TOOL, json!({"skill": "review"}));
            let asks = Message::assistant(vec![Block::ToolCall(call)]);
            [asks.shared(), Message::user(vec![Block::result(id, text, false)]).shared()]
        };
        let history: Vec<_> = uses.into_iter().flat_map(used).collect();
        assert_eq!(skills_to_pin(&history, &[]), [("review".to_owned(), text.to_owned())]);
    }
}
