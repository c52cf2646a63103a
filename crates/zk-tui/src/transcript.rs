mod exchange;
mod item;
mod spent;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use zk_view::{AnswerEnd, Block, BlockId, Content, IndexedView, Patch, View};

use self::exchange::{exchange_rows, last_exchange, shows_the_same};
use self::item::{Answer, Item, memory_of};
use self::spent::{late_cost, run_cost};
use crate::full::Log;
use crate::markdown::Markdown;
use crate::row::{Row, Style};
use crate::view::{Detail, Kind, MARGIN, Reads, Renderers, block_rows, kind_of, open_rows, running_seconds};

/// Maximum size in bytes of printed rows that are not written yet, as on the alternate screen. Beyond it, the
/// oldest are dropped.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Rows of a conversation: closed rows, which are taken once, and open rows, which may still change.
///
/// Blocks are taken in order, an open answer up to its last complete block of Markdown. A running call holds
/// back later blocks, except those of its sub-agents.
#[derive(Debug)]
pub struct Transcript {
    width: usize,
    /// Number of lines after which the columns of a table are fixed, if limited.
    table_lines: Option<usize>,
    view: IndexedView,
    items: VecDeque<Item>,
    /// Blocks whose rows are not taken yet.
    waits: HashSet<BlockId>,
    /// Blocks whose rows are all taken.
    done: HashSet<BlockId>,
    /// Kind of the last taken rows, which determines the space before the next ones.
    last: Kind,
    /// Log of the whole conversation, taken or not.
    log: Log,
    /// Cost of the runs, and of sub-agents that ended between two runs, in US dollars.
    spent: f64,
    /// Size of the printed rows that are not taken yet, in bytes.
    waiting: usize,
    /// Number of printed rows that were dropped since the last note about it.
    left_out: usize,
    /// Last exchange that was shown of a session that is being opened, until the whole session arrives.
    announced: Option<Vec<Arc<Block>>>,
    renderers: Renderers,
}

impl Transcript {
    /// Creates a transcript of `width` columns. Blocks that are in `view` already count as taken.
    #[must_use]
    pub fn new(view: View, width: usize) -> Self {
        let done = view.blocks.iter().filter(|block| block.closed).map(|block| block.id.clone()).collect();
        let log = Log::of(&view);
        let spent = view.blocks.iter().map(|block| run_cost(block)).sum();
        let mut transcript = Self {
            width,
            table_lines: None,
            view: view.into(),
            items: VecDeque::new(),
            waits: HashSet::new(),
            done,
            last: Kind::Hidden,
            log,
            spent,
            waiting: 0,
            left_out: 0,
            announced: None,
            renderers: Renderers::default(),
        };
        transcript.update_all_blocks();
        transcript
    }

    /// Present view.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Cost of the conversation's runs so far in US dollars, as far as known.
    pub(crate) fn spent(&self) -> f64 {
        self.spent
    }

    /// Log of the whole conversation, including the part that is not on the screen yet.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Sets the width in columns that later rows are wrapped to.
    pub fn set_width(&mut self, width: usize) {
        self.width = width;
        for item in &mut self.items {
            if let Item::Block { answer: Some(answer), .. } = item {
                answer.markdown.set_width(width);
            }
        }
    }

    /// Sets the number of lines that the screen can redraw. The columns of a table with at most that many lines
    /// may still change.
    pub fn set_room(&mut self, lines: usize) {
        self.table_lines = Some(lines);
        for item in &mut self.items {
            if let Item::Block { answer: Some(answer), .. } = item {
                answer.markdown.set_room(lines);
            }
        }
    }

    /// Shows the last exchange of a session that is being opened, from its last blocks. The exchange is not
    /// repeated if the whole session ends with it.
    pub(crate) fn announce(&mut self, blocks: &[Arc<Block>]) {
        let exchange = last_exchange(blocks);
        if exchange.is_empty() {
            return;
        }
        let rows = exchange_rows(exchange, self.width, &self.renderers);
        self.log.add_rows(&rows, Kind::Log);
        self.items.push_back(Item::Rows { rows, kind: Kind::Log });
        self.announced = Some(exchange.to_vec());
    }

