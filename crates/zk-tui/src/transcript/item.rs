use std::sync::Arc;

use zk_view::{Block, BlockId};

use crate::markdown::Markdown;
use crate::row::Row;

/// Bytes that a row takes beside its text.
const ROW_BYTES: usize = 128;

/// A part of a transcript that was not given yet.
#[derive(Debug)]
pub(super) enum Item {
    Block {
        id: BlockId,
        answer: Option<Box<Answer>>,
    },
    /// Rows of the program, as they stay.
    Rows(Vec<Row>),
}

impl Item {
    /// Whether it is this block, of which nothing was given.
    pub(super) fn is_unseen(&self, block: &BlockId) -> bool {
        matches!(self, Self::Block { id, answer } if id == block && answer.as_ref().is_none_or(|answer| !answer.began))
    }

    pub(super) fn of(block: &Arc<Block>) -> Self {
        Self::Block { id: block.id.clone(), answer: None }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) markdown: Markdown,
    /// Bytes of its text that were taken in.
    pub(super) fed: usize,
    /// Whether some of it was given.
    pub(super) began: bool,
}

/// Bytes that rows take in memory.
pub(super) fn bytes_of(rows: &[Row]) -> usize {
    rows.iter().map(|row| ROW_BYTES + row.text_len()).sum()
}
