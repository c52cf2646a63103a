use std::sync::Arc;

use zk_view::{Block, Content, View};

use super::Transcript;
use crate::row::{Row, Style};
use crate::view::Renderers;

impl Transcript {
    /// Sets the renderers of blocks and fences.
    pub fn set_renderers(&mut self, renderers: Renderers) {
        self.renderers = renderers;
    }
}

/// Maximum number of rows of the last exchange of a resumed session.
const EXCHANGE: usize = 60;

/// Blocks of the last exchange, which starts with the last prompt; none without a prompt.
pub(super) fn last_exchange(blocks: &[Arc<Block>]) -> &[Arc<Block>] {
    let is_prompt = |block: &Arc<Block>| matches!(block.content, Content::User { .. });
    let from = blocks.iter().rposition(is_prompt).unwrap_or(blocks.len());
    blocks.get(from..).unwrap_or_default()
}

/// Rows of an exchange: the first and the last ones, if not all fit.
pub(super) fn exchange_rows(exchange: &[Arc<Block>], width: usize, renderers: &Renderers) -> Vec<Row> {
    let mut part = Transcript::new(View::default(), width);
    part.set_renderers(renderers.clone());
    part.view = View { blocks: exchange.to_vec(), ..View::default() }.into();
    part.update_all_blocks();
    let mut rows = part.take_closed(0);
    let hidden = rows.len().saturating_sub(EXCHANGE);
    if hidden > 0 {
        let note = Row::of(Style::DIM, &format!("  … {hidden} rows · Ctrl-T shows them"));
        drop(rows.splice(1..=hidden, [note]));
    }
    rows
}

/// Whether two exchanges show the same. Block ids are ignored, since they depend on earlier blocks.
pub(super) fn shows_the_same(one: &[Arc<Block>], other: &[Arc<Block>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.content == other.content)
}