    /// Applies a patch.
    pub fn patch(&mut self, patch: &Patch) {
        let switches = self.view.switches;
        self.spent += late_cost(&self.view, patch);
        self.view.apply(patch);
        match patch {
            Patch::Reset { view } => self.spent = view.blocks.iter().map(|block| run_cost(block)).sum(),
            Patch::Open { block } => self.spent += run_cost(block),
            _ => {}
        }
        match patch {
            Patch::Reset { view } => {
                if view.switches != switches {
                    self.items.retain(|item| matches!(item, Item::Rows { .. }));
                    self.waits.clear();
                    self.done = view
                        .blocks
                        .iter()
                        .filter(|block| block.closed)
                        .map(|block| block.id.clone())
                        .collect();
                    self.log = Log::of(view);
                    let exchange = last_exchange(&view.blocks);
                    let announced = self.announced.take().unwrap_or_default();
                    if !shows_the_same(exchange, &announced) {
                        let rows = exchange_rows(exchange, self.width, &self.renderers);
                        self.items.push_back(Item::Rows { rows, kind: Kind::Log });
                    }
                }
                self.update_all_blocks();
            }
            Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => {
                self.update_block(&block.id)
            }
            Patch::Grow { id, .. } => self.update_block(id),
            Patch::Body { lines, .. } => {
                self.print(lines.iter().map(|line| Row::of(Style::PLAIN, line.as_str())).collect());
            }
            // The id of a removed block may be reused by a later block.
            Patch::Remove { id } => self.forget_block(id),
            Patch::Status { .. }
            | Patch::Ask { .. }
            | Patch::Answered { .. }
            | Patch::Queue { .. }
            | Patch::Agents { .. }
            | Patch::Jobs { .. }
            | Patch::Checklist { .. } => {}
        }
    }

    /// Forgets a removed block, if none of its rows were taken.
    fn forget_block(&mut self, id: &BlockId) {
        if !self.waits.contains(id) {
            return;
        }
        // The removed block is almost always the last item.
        if let Some(at) = self.items.iter().rposition(|item| item.is_untaken_block(id)) {
            self.items.remove(at);
            self.waits.remove(id);
        }
    }

    /// Appends rows that the program prints.
    pub fn print(&mut self, rows: Vec<Row>) {
        self.append_printed(rows, Kind::Log);
    }

    /// Appends the rows of a line that the person typed, separated from the rows above.
    pub(crate) fn echo(&mut self, rows: Vec<Row>) {
        self.append_printed(rows, Kind::Echo);
    }

    fn append_printed(&mut self, rows: Vec<Row>, kind: Kind) {
        self.log.add_rows(&rows, kind);
        self.waiting += memory_of(&rows);
        self.items.push_back(Item::Rows { rows, kind });
        if self.waiting > MAX_WAITING_BYTES {
            self.drop_oldest_rows();
        }
    }

    /// Drops the oldest printed rows, until half of the limit is left.
    fn drop_oldest_rows(&mut self) {
        let Self { items, waiting, left_out, .. } = self;
        items.retain(|item| match item {
            Item::Rows { rows, .. } if *waiting > MAX_WAITING_BYTES / 2 => {
                *waiting -= memory_of(rows);
                *left_out += rows.len();
                false
            }
            Item::Rows { .. } | Item::Block { .. } => true,
        });
    }

    /// Takes the newly closed rows. Open rows keep at most `room` rows.
    #[must_use]
    pub fn take_closed(&mut self, room: usize) -> Vec<Row> {
        self.feed_answers();
        let mut rows = Vec::new();
        self.take_closed_blocks(&mut rows, false);
        let mut open = self.open_rows().len();
        if open > room {
            // A long-running call must not hold back rows for which there is no room.
            self.take_closed_blocks(&mut rows, true);
            open = self.open_rows().len();
        }
        let over = open.saturating_sub(room);
        if over > 0 {
            self.take_open_answer(over, &mut rows);
        }
        rows
    }

