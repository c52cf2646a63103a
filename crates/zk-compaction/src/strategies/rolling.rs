use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::events::{PartKind, PartLeftOut};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Block, Compaction, Message, Role};
use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::plan::cut;
use crate::plan::cut::is_prompt;
use crate::store::line_store::{LineStore, evict, lines_worth_keeping};
use crate::strategies::summary::{SUMMARY, is_from_before, summary_of};
use crate::text::message_line;
use crate::text::short_results::{answer_before, clipped};
use crate::window::plugin;

/// Limits of the messages that stay with shortened results: turns, and bytes of one result.
const MAX_SLIMMED_TURNS: usize = 10;
const SLIMMED_RESULT_BYTES: usize = 600;

/// Heading of the lines that stand for omitted messages, for the model.
const HEAD: &str = "\
A line for each earlier message that left the context, by its number; conversation_recall shows one in full.\n";

/// Note in place of dropped lines.
const OLDER: &str = "(older messages have no line here; conversation_recall browses and searches them)\n";

/// Replaces each omitted message by one line, without a model. The first prompt stays unchanged. The ten
/// turns before the newest messages keep their texts and calls, and the beginning and end of long results.
/// Lines are only appended until they fill a quarter of the target; then the least valuable and oldest are
/// dropped, a person's words last. Each line has the number under which `conversation_recall` shows the whole
/// message.
///
/// Lines of texts and calls are also appended to the bus's [`LineStore`], if there is one, for later
/// conversations.
///
/// ```
/// use zk_compaction::{Rolling, Shorten, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&Rolling)?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Rolling;

impl Plugin for Rolling {
    fn name(&self) -> &'static str {
        "compaction-rolling"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        plugin::register(scope, "rolling", *self)
    }
}

#[async_trait]
impl WindowStrategy for Rolling {
    fn order(&self) -> i32 {
        500
    }

    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if view.cause != WindowCause::Full {
            return Ok(None);
        }
        let Some(found) = cut::find(view.messages, view.keep) else { return Ok(None) };
        // The beginning states the task, and stays unchanged.
        let start = count_beginning(view.messages, view.target / 8);
        let (end, slimmed) = shorten_middle_turns(view.messages, start, found.end, view.target / 4);
        let cut = start..end;
        let gone = view.messages.get(cut.clone()).filter(|gone| !gone.is_empty());
        let Some(gone) = gone else { return Ok(None) };
        let before = gone.iter().rev().find_map(|message| summary_of(message)).unwrap_or_default();
        let (mut lines, mut left_lines) = (before.trim_start_matches(HEAD).to_owned(), false);
        if let Some(rest) = lines.strip_prefix(OLDER) {
            (lines, left_lines) = (rest.to_owned(), true);
        }
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        let new: Vec<&Arc<Message>> = gone.iter().filter(|message| !is_from_before(message)).collect();
        for (at, message) in new.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "#{} {}", view.left_out + start + at + 1, message_line::of(message));
        }
        let room = (view.target / 4).max(2000);
        if lines.len() > room {
            left_lines |= evict(&mut lines, room / 2);
        }
        if let Some(store) = cx.service::<dyn LineStore>() {
            let kept = lines_worth_keeping(new.into_iter());
            let appended = tokio::task::spawn_blocking(move || store.append(&kept)).await?;
            if let Err(error) = appended {
                // A failure does not stop the conversation.
                let (name, source) = ("lines for later conversations".to_owned(), "rolling".to_owned());
                let error = error.to_string();
                cx.emit(PartLeftOut { kind: PartKind::WindowStrategy, name, source, error }).await?;
            }
        }
        let older = if left_lines { OLDER } else { "" };
        let summary = format!("{HEAD}{older}{lines}");
        let tokens_before = view.messages.iter().map(|message| message.size() as u64).sum::<u64>() / 4;
        let marker = Block::Compaction(Compaction { summary, tokens_before });
        let message = Message { injected_by: Some(SUMMARY.to_owned()), ..Message::user(vec![marker]) };
        let results = slimmed.iter().map(|(_, new)| new.results().count()).sum();
        let plan = WindowPlan { replace: slimmed, results, ..WindowPlan::default() };
        Ok(Some(plan.cut(cut, vec![message.shared()])))
    }
}

/// Second tier: the turns before the unchanged ones, with the middle of long results left out; at most
/// [`MAX_SLIMMED_TURNS`] turns and `room` bytes. Returns the index of the first, and the changed messages.
fn shorten_middle_turns(
    messages: &[Arc<Message>],
    start: usize,
    end: usize,
    room: usize,
) -> (usize, Vec<(usize, Arc<Message>)>) {
    let (mut begin, mut changed, mut reached) = (end, Vec::new(), 0);
    let (mut size, mut turns) = (0, 0);
    for (at, message) in messages.iter().enumerate().take(end).skip(start).rev() {
        // An earlier summary is updated and not kept next to its successor.
        if is_from_before(message) {
            break;
        }
        let slim = clipped(message, answer_before(messages, at), SLIMMED_RESULT_BYTES).map(|(slim, _)| slim);
        size += slim.as_ref().unwrap_or(message).size();
        turns += usize::from(message.role == Role::Assistant);
        if size > room || turns > MAX_SLIMMED_TURNS {
            break;
        }
        changed.extend(slim.map(|slim| (at, slim)));
        // A result must not stay without its call.
        if message.results().next().is_none() {
            (begin, reached) = (at, changed.len());
        }
    }
    // A cut that omits nothing is pointless.
    if begin == start {
        return (end, Vec::new());
    }
    changed.truncate(reached);
    (begin, changed)
}

/// Number of messages up to the first prompt; 0 if they exceed `room` bytes, or messages were left out
/// before.
fn count_beginning(messages: &[Arc<Message>], room: usize) -> usize {
    let found = messages.iter().take(3).position(|message| is_prompt(message));
    let first = messages.get(..found.map_or(0, |at| at + 1)).unwrap_or_default();
    let size: usize = first.iter().map(|message| message.size()).sum();
    let is_whole = !first.iter().any(|message| is_from_before(message));
    if is_whole && size <= room { first.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::ToolCall;

    use super::*;

    fn turn(number: usize) -> [Arc<Message>; 2] {
        let id = format!("c{number}");
        let call = Block::ToolCall(ToolCall::new(&*id, "shell", json!({})));
        let result = Block::result(&*id, "x".repeat(5000), false);
        [Message::assistant(vec![call]).shared(), Message::user(vec![result]).shared()]
    }

    #[test]
    fn the_turns_before_the_newest_stay_with_shorter_results_and_the_rest_becomes_lines() {
        let mut messages = vec![Message::user_text("go").shared()];
        messages.extend((0..30).flat_map(turn));
        let end = 41;
        let (begin, changed) = shorten_middle_turns(&messages, 1, end, 100_000);
        assert_eq!((begin, changed.len()), (end - 2 * MAX_SLIMMED_TURNS, MAX_SLIMMED_TURNS));
        assert!(changed.iter().all(|(at, new)| (begin..end).contains(at) && new.size() < 1200));
        assert!(messages[begin].calls().next().is_some(), "no result without its call");
        // Little space for few turns, none if nothing would be omitted.
        let (begin, changed) = shorten_middle_turns(&messages, 1, end, 3000);
        assert!(begin < end && changed.len() < 6 && messages[begin].calls().next().is_some());
        assert_eq!(shorten_middle_turns(&messages, 1, 5, 100_000), (5, Vec::new()));
        assert_eq!(shorten_middle_turns(&messages, 1, end, 0), (end, Vec::new()));
    }
}
