use std::fmt::Write;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Block, Compaction, Message};
use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::summary::{SUMMARY, is_from_before, summary_of};
use crate::{cut, line, window};

/// What the lines are.
const HEAD: &str = "\
A line for each earlier message that left the context, by its number; conversation_recall shows one in full.\n";

/// What stands for lines that left as well.
const OLDER: &str = "(older messages have no line here; conversation_recall browses and searches them)\n";

/// Puts a line in the place of each message that leaves, without asking a model. Lines are only added, until they take a
/// quarter of what may be sent: then the oldest leave. Each has the number under which `conversation_recall` shows the
/// message in full.
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

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if view.cause != WindowCause::Full {
            return Ok(None);
        }
        let Some(cut) = cut::find(view.messages, view.keep) else { return Ok(None) };
        let gone = view.messages.get(cut.clone()).unwrap_or_default();
        let before = gone.iter().rev().find_map(|message| summary_of(message)).unwrap_or_default();
        let (mut lines, mut left_lines) = (before.trim_start_matches(HEAD).to_owned(), false);
        if let Some(rest) = lines.strip_prefix(OLDER) {
            (lines, left_lines) = (rest.to_owned(), true);
        }
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        let new = gone.iter().filter(|message| !is_from_before(message));
        for (at, message) in new.enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "#{} {}", view.left_out + at + 1, line::of(message));
        }
        let room = (view.target / 4).max(2000);
        if lines.len() > room {
            let from = lines.ceil_char_boundary(lines.len() - room / 2);
            let from =
                lines.get(from..).and_then(|rest| rest.find('\n')).map_or(lines.len(), |end| from + end + 1);
            lines.replace_range(..from, "");
            left_lines = true;
        }
        let older = if left_lines { OLDER } else { "" };
        let summary = format!("{HEAD}{older}{lines}");
        let tokens_before = view.messages.iter().map(|message| message.size() as u64).sum::<u64>() / 4;
        let marker = Block::Compaction(Compaction { summary, tokens_before });
        let message = Message { injected_by: Some(SUMMARY.to_owned()), ..Message::user(vec![marker]) };
        Ok(Some(WindowPlan::default().cut(cut, vec![message.shared()])))
    }
}
