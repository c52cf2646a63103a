use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use zk_view::{Block, BlockId, Content, View};

use crate::app::Mask;
use crate::markdown::Markdown;
use crate::row::Row;
use crate::style::Style;
use crate::text::soft_split;
use crate::view::{Detail, Kind, block_rows, kind, open_rows};

/// Rows of the program that are kept.
const PRINTED: usize = 2000;

/// Blocks whose rows are kept.
const CACHED: usize = 400;

/// One piece of a conversation, in its order.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Block(BlockId),
    /// Rows of the program.
    Rows(Arc<[Row]>),
}

/// All of a conversation, in its order, for whoever wants to see it again.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    known: HashSet<BlockId>,
    printed: usize,
}

impl Log {
    pub(crate) fn of(view: &View) -> Self {
        let mut log = Self::default();
        view.blocks.iter().for_each(|block| log.block(&block.id));
        log
    }

    pub(crate) fn block(&mut self, id: &BlockId) {
        if self.known.insert(id.clone()) {
            self.entries.push(Entry::Block(id.clone()));
        }
    }

    pub(crate) fn rows(&mut self, rows: &[Row]) {
        if self.printed < PRINTED {
            self.printed += rows.len().max(1);
            self.entries.push(Entry::Rows(rows.into()));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    fn block_at<'a>(&self, at: usize, view: &'a View) -> Option<&'a Arc<Block>> {
        match self.get(at)? {
            Entry::Block(id) => view.block(id),
            Entry::Rows(_) => None,
        }
    }

    /// Whether an entry is a prompt of the person.
    pub(crate) fn is_prompt(&self, at: usize, view: &View) -> bool {
        self.block_at(at, view).is_some_and(|block| matches!(block.content, Content::User { .. }))
    }

    /// The text of the answer at or before an entry.
    pub(crate) fn answer_before(&self, at: usize, view: &View) -> Option<String> {
        (0..=at).rev().find_map(|at| match &self.block_at(at, view)?.content {
            Content::Answer { text, .. } if !text.is_empty() => Some(text.as_str().to_owned()),
            _ => None,
        })
    }
}

/// Draws entries of a log, each row one of the screen.
#[derive(Debug)]
pub(crate) struct Drawer {
    width: usize,
    detail: Detail,
    mask: Mask,
    /// Rows of closed entries.
    cache: HashMap<usize, Rc<[Row]>>,
    /// An answer that grows: what is complete of it is drawn once.
    growing: Option<Growing>,
}

#[derive(Debug)]
struct Growing {
    id: BlockId,
    markdown: Markdown,
    fed: usize,
    rows: Vec<Row>,
}

impl Drawer {
    pub(crate) fn new(width: usize, detail: Detail, mask: Mask) -> Self {
        Self { width: width.max(1), detail, mask, cache: HashMap::new(), growing: None }
    }

    /// The rows of an entry; a blank one first where it stands apart from what is above.
    pub(crate) fn rows(&mut self, at: usize, log: &Log, view: &View) -> Rc<[Row]> {
        if let Some(rows) = self.cache.get(&at) {
            return rows.clone();
        }
        let (rows, is_closed) = match log.get(at) {
            None => (Vec::new(), true),
            Some(Entry::Rows(rows)) => (rows.to_vec(), true),
            Some(Entry::Block(id)) => match view.block(id) {
                // It came to nothing.
                None => (Vec::new(), false),
                Some(block) => (self.block(&block.clone()), block.closed),
            },
        };
        let mut drawn: Vec<Row> = Vec::new();
        if !rows.is_empty() && is_apart(at, log, view) {
            drawn.push(Row::default());
        }
        let masked = |row: &Row| (self.mask)(&row.text()).map(|masked| Row::of(Style::PLAIN, &masked));
        let mask = |row: Row| masked(&row).unwrap_or(row);
        drawn.extend(rows.into_iter().map(mask).flat_map(|row| soft_split(&row, self.width)));
        let drawn: Rc<[Row]> = drawn.into();
        if is_closed {
            if self.cache.len() >= CACHED {
                self.cache.clear();
            }
            self.cache.insert(at, drawn.clone());
        }
        drawn
    }

    fn block(&mut self, block: &Block) -> Vec<Row> {
        match &block.content {
            Content::Answer { text, .. } if block.agent.is_none() => {
                let mut rows = self.answer(block, text.as_str());
                if block.closed {
                    self.growing = None;
                    rows.extend(block_rows(block, self.width, self.detail));
                }
                rows
            }
            _ if block.closed => block_rows(block, self.width, self.detail),
            _ => open_rows(block),
        }
    }

    fn answer(&mut self, block: &Block, text: &str) -> Vec<Row> {
        let width = self.width;
        let mut growing = self.growing.take().filter(|growing| growing.id == block.id).unwrap_or_else(|| {
            Growing { id: block.id.clone(), markdown: Markdown::new(width), fed: 0, rows: Vec::new() }
        });
        growing.markdown.push(text.get(growing.fed..).unwrap_or_default());
        growing.fed = growing.fed.max(text.len());
        if block.closed {
            growing.markdown.finish();
        }
        growing.rows.extend(growing.markdown.take_ready());
        let mut rows = growing.rows.clone();
        rows.extend(growing.markdown.open_rows());
        self.growing = Some(growing);
        rows
    }
}

/// Whether a blank row stands before an entry.
fn is_apart(at: usize, log: &Log, view: &View) -> bool {
    let kind_at = |at: usize| match log.get(at) {
        Some(Entry::Rows(_)) => Kind::Log,
        Some(Entry::Block(id)) => view.block(id).map_or(Kind::Hidden, |block| kind(block)),
        None => Kind::Hidden,
    };
    let before = (0..at).rev().map(kind_at).find(|kind| *kind != Kind::Hidden);
    match (before, kind_at(at)) {
        (None, _) | (_, Kind::Hidden) | (Some(Kind::Log), Kind::Log) => false,
        (Some(_), _) => true,
    }
}
