use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use zk_view::{Block, BlockId, Content, View};

use crate::app::Mask;
use crate::markdown::Markdown;
use crate::row::{Row, Style};
use crate::text::soft_split;
use crate::view::{Detail, Kind, Reads, Renderers, block_rows, kind_of, open_rows, running_seconds};

/// Maximum number of printed rows that the log keeps.
const MAX_PRINTED_ROWS: usize = 2000;

/// Maximum number of entries whose rows are cached.
const MAX_CACHED_ENTRIES: usize = 400;

/// Maximum number of an answer's bytes that are rendered in one step.
const MAX_FED_BYTES: usize = 64 * 1024;

/// Entry of a conversation's log.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Block(BlockId),
    /// Rows that the program printed.
    Rows(Arc<[Row]>, Kind),
}

/// Complete log of a conversation, in order, for scrolling back.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Entries by position, which does not change when others are dropped.
    entries: BTreeMap<usize, Entry>,
    next: usize,
    known: HashSet<BlockId>,
    /// Positions of the entries with printed rows, oldest first, with the number of rows in each.
    printed: VecDeque<usize>,
    printed_rows: usize,
}

impl Log {
    pub(crate) fn of(view: &View) -> Self {
        let mut log = Self::default();
        view.blocks.iter().for_each(|block| log.add_block(&block.id));
        log
    }

    pub(crate) fn add_block(&mut self, id: &BlockId) {
        if self.known.insert(id.clone()) {
            self.push(Entry::Block(id.clone()));
        }
    }

    pub(crate) fn add_rows(&mut self, rows: &[Row], kind: Kind) {
        if rows.is_empty() {
            return;
        }
        self.printed.push_back(self.next);
        self.printed_rows += rows.len();
        self.push(Entry::Rows(rows.into(), kind));
        while self.printed_rows > MAX_PRINTED_ROWS && self.printed.len() > 1 {
            let oldest = self.printed.pop_front().and_then(|oldest| self.entries.remove(&oldest));
            if let Some(Entry::Rows(rows, _)) = oldest {
                self.printed_rows -= rows.len();
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Position after the last entry. Earlier positions may be empty.
    pub(crate) fn len(&self) -> usize {
        self.next
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Entry> {
        self.entries.get(&at)
    }

    /// Entries before a position, nearest first.
    fn before(&self, at: usize) -> impl Iterator<Item = &Entry> {
        self.entries.range(..at).rev().map(|(_, entry)| entry)
    }

    fn block_of<'a>(&self, at: usize, view: &'a View) -> Option<&'a Arc<Block>> {
        match self.get(at)? {
            Entry::Block(id) => view.block(id),
            Entry::Rows(..) => None,
        }
    }

    /// Whether an entry is a prompt of the person.
    pub(crate) fn is_prompt(&self, at: usize, view: &View) -> bool {
        self.block_of(at, view).is_some_and(|block| matches!(block.content, Content::User { .. }))
    }

    /// Text of the answer at or before a position.
    pub(crate) fn answer_before(&self, at: usize, view: &View) -> Option<String> {
        (0..=at).rev().find_map(|at| match &self.block_of(at, view)?.content {
            Content::Answer { text, .. } if !text.is_empty() => Some(text.as_str().to_owned()),
            _ => None,
        })
    }
}

/// Rows of an entry. Complete parts of an answer are shared between frames, so that the cost of a frame
/// depends only on the open part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    complete: Rc<Vec<Row>>,
    open: Rc<[Row]>,
}

impl Drawn {
    pub(crate) fn len(&self) -> usize {
        self.complete.len() + self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Row> {
        self.complete.get(at).or_else(|| self.open.get(at.checked_sub(self.complete.len())?))
    }

    /// Rows from an index on, with their indexes.
    pub(crate) fn rows_from(&self, from: usize) -> impl Iterator<Item = (usize, &Row)> {
        (from..self.len()).filter_map(|at| Some((at, self.get(at)?)))
    }
}

/// Renderer of log entries, in which each row is one row of the screen.
#[derive(Debug)]
pub(crate) struct Drawer {
    width: usize,
    detail: Detail,
    mask: Mask,
    /// Cache of the rows of finished transcript entries, by index.
    cache: HashMap<usize, Drawn>,
    /// Answer that is still arriving, whose complete rows are rendered once.
    growing: Option<Growing>,
    renderers: Renderers,
}

#[derive(Debug)]
struct Growing {
    id: BlockId,
    markdown: Markdown,
    fed: usize,
    /// Rendered rows.
    rows: Rc<Vec<Row>>,
}

impl Drawer {
    pub(crate) fn new(width: usize, detail: Detail, mask: Mask, renderers: Renderers) -> Self {
        Self { width: width.max(1), detail, mask, cache: HashMap::new(), growing: None, renderers }
    }

