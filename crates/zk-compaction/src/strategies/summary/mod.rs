//! Strategy `summary`: a model summarises the omitted messages.

mod files;
pub(crate) mod text;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, Source};
use zk_core::model::{Block, Compaction, Message, Role};
use zk_core::service::{
    RunControl, SUMMARY_PART, SideCall, WindowCause, WindowPlan, WindowStrategy, WindowView,
};

use self::files::Files;
use crate::plan::cut;
use crate::window::plugin;

/// Source name of a summary's message.
pub(crate) const SUMMARY: &str = "compaction";

/// Time limit of one request for a summary.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(100);

/// Maximum size of a summary, and of the summary of a turn's beginning: a share of the reserve for the
/// answer, with an upper limit in tokens.
const SUMMARY_TOKENS: (f64, u32) = (0.8, 4096);
const PREFIX_TOKENS: (f64, u32) = (0.5, 2048);
const MIN_TOKENS: u32 = 256;

/// Assumed window in tokens if none is known; the summariser gets twice as many bytes of the conversation.
const ASSUMED_WINDOW_TOKENS: usize = 200_000;

/// Has the run's model summarise the omitted messages in a separate request: goal, progress, decisions and
/// next steps. An earlier summary is updated, not summarised again; the lists of read and changed files are
/// carried over. If the cut splits a turn, its beginning is summarised separately.
///
/// The kept part begins at a message without results, and contains the newest messages unchanged. A summary
/// that is empty, no text, or longer than the omitted messages is rejected, and the next strategy is asked.
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

/// Summarises the messages of `cut` with the run's model; `notes` is additional input. `None` outside of
/// a run, which has no model, and if the cut contains nothing new.
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
    let (history, prefix) = new.split_at(start_of_split_turn(&new, kept));
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
        ask_model((source, &*run), prompt, summary_tokens(SUMMARY_TOKENS, view.reserve), bytes)
            .await
            .map(Some)
    };
    let ask_prefix = async {
        if prefix.is_empty() {
            return Ok(None);
        }
        let prompt = text::prefix_request(&text::transcript(prefix, room));
        ask_model((source, &*run), prompt, summary_tokens(PREFIX_TOKENS, view.reserve), bytes).await.map(Some)
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

/// Message with `summary` that represents the messages `gone` of `messages`.
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

/// Tokens for a summary, given the tokens of the answer's reserve.
fn summary_tokens((part, most): (f64, u32), reserve: u64) -> u32 {
    ((reserve as f64 * part) as u32).clamp(MIN_TOKENS, most)
}

/// Asks the run's model, and checks that the answer is a valid summary of `source`.
async fn ask_model(
    (source, run): (&Source, &dyn RunControl),
    prompt: String,
    tokens: u32,
    bytes: usize,
) -> Result<String, BoxError> {
    // The model may get less than the omitted messages.
    let given = bytes.min(prompt.len());
    let mut call = SideCall::new(source, "compaction", prompt).for_part(SUMMARY_PART);
    call.system = text::SYSTEM.to_owned();
    (call.max_tokens, call.limit) = (Some(tokens), ANSWER_TIME_LIMIT);
    let answer = run.side_call(call).await?.text;
    text::check(&answer, given)?;
    Ok(answer.trim().to_owned())
}

/// Summary in a message that represents omitted ones.
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

/// Whether a message represents omitted ones.
pub(crate) fn is_from_before(message: &Message) -> bool {
    matches!(message.injected_by.as_deref(), Some(SUMMARY | crate::window::view::PINNED))
}

/// Index at which the turn begins that the cut splits; the end if it splits none.
fn start_of_split_turn(gone: &[Arc<Message>], kept: &[Arc<Message>]) -> usize {
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
            assert_eq!(
                (summary_tokens(SUMMARY_TOKENS, reserve), summary_tokens(PREFIX_TOKENS, reserve)),
                (history, prefix)
            );
        }
    }
}
