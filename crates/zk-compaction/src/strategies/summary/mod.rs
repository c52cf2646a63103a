//! The strategy that has a model write down what leaves the conversation.

mod files;
pub(crate) mod text;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, Source};
use zk_core::model::{Block, Compaction, Message, Role};
use zk_core::service::{RunControl, SideCall, WindowCause, WindowPlan, WindowStrategy, WindowView};

use self::files::Files;
use crate::plan::cut;
use crate::window::plugin;

/// Source of a summary.
pub(crate) const SUMMARY: &str = "compaction";

/// Time limit of one request for a summary.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(100);

/// Tokens that a summary may have, and that of the beginning of a turn: a part of what is kept free for an answer, at most
/// so many, and always enough for a few sentences.
const SUMMARY_TOKENS: (f64, u32) = (0.8, 4096);
const PREFIX_TOKENS: (f64, u32) = (0.5, 2048);
const MIN_TOKENS: u32 = 256;

/// Window that is assumed where none is known, in tokens: of the conversation, twice as many bytes are given
/// to be summarised.
const ASSUMED_WINDOW_TOKENS: usize = 200_000;

/// Makes the model of the run summarise what leaves the conversation, in a request of its own: aim, progress,
/// decisions, next steps. A summary from before is updated, not summarised again; which files were read and
/// changed is carried on, and where the cut goes through a turn its beginning gets a part of its own.
///
/// The part that is kept begins at a message that is no result, and holds the newest messages as they are. A
/// summary that is empty, no text, or longer than what it stands for is refused, and the next strategy is
/// asked.
///
/// ```
/// use zk_compaction::{Shorten, Summary, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&Summary)?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary;

impl Plugin for Summary {
    fn name(&self) -> &'static str {
        "compaction-summary"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        plugin::register(scope, "summary", *self)
    }
}

#[async_trait]
impl WindowStrategy for Summary {
    fn order(&self) -> i32 {
        500
    }

    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if view.cause != WindowCause::Full {
            return Ok(None);
        }
        let Some(cut) = cut::find(view.messages, view.keep) else { return Ok(None) };
        let summary = of(&Source::new(self.name()), view, cut.clone(), None, cx).await?;
        Ok(summary.map(|summary| WindowPlan::default().cut(cut, vec![summary])))
    }
}

/// Has the model of the run write the summary that stands for the messages of `cut`; `notes` is what is known
/// of them beside. No summary outside of a run, where there is no model to ask, nor where it would compact
/// nothing new.
pub(crate) async fn of(
    source: &Source,
    view: &WindowView<'_>,
    cut: Range<usize>,
    notes: Option<&str>,
    cx: &Cx,
) -> Result<Option<Arc<Message>>, BoxError> {
    let Some(run) = cx.service::<dyn RunControl>() else { return Ok(None) };
    let gone = view.messages.get(cut.clone()).unwrap_or_default();
    let kept = view.messages.get(cut.end..).unwrap_or_default();
    let earlier = gone.iter().rev().find_map(|message| summary_of(message));
    let new: Vec<_> = gone.iter().filter(|message| !is_from_before(message)).cloned().collect();
    if new.is_empty() {
        return Ok(None);
    }
    let (history, prefix) = new.split_at(split(&new, kept));
    let room = view
        .window
        .map_or(ASSUMED_WINDOW_TOKENS, |window| usize::try_from(window).unwrap_or(ASSUMED_WINDOW_TOKENS));
    let bytes: usize = new.iter().map(|message| message.size()).sum();
    let instructions = view.instructions;
    let known = notes.map(|notes| format!("<known>\n{notes}\n</known>\n\n")).unwrap_or_default();
    let ask_history = async {
        if history.is_empty() {
            return Ok(None);
        }
        let prompt = text::request(&text::transcript(history, room), earlier, instructions);
        let prompt = format!("{known}{prompt}");
        ask((source, &*run), prompt, tokens(SUMMARY_TOKENS, view.reserve), bytes).await.map(Some)
    };
    let ask_prefix = async {
        if prefix.is_empty() {
            return Ok(None);
        }
        let prompt = text::prefix_request(&text::transcript(prefix, room));
        ask((source, &*run), prompt, tokens(PREFIX_TOKENS, view.reserve), bytes).await.map(Some)
    };
    let (history_summary, prefix_summary) = join(ask_history, ask_prefix).await;
    let (history_summary, prefix_summary): (Option<String>, Option<String>) =
        (history_summary?, prefix_summary?);
    let mut files = earlier.map(Files::parse).unwrap_or_default();
    files.add_calls(&new);
    let mut summary = history_summary
        .or_else(|| earlier.map(|earlier| Files::strip(earlier).to_owned()))
        .unwrap_or_default();
    if let Some(prefix_summary) = prefix_summary {
        summary.push_str("\n\n## The present request so far\n");
        if let Some(prompt) = prefix.first().filter(|first| first.role == Role::User) {
            summary.push_str(&text::quoted(&prompt.text()));
        }
        summary.push_str(&prefix_summary);
    }
    files.append_to(&mut summary);
    marker(view.messages, gone, &summary).map(Some)
}

