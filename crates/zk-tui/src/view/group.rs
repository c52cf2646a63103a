use std::sync::Arc;

use zk_core::model::CallKind;
use zk_view::{Block, Call, CallState, Content};

use super::block::block_rows;
use super::call::{HEAD_COLUMNS, MAX_LINE_CHARS, MIN_FACTS_GAP, wrap_head};
use super::{Detail, counted};
use crate::row::{Row, Style};
use crate::text::{clip, columns};

/// Consecutive successful reads and searches of one agent, which share one row.
#[derive(Debug, Default)]
pub(crate) struct Reads(Vec<Arc<Block>>);

fn call(block: &Block) -> Option<&Call> {
    if let Content::Call(call) = &block.content { Some(call) } else { None }
}

/// Whether a call of this kind only reads.
fn is_read_kind(kind: CallKind) -> bool {
    matches!(kind, CallKind::Read | CallKind::Search)
}

impl Reads {
    /// Adds a block; returns false if it does not belong to these reads.
    pub(crate) fn add_if_read(&mut self, block: &Arc<Block>) -> bool {
        let is_read =
            call(block).is_some_and(|call| is_read_kind(call.kind) && call.state == CallState::Done);
        if is_read && block.closed && block.agent.is_none() {
            self.0.push(block.clone());
            return true;
        }
        false
    }

    /// Whether an open block may still join these reads.
    pub(crate) fn may_join(&self, block: &Block) -> bool {
        let Some(call) = call(block).filter(|_| !block.closed) else { return false };
        let may_be_read = match call.state {
            CallState::Writing | CallState::Waiting => true,
            _ => is_read_kind(call.kind),
        };
        may_be_read && block.agent.is_none() && !self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the blocks.
    pub(crate) fn take(&mut self) -> Vec<Arc<Block>> {
        std::mem::take(&mut self.0)
    }

    /// Rows of one read, or the shared row of several.
    pub(crate) fn rows(blocks: &[Arc<Block>], width: usize) -> Vec<Row> {
        match blocks {
            [] => Vec::new(),
            [only] => block_rows(only, width, Detail::Short),
            [_, ..] => {
                let summaries: Vec<&str> =
                    blocks.iter().filter_map(|block| call(block)).map(|call| call.summary.as_str()).collect();
                let facts = Row::of(Style::DIM, &counted(blocks.len() as u64, "read"));
                let room = width.saturating_sub(HEAD_COLUMNS + MIN_FACTS_GAP + facts.columns());
                let text = Row::of(Style::PLAIN, &clip(&join_fitting(&summaries, room), MAX_LINE_CHARS));
                wrap_head(Style::GREEN, "✓", &text, &facts, width)
            }
        }
    }
}

/// Summaries joined as far as they fit in a row; the others are counted.
fn join_fitting(summaries: &[&str], room: usize) -> String {
    let whole = join_summaries(summaries);
    if columns(&whole) <= room {
        return whole;
    }
    let shortened = |shown: usize| {
        let begin = join_summaries(summaries.get(..shown).unwrap_or_default());
        format!("{begin} and {} more", summaries.len() - shown)
    };
    let fits = |shown: &usize| columns(&shortened(*shown)) <= room;
    shortened((1..summaries.len()).rev().find(fits).unwrap_or(1))
}

/// Joined summaries; one that starts with the same verb as the one before omits it.
fn join_summaries(summaries: &[&str]) -> String {
    let mut text = String::new();
    let mut before = None;
    for summary in summaries {
        let (verb, rest) = summary.split_once(' ').unwrap_or((summary, ""));
        if before.is_some() {
            text.push_str(", ");
        }
        text.push_str(if before == Some(verb) && !rest.is_empty() { rest } else { summary });
        before = Some(verb);
    }
    text
}