    /// Open rows, as of the last [`Transcript::take_closed`].
    #[must_use]
    pub fn open_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut last = self.last;
        let mut add = |kind: Kind, of_item: Vec<Row>| {
            if !of_item.is_empty() {
                if kind.is_apart_from(last) {
                    rows.push(Row::default());
                }
                rows.extend(of_item);
                last = kind;
            }
        };
        let mut reads = Reads::default();
        for item in &self.items {
            let block = match item {
                Item::Rows { .. } => None,
                Item::Block { id, .. } => match self.view.block(id) {
                    Some(block) if reads.add_if_read(block) => continue,
                    Some(block) => Some(block),
                    None => continue,
                },
            };
            add(Kind::Log, Reads::rows(&reads.take(), self.width));
            match (item, block) {
                // This block is the first read of another group.
                (_, Some(block)) if reads.add_if_read(block) => {}
                (Item::Rows { rows: printed, kind }, _) => add(*kind, printed.clone()),
                (Item::Block { answer, .. }, Some(block)) => {
                    let rows = match answer {
                        Some(answer) => answer.markdown.open_rows(),
                        None if block.closed => self.closed_rows(block),
                        None => open_rows(block, self.width, running_seconds(&self.view.status)),
                    };
                    let began = answer.as_ref().is_some_and(|answer| answer.began);
                    add(if began { Kind::Hidden } else { kind_of(block) }, rows);
                }
                (Item::Block { .. }, None) => {}
            }
        }
        add(Kind::Log, Reads::rows(&reads.take(), self.width));
        rows
    }

    /// The rows of a closed block.
    fn closed_rows(&self, block: &Block) -> Vec<Row> {
        let own = self.renderers.block(block, self.width);
        own.unwrap_or_else(|| block_rows(block, self.width, Detail::Short))
    }

    fn update_all_blocks(&mut self) {
        let ids: Vec<BlockId> = self.view.blocks.iter().map(|block| block.id.clone()).collect();
        ids.iter().for_each(|id| self.update_block(id));
    }

    /// Updates a block.
    fn update_block(&mut self, id: &BlockId) {
        if self.done.contains(id) {
            return;
        }
        let Some(block) = self.view.block(id) else { return };
        self.log.add_block(id);
        let is_this = |item: &Item| matches!(item, Item::Block { id: known, .. } if known == id);
        if matches!(&block.content, Content::Answer { end: AnswerEnd::SentAgain, .. }) {
            // The answer to the repeated request continues the item of the answer that broke off.
            let is_open = |id: &BlockId| self.view.block(id).is_none_or(|block| !block.closed);
            let goes = self.items.iter_mut().find_map(|item| match item {
                Item::Block { id, answer: Some(_) } if is_open(id) => Some(id),
                _ => None,
            });
            if let Some(goes) = goes {
                self.waits.remove(goes);
                goes.clone_from(id);
                self.waits.insert(id.clone());
            }
        }
        if self.waits.insert(id.clone()) {
            self.items.push_back(Item::Block { id: id.clone(), answer: None });
        }
        if !matches!(block.content, Content::Answer { .. }) || block.agent.is_some() {
            return;
        }
        let (width, room) = (self.width, self.table_lines);
        if let Some(Item::Block { answer, .. }) = self.items.iter_mut().rev().find(|item| is_this(item)) {
            answer.get_or_insert_with(|| {
                let mut markdown = Markdown::new(width).with_margin().with_renderers(self.renderers.clone());
                room.into_iter().for_each(|room| markdown.set_room(room));
                Box::new(Answer { markdown, fed: 0, began: false })
            });
        }
    }

    /// Renders new text of answers. Deferred until rows are requested, since the full screen requests none.
    fn feed_answers(&mut self) {
        for item in &mut self.items {
            let Item::Block { id, answer: Some(answer) } = item else { continue };
            let Some(block) = self.view.block(id) else { continue };
            let Content::Answer { text, .. } = &block.content else { continue };
            answer.markdown.push(text.as_str().get(answer.fed..).unwrap_or_default());
            answer.fed = answer.fed.max(text.as_str().len());
            if block.closed {
                answer.markdown.finish();
            }
        }
    }

    /// Takes the rows of closed blocks up to the first open one; with `all`, of every closed block.
    fn take_closed_blocks(&mut self, rows: &mut Vec<Row>, all: bool) {
        let mut waiting = VecDeque::new();
        let mut is_held = false;
        let mut reads = Reads::default();
        while let Some(mut item) = self.items.pop_front() {
            let block = match &item {
                Item::Rows { .. } => None,
                Item::Block { id, .. } => match self.view.block(id) {
                    Some(block) => Some(block.clone()),
                    // The block was removed.
                    None => {
                        self.waits.remove(id);
                        if matches!(&item, Item::Block { answer: Some(answer), .. } if answer.began) {
                            rows.push(Row::of(Style::YELLOW, "  (this answer broke off and is not kept)"));
                            self.last = Kind::Log;
                        }
                        continue;
                    }
                },
            };
            let is_own = block.as_ref().is_none_or(|block| block.agent.is_none());
            let is_closed = block.as_ref().is_none_or(|block| block.closed);
            let is_free = !is_held || !is_own || all;
            if let Some(block) = block.as_ref().filter(|_| is_free)
                && reads.add_if_read(block)
            {
                continue;
            }
            if !reads.is_empty() {
                if !all && block.as_ref().is_some_and(|block| reads.may_join(block)) {
                    waiting.extend(reads.take().iter().map(Item::of));
                    is_held = true;
                } else {
                    self.take_reads(&mut reads, rows);
                }
                // This block is the first read of another group.
                if let Some(block) = block.as_ref().filter(|_| is_free)
                    && reads.add_if_read(block)
                {
                    continue;
                }
            }
            if !is_closed || (is_held && is_own && !all) {
                let is_first = !is_held;
                if let (Item::Block { answer: Some(answer), .. }, true) = (&mut item, is_first) {
                    let ready = answer.markdown.take_ready();
                    self.push_answer_rows(answer, ready, rows);
                    let began = answer.began;
                    waiting.push_back(item);
                    if began {
                        // Rows of other blocks must not appear within an answer.
                        break;
                    }
                } else {
                    waiting.push_back(item);
                }
                is_held = true;
                continue;
            }
            match (item, block) {
                (Item::Rows { rows: printed, kind }, _) => {
                    self.waiting = self.waiting.saturating_sub(memory_of(&printed));
                    if let count @ 1.. = std::mem::take(&mut self.left_out) {
                        let note = format!("{MARGIN}… {count} rows before this were too many to keep");
                        self.push_rows(Kind::Log, vec![Row::of(Style::YELLOW, &note)], rows);
                    }
                    self.push_rows(kind, printed, rows);
                }
                (Item::Block { id, answer }, Some(block)) => {
                    if let Some(mut answer) = answer {
                        let ready = answer.markdown.take_ready();
                        self.push_answer_rows(&mut answer, ready, rows);
                        rows.extend(block_rows(&block, self.width, Detail::Short));
                    } else {
                        let closed = self.closed_rows(&block);
                        self.push_rows(kind_of(&block), closed, rows);
                    }
                    self.waits.remove(&id);
                    self.done.insert(id);
                }
                (Item::Block { .. }, None) => {}
            }
        }
        if all {
            self.take_reads(&mut reads, rows);
        }
        // A later block may join these reads.
        waiting.extend(reads.take().iter().map(Item::of));
        waiting.append(&mut self.items);
        self.items = waiting;
    }

    fn take_reads(&mut self, reads: &mut Reads, rows: &mut Vec<Row>) {
        let blocks = reads.take();
        self.push_rows(Kind::Log, Reads::rows(&blocks, self.width), rows);
        for block in blocks {
            self.waits.remove(&block.id);
            self.done.insert(block.id.clone());
        }
    }

    /// Takes the first `count` rows of an open answer.
    fn take_open_answer(&mut self, count: usize, rows: &mut Vec<Row>) {
        let Some(Item::Block { answer: Some(_), .. }) = self.items.front() else { return };
        let Some(Item::Block { id, answer: Some(mut answer) }) = self.items.pop_front() else { return };
        let taken = answer.markdown.take_open(count);
        self.push_answer_rows(&mut answer, taken, rows);
        self.items.push_front(Item::Block { id, answer: Some(answer) });
    }

    fn push_answer_rows(&mut self, answer: &mut Answer, ready: Vec<Row>, rows: &mut Vec<Row>) {
        if ready.is_empty() {
            return;
        }
        if std::mem::replace(&mut answer.began, true) {
            rows.extend(ready);
        } else {
            self.push_rows(Kind::Prose, ready, rows);
        }
    }

    fn push_rows(&mut self, kind: Kind, given: Vec<Row>, rows: &mut Vec<Row>) {
        if given.is_empty() {
            return;
        }
        if kind.is_apart_from(self.last) {
            rows.push(Row::default());
        }
        rows.extend(given);
        self.last = kind;
    }
}