/// The message that stands for `gone` of `messages`, with `summary`.
pub(crate) fn marker(
    messages: &[Arc<Message>],
    gone: &[Arc<Message>],
    summary: &str,
) -> Result<Arc<Message>, BoxError> {
    let tokens_before = messages.iter().map(|message| message.size() as u64).sum::<u64>() / 4;
    let marker = Block::Compaction(Compaction { summary: summary.trim().to_owned(), tokens_before });
    let message = Message { injected_by: Some(SUMMARY.to_owned()), ..Message::user(vec![marker]) };
    let stands_for: usize = gone.iter().map(|message| message.size()).sum();
    if message.size() > stands_for {
        let text = format!(
            "the summary would take {} bytes, more than the {stands_for} it stands for",
            message.size()
        );
        return Err(text.into());
    }
    Ok(message.shared())
}

/// Tokens for a summary where so many are kept free for an answer.
fn tokens((part, most): (f64, u32), reserve: u64) -> u32 {
    ((reserve as f64 * part) as u32).clamp(MIN_TOKENS, most)
}

/// Returns the answer of the model of the run to `source`, if it is a summary of so many bytes.
async fn ask(
    (source, run): (&Source, &dyn RunControl),
    prompt: String,
    tokens: u32,
    bytes: usize,
) -> Result<String, BoxError> {
    // The model may be given less than what leaves.
    let given = bytes.min(prompt.len());
    let mut call = SideCall::new(source, "compaction", prompt);
    call.system = text::SYSTEM.to_owned();
    (call.max_tokens, call.limit) = (Some(tokens), ANSWER_TIME_LIMIT);
    let answer = run.side_call(call).await?.text;
    text::check(&answer, given)?;
    Ok(answer.trim().to_owned())
}

/// The summary in a message that stands for what left earlier.
pub(crate) fn summary_of(message: &Message) -> Option<&str> {
    message.content.iter().find_map(|block| match block {
        Block::Compaction(compaction) => Some(compaction.summary.as_str()),
        Block::Text(_)
        | Block::Image(_)
        | Block::Document(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Provider(_) => None,
    })
}

/// Whether a message was put in for what left earlier.
pub(crate) fn is_from_before(message: &Message) -> bool {
    matches!(message.injected_by.as_deref(), Some(SUMMARY | crate::window::view::PINNED))
}

/// Returns the index at which the turn begins that the cut goes through; the end if it goes between two.
fn split(gone: &[Arc<Message>], kept: &[Arc<Message>]) -> usize {
    let goes_on = kept.first().is_some_and(|first| first.role == Role::Assistant);
    if !goes_on {
        return gone.len();
    }
    gone.iter().rposition(|message| cut::is_prompt(message)).unwrap_or(gone.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_a_part_of_what_is_kept_free_for_an_answer() {
        for (reserve, history, prefix) in [(16_384, 4096, 2048), (4000, 3200, 2000), (0, 256, 256)] {
            assert_eq!((tokens(SUMMARY_TOKENS, reserve), tokens(PREFIX_TOKENS, reserve)), (history, prefix));
        }
    }
}
