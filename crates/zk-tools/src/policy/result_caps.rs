use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::events::{ResultPatch, ToolTransform};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope, Stage};
use zk_core::model::{Block, ToolContent, TurnId};
use zk_core::service::{ContextId, ContextWindow};

use crate::limits;
use crate::text::{head, size};

/// Maximum number of turns tracked at a time, one for each concurrent agent.
const MAX_TURNS: usize = 64;

/// Minimum number of bytes of text per token.
const BYTES_OF_A_TOKEN: u64 = 2;

/// Minimum size of a result in bytes, so that the note about a full window fits.
const MIN_RESULT_BYTES: usize = 4 << 10;

/// Truncates results before they join the history to the limits of a result, of a turn, and of the rest of
/// the model's window, and names the limit.
///
/// Runs last, so that plugins that spill large results see them in full.
#[derive(Debug, Default)]
pub(crate) struct ResultCaps {
    /// Bytes that the results of each turn have, the latest turn last.
    turns: Mutex<VecDeque<(TurnId, usize)>>,
}

impl ResultCaps {
    pub(crate) fn register(scope: &Scope) {
        let at = HookOptions { stage: Stage::Late, reach: Some(Reach::Descendants), time_limit: None };
        scope.handle_at::<ToolTransform, _>(at, Arc::new(Self::default()));
    }

    /// Counts a result towards its turn; returns the number of bytes to keep.
    fn grant(&self, turn: &TurnId, bytes: usize, room: usize) -> usize {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let at = turns.iter().position(|(known, _)| known == turn);
        let (_, used) = at.and_then(|at| turns.remove(at)).unwrap_or_else(|| (turn.clone(), 0));
        let in_window = room.saturating_sub(used).max(MIN_RESULT_BYTES);
        let granted =
            bytes.min(limits::RESULT_BYTES).min(limits::TURN_BYTES.saturating_sub(used)).min(in_window);
        turns.push_back((turn.clone(), used + granted));
        if turns.len() > MAX_TURNS {
            turns.pop_front();
        }
        granted
    }
}

impl Handler<ToolTransform> for ResultCaps {
    async fn call(&self, event: &ToolTransform, cx: &Cx) -> Answer<ToolTransform> {
        let bytes = bytes_of(&event.content);
        let granted = self.grant(&event.call.turn_id, bytes, remaining_bytes(cx));
        if granted == bytes {
            return Ok(None);
        }
        let is_window = remaining_bytes(cx) < limits::TURN_BYTES && granted < limits::RESULT_BYTES;
        let content = cut_content(event.content.clone(), granted, bytes, is_window);
        Ok(Some(ResultPatch { content: Some(content), ..ResultPatch::default() }))
    }
}

/// Size of the rest of the model's window, in bytes.
fn remaining_bytes(cx: &Cx) -> usize {
    let known = cx.service::<dyn ContextWindow>().zip(cx.service::<ContextId>());
    let left = known.and_then(|(window, context)| {
        let fill = window.fill(&context)?;
        let usable = fill.usable?;
        // A quarter of the window can be freed by omitting earlier messages.
        Some(usable.saturating_sub(fill.estimate).max(usable / 4))
    });
    left.map_or(usize::MAX, |tokens| usize::try_from(tokens * BYTES_OF_A_TOKEN).unwrap_or(usize::MAX))
}

/// Size of a result in the window, in bytes of text. Images count as they do there; documents do not, since
/// they cannot be truncated and have a limit when read.
fn bytes_of(content: &ToolContent) -> usize {
    match content {
        ToolContent::Text(text) => text.len(),
        ToolContent::Blocks(blocks) => blocks.iter().map(counted).sum(),
    }
}

fn counted(block: &Block) -> usize {
    if matches!(block, Block::Document(_)) { 0 } else { block.size() }
}

fn cut_content(content: ToolContent, granted: usize, bytes: usize, is_window: bool) -> ToolContent {
    let limit = if granted == limits::RESULT_BYTES {
        format!("one result may have {}", size(limits::RESULT_BYTES as u64))
    } else if is_window {
        format!("the context window has room for {} more", size(granted as u64))
    } else {
        format!("all results of one turn may have {} together", size(limits::TURN_BYTES as u64))
    };
    let note = format!("\n[cut: {limit}, this one had {}; ask for less at a time]", size(bytes as u64));
    match content {
        ToolContent::Text(text) => ToolContent::Text(format!("{}{note}", head(&text, granted))),
        ToolContent::Blocks(mut blocks) => {
            let mut left = granted;
            let mut noted = false;
            for block in &mut blocks {
                if let Some(after) = left.checked_sub(counted(block)) {
                    left = after;
                    continue;
                }
                let note = if noted { "" } else { &note };
                let kept = match &*block {
                    Block::Text(text) => {
                        let kept = head(&text.text, left).to_owned();
                        left = 0;
                        kept
                    }
                    _ => "[an image is left out]".to_owned(),
                };
                *block = Block::text(kept + note);
                noted = true;
            }
            ToolContent::Blocks(blocks)
        }
    }
}