    /// Rows of an entry, after a blank row if it is separated from the one above.
    pub(crate) fn rows(&mut self, at: usize, log: &Log, view: &View) -> Drawn {
        if let Some(rows) = self.cache.get(&at) {
            return rows.clone();
        }
        let Some(entry) = log.get(at) else { return Drawn::default() };
        let block = if let Entry::Block(id) = entry { view.block(id).cloned() } else { None };
        let (drawn, is_closed) = match (entry, block) {
            (Entry::Rows(rows, _), _) => (self.split_and_separate(at, rows.to_vec(), log, view), true),
            // The block was removed.
            (Entry::Block(_), None) => (Drawn::default(), false),
            (Entry::Block(_), Some(block)) => match &block.content {
                Content::Answer { text, .. } if block.agent.is_none() => {
                    (self.answer_rows(&block, text.as_str(), is_apart(at, log, view)), block.closed)
                }
                _ => {
                    let (rows, is_closed) = self.group_rows(at, &block, log, view).unwrap_or_else(|| {
                        let rows = if block.closed {
                            self.closed_rows(&block)
                        } else {
                            open_rows(&block, self.width, running_seconds(&view.status))
                        };
                        (rows, block.closed)
                    });
                    (self.split_and_separate(at, rows, log, view), is_closed)
                }
            },
        };
        if is_closed {
            if self.cache.len() >= MAX_CACHED_ENTRIES {
                self.cache.clear();
            }
            self.cache.insert(at, drawn.clone());
        }
        drawn
    }

    fn closed_rows(&self, block: &Block) -> Vec<Row> {
        let own = self.renderers.block(block, self.width);
        own.unwrap_or_else(|| block_rows(block, self.width, self.detail))
    }

    fn split_and_separate(&self, at: usize, rows: Vec<Row>, log: &Log, view: &View) -> Drawn {
        let mut drawn: Vec<Row> = Vec::new();
        if !rows.is_empty() && is_apart(at, log, view) {
            drawn.push(Row::default());
        }
        drawn.extend(self.split(rows));
        Drawn { complete: Rc::new(drawn), open: Rc::default() }
    }

    /// Masks rows and splits them at the screen's width.
    fn split(&self, rows: Vec<Row>) -> Vec<Row> {
        let masked = |row: &Row| (self.mask)(&row.text()).map(|masked| Row::of(Style::PLAIN, &masked));
        let mask = |row: Row| masked(&row).unwrap_or(row);
        rows.into_iter().map(mask).flat_map(|row| soft_split(&row, self.width)).collect()
    }

    /// Renders a read that belongs to a group: the first read has the group's row. Also returns whether the
    /// group is final.
    fn group_rows(&self, at: usize, block: &Arc<Block>, log: &Log, view: &View) -> Option<(Vec<Row>, bool)> {
        let mut reads = Reads::default();
        if self.detail == Detail::All || !reads.add_if_read(block) {
            return None;
        }
        if at
            .checked_sub(1)
            .and_then(|at| log.block_of(at, view))
            .is_some_and(|before| reads.add_if_read(before))
        {
            return Some((Vec::new(), true));
        }
        let mut next = at + 1;
        while let Some(block) = log.block_of(next, view) {
            if !reads.add_if_read(block) {
                break;
            }
            next += 1;
        }
        let is_open = match log.block_of(next, view) {
            Some(block) => reads.may_join(block),
            None => next >= log.len(),
        };
        Some((Reads::rows(&reads.take(), self.width), !is_open))
    }

