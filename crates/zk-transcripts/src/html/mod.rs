//! A session as one page: text that is escaped by construction, and nothing from elsewhere.

mod block;
mod diff;
mod escape;
mod image;
mod markdown;
mod page;

use std::borrow::Borrow;
use std::sync::Arc;

pub(crate) use page::Page;
use zk_view::{Block, WholeBlock};

use crate::{DocumentFacts, Limits};

/// Blocks of a running conversation as one page. A stored session shows more: full results, images and times.
///
/// ```
/// use zk_transcripts::{DocumentFacts, export_page};
///
/// let facts = DocumentFacts { title: "<script>".into(), ..DocumentFacts::default() };
/// let page = export_page::<zk_view::Block>(&[], &facts);
/// assert!(page.contains("<h1>&lt;script&gt;</h1>"));
/// ```
#[must_use]
pub fn export_page<B: Borrow<Block>>(blocks: &[B], facts: &DocumentFacts) -> String {
    let mut page = Page::new(Limits::default());
    let mut out = String::new();
    page.push_head(&mut out, facts);
    for block in blocks {
        let block = WholeBlock {
            block: Arc::new(block.borrow().clone()),
            lines: None,
            images: Vec::new(),
            time_ms: None,
            model: None,
        };
        page.push_block(&mut out, &block);
    }
    page.push_foot(&mut out, None);
    out
}
