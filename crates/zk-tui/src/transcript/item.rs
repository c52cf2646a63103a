use std::sync::Arc;

use zk_view::{Block, BlockId};

use crate::markdown::Markdown;
use crate::row::Row;
use crate::view::Kind;

/// Overhead of a row in bytes, besides its text.
const ROW_OVERHEAD_BYTES: usize = 128;

/// Item of a transcript whose rows are not all taken.
#[derive(Debug)]
pub(super) enum Item {
    Block {
        id: BlockId,
        answer: Option<Box<Answer>>,
    },
    /// Rows that the program printed.
    Rows {
        rows: Vec<Row>,
        kind: Kind,
    },
}

impl Item {
    /// Whether it is this block, with no rows taken.
    pub(super) fn is_untaken_block(&self, block: &BlockId) -> bool {
        matches!(self, Self::Block { id, answer } if id == block && answer.as_ref().is_none_or(|answer| !answer.began))
    }

    pub(super) fn of(block: &Arc<Block>) -> Self {
        Self::Block { id: block.id.clone(), answer: None }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) markdown: Markdown,
    /// Number of bytes of the answer's text that are rendered.
    pub(super) fed: usize,
    /// Whether any rows of the answer were taken.
    pub(super) began: bool,
}

/// Bytes that rows take in memory.
pub(super) fn memory_of(rows: &[Row]) -> usize {
    rows.iter().map(|row| ROW_OVERHEAD_BYTES + row.text_len()).sum()
}