    fn answer_rows(&mut self, block: &Block, text: &str, is_apart: bool) -> Drawn {
        let width = self.width;
        let mut growing = self.growing.take().filter(|growing| growing.id == block.id).unwrap_or_else(|| {
            let markdown = Markdown::new(width).with_margin().with_renderers(self.renderers.clone());
            Growing { id: block.id.clone(), markdown, fed: 0, rows: Rc::default() }
        });
        let mut ready = Vec::new();
        // Rendered in pieces, since the unsplit rows of a long text would need several times its memory.
        while let Some(piece) = text.get(growing.fed..).filter(|rest| !rest.is_empty()) {
            let piece = piece.get(..piece.floor_char_boundary(MAX_FED_BYTES)).unwrap_or(piece);
            growing.markdown.push(piece);
            growing.fed += piece.len();
            ready.extend(self.split(growing.markdown.take_ready()));
        }
        if block.closed {
            growing.markdown.finish();
            let mut last = growing.markdown.take_ready();
            last.extend(block_rows(block, self.width, self.detail));
            ready.extend(self.split(last));
        }
        let open = self.split(growing.markdown.open_rows());
        if is_apart && growing.rows.is_empty() && !(ready.is_empty() && open.is_empty()) {
            Rc::make_mut(&mut growing.rows).push(Row::default());
        }
        if !ready.is_empty() {
            // The earlier frame no longer shares these rows.
            Rc::make_mut(&mut growing.rows).extend(ready);
        }
        let drawn = Drawn { complete: growing.rows.clone(), open: open.into() };
        if !block.closed {
            self.growing = Some(growing);
        }
        drawn
    }
}

/// Whether a blank row precedes an entry.
fn is_apart(at: usize, log: &Log, view: &View) -> bool {
    let kind_of = |entry: &Entry| match entry {
        Entry::Rows(_, kind) => *kind,
        Entry::Block(id) => view.block(id).map_or(Kind::Hidden, |block| kind_of(block)),
    };
    let before = log.before(at).map(kind_of).find(|kind| *kind != Kind::Hidden);
    log.get(at).map_or(Kind::Hidden, kind_of).is_apart_from(before.unwrap_or(Kind::Hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_printed_rows_are_dropped_and_positions_stay() {
        let mut log = Log::default();
        for n in 0..MAX_PRINTED_ROWS + 500 {
            log.add_rows(&[Row::of(Style::PLAIN, &n.to_string())], Kind::Log);
        }
        let mut drawer = Drawer::new(80, Detail::Short, |_| None, Renderers::default());
        let view = View::default();
        let mut texts =
            |at| drawer.rows(at, &log, &view).rows_from(0).map(|(_, row)| row.text()).collect::<Vec<_>>();
        assert_eq!(texts(499), Vec::<String>::new());
        assert_eq!(
            (texts(500), texts(MAX_PRINTED_ROWS + 499)),
            (vec!["500".to_owned()], vec![(MAX_PRINTED_ROWS + 499).to_string()])
        );
        assert_eq!(log.entries.len(), MAX_PRINTED_ROWS);
        let long: Vec<Row> =
            (0..3 * MAX_PRINTED_ROWS).map(|n| Row::of(Style::PLAIN, &n.to_string())).collect();
        log.add_rows(&long, Kind::Log);
        assert_eq!(
            (log.entries.len(), log.printed_rows),
            (1, 3 * MAX_PRINTED_ROWS),
            "the newest is shown whole"
        );
    }
}
