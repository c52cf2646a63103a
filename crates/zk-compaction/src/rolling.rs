use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::events::{PartKind, PartLeftOut};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Block, Compaction, Message};
use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::cut::is_prompt;
use crate::lines::{LineStore, evict, worth_keeping};
use crate::summary::{SUMMARY, is_from_before, summary_of};
use crate::{cut, line, window};

/// What the lines are.
const HEAD: &str = "\
A line for each earlier message that left the context, by its number; conversation_recall shows one in full.\n";

/// What stands for lines that left as well.
const OLDER: &str = "(older messages have no line here; conversation_recall browses and searches them)\n";

/// Puts a line in the place of each message that leaves, without asking a model. The first prompt stays as it is. Lines are
/// only added, until they take a quarter of what may be sent: then those leave that matter least and are oldest, what a
/// person said last of all. Each has the number under which `conversation_recall` shows the message in full.
///
/// Where the bus has a [`LineStore`], lines of what was said and done are appended to it, for later conversations.
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
        window::register(scope, "rolling", *self)
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
        // What the work is about stays in its own words.
        let start = beginning(view.messages, view.target / 8);
        let cut = start..found.end;
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
            let _ = writeln!(lines, "#{} {}", view.left_out + start + at + 1, line::of(message));
        }
        let room = (view.target / 4).max(2000);
        if lines.len() > room {
            left_lines |= evict(&mut lines, room / 2);
        }
        if let Some(store) = cx.service::<dyn LineStore>() {
            let kept = worth_keeping(new.into_iter());
            let appended = tokio::task::spawn_blocking(move || store.append(&kept)).await?;
            if let Err(error) = appended {
                // The conversation goes on all the same.
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
        Ok(Some(WindowPlan::default().cut(cut, vec![message.shared()])))
    }
}

/// How many messages there are up to the first prompt; none where they have more than `room` bytes, or something left before.
fn beginning(messages: &[Arc<Message>], room: usize) -> usize {
    let found = messages.iter().take(3).position(|message| is_prompt(message));
    let first = messages.get(..found.map_or(0, |at| at + 1)).unwrap_or_default();
    let size: usize = first.iter().map(|message| message.size()).sum();
    let is_whole = !first.iter().any(|message| is_from_before(message));
    if is_whole && size <= room { first.len() } else { 0 }
}
