use std::collections::VecDeque;
use std::sync::Arc;

use zk_core::model::CheckItem;

use crate::blocks::body::FullBody;
use crate::{Block, BlockId, Body, CheckRow, Content, Effect, IndexedView, Lines, Patch, Status};

/// Bytes of full bodies that are kept; older ones are read from the stored session.
const BODY_BYTES: usize = 4 << 20;

/// The view, and what changes in it.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) view: IndexedView,
    pub(super) patches: Vec<Patch>,
    pub(super) effects: Vec<Effect>,
    /// Milliseconds since the view began.
    pub(super) now: u64,
    bodies: Bodies,
}

#[derive(Debug, Default)]
struct Bodies {
    kept: VecDeque<(BlockId, Lines)>,
    bytes: usize,
    /// Nothing is dropped: one body is looked for.
    unlimited: bool,
}

impl Core {
    /// Makes a change and announces it.
    pub(super) fn emit(&mut self, patch: Patch) {
        self.view.apply(&patch);
        self.patches.push(patch);
    }

    pub(super) fn open(&mut self, block: Block) {
        self.emit(Patch::Open { block: Arc::new(block) });
    }

    /// Puts a block as it stays, unless it stands so already.
    pub(super) fn close(&mut self, block: Block) {
        match self.view.block(&block.id) {
            None => self.open(block),
            Some(known) if **known == block => {}
            Some(_) => self.emit(Patch::Close { block: Arc::new(block) }),
        }
    }

    /// Changes an open block; a closed one stays.
    pub(super) fn change(&mut self, id: &BlockId, change: impl FnOnce(&mut Content)) {
        let Some(known) = self.view.block(id).filter(|block| !block.closed) else { return };
        let mut block = Block::clone(known);
        change(&mut block.content);
        if block.content != known.content {
            self.emit(Patch::Change { block: Arc::new(block) });
        }
    }

    /// Shows the list of what is to be done.
    pub(super) fn set_checklist(&mut self, items: &[CheckItem]) {
        let items: Vec<CheckRow> = items.iter().map(CheckRow::of).collect();
        if self.view.checklist != items {
            self.emit(Patch::Checklist { items });
        }
    }

    pub(super) fn set_status(&mut self, status: Status) {
        if self.view.status != status {
            self.emit(Patch::Status { status });
        }
    }

    /// The part of a body that its block holds; the rest is kept for when somebody asks.
    pub(super) fn keep_body(&mut self, id: &BlockId, body: FullBody) -> Body {
        let preview = body.preview();
        if preview.expandable {
            self.bodies.keep(id, body.into_lines());
        }
        preview
    }

    /// All lines of a body that is longer than its block holds, as long as they are kept.
    pub(super) fn body(&self, id: &BlockId) -> Option<&Lines> {
        self.bodies.kept.iter().find(|(kept, _)| kept == id).map(|(_, lines)| lines)
    }

    /// Keeps all lines of a body that was stored.
    pub(super) fn restore_body(&mut self, id: &BlockId, lines: Lines) {
        self.bodies.keep(id, lines);
    }

    pub(super) fn expand(&mut self, id: &BlockId) {
        match self.body(id) {
            Some(lines) => self.patches.push(Patch::Body { id: id.clone(), lines: lines.clone() }),
            None => match self.view.block(id).and_then(|block| block.content.body()) {
                Some(body) if !body.expandable => {
                    let lines = body.lines.clone().into();
                    self.patches.push(Patch::Body { id: id.clone(), lines });
                }
                Some(_) => self.effects.push(Effect::LoadBody { id: id.clone() }),
                None => {}
            },
        }
    }

    pub(super) fn forget_bodies(&mut self) {
        self.bodies = Bodies { unlimited: self.bodies.unlimited, ..Bodies::default() };
    }

    pub(super) fn keep_all_bodies(&mut self) {
        self.bodies.unlimited = true;
    }
}

impl Bodies {
    fn keep(&mut self, id: &BlockId, lines: Lines) {
        let weight = |lines: &Lines| lines.iter().map(|line| line.as_str().len() + 48).sum::<usize>();
        if let Some(at) = self.kept.iter().position(|(kept, _)| kept == id)
            && let Some((_, old)) = self.kept.remove(at)
        {
            self.bytes -= weight(&old);
        }
        self.bytes += weight(&lines);
        self.kept.push_back((id.clone(), lines));
        while self.bytes > BODY_BYTES && !self.unlimited {
            let Some((_, oldest)) = self.kept.pop_front() else { break };
            self.bytes -= weight(&oldest);
        }
    }
}
