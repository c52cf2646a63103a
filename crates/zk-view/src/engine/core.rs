use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zk_core::model::CheckItem;

use crate::blocks::body::FullBody;
use crate::{Block, BlockId, Body, CheckRow, Content, Effect, IndexedView, Lines, Patch, Status, Text};

/// Size of cached full bodies in bytes; older ones are loaded from the stored session.
const MAX_CACHED_BODY_BYTES: usize = 4 << 20;

/// Milliseconds of a minute, by which ages are told.
pub(super) const MINUTE_MS: u64 = 60_000;

/// View of the engine, with its pending patches and effects.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) view: IndexedView,
    pub(super) patches: Vec<Patch>,
    pub(super) effects: Vec<Effect>,
    /// Milliseconds since the view began.
    pub(super) now: u64,
    /// Age of the last compaction in milliseconds, with the time at which it was known.
    compacted: Option<(u64, u64)>,
    bodies: Bodies,
    /// Line of a command that was submitted and has no prompt yet.
    pub(super) typed_command: Option<Text>,
}

#[derive(Debug, Default)]
struct Bodies {
    kept: VecDeque<(BlockId, Lines)>,
    bytes: usize,
    /// Whether no body is dropped from the cache, while one is searched for.
    unlimited: bool,
}

impl Core {
    /// Applies a patch and queues it.
    pub(super) fn emit(&mut self, patch: Patch) {
        self.view.apply(&patch);
        self.patches.push(patch);
    }

    /// Requests a run for a text, which may be the line of a command.
    pub(super) fn request_run(&mut self, text: &str) {
        self.typed_command = text.starts_with('/').then(|| Text::from(text.to_owned()));
        self.effects.push(Effect::Run { text: text.to_owned() });
    }

    pub(super) fn open_block(&mut self, block: Block) {
        self.emit(Patch::Open { block: Arc::new(block) });
    }

    /// Sets a block to its final state; emits nothing if that is unchanged.
    pub(super) fn close_block(&mut self, block: Block) {
        match self.view.block(&block.id) {
            None => self.open_block(block),
            Some(known) if **known == block => {}
            Some(_) => self.emit(Patch::Close { block: Arc::new(block) }),
        }
    }

    /// Changes an open block; ignores a closed one.
    pub(super) fn change_block(&mut self, id: &BlockId, change: impl FnOnce(&mut Content)) {
        let Some(known) = self.view.block(id).filter(|block| !block.closed) else { return };
        let mut block = Block::clone(known);
        change(&mut block.content);
        if block.content != known.content {
            self.emit(Patch::Change { block: Arc::new(block) });
        }
    }

    /// Shows the to-do list.
    pub(super) fn set_checklist(&mut self, items: &[CheckItem]) {
        let items: Vec<CheckRow> = items.iter().map(CheckRow::of).collect();
        if self.view.checklist != items {
            self.emit(Patch::Checklist { items });
        }
    }

    /// Takes the age of the last compaction, in milliseconds.
    pub(super) fn set_compaction_age(&mut self, age_ms: Option<u64>) {
        self.compacted = age_ms.map(|age| (self.now, age));
    }

    /// Age of the last compaction in milliseconds; `None` if no age is shown.
    pub(super) fn compaction_age(&self) -> Option<u64> {
        self.view.status.gauge.and_then(|gauge| gauge.last)?;
        self.time_since_compaction()
    }

    fn time_since_compaction(&self) -> Option<u64> {
        let (told, age) = self.compacted?;
        Some(age.saturating_add(self.now.saturating_sub(told)))
    }

    pub(super) fn set_status(&mut self, mut status: Status) {
        let last = status.gauge.as_mut().and_then(|gauge| gauge.last.as_mut());
        if let (Some(last), Some(age)) = (last, self.time_since_compaction()) {
            last.age_ms = age / MINUTE_MS * MINUTE_MS;
        }
        if self.view.status != status {
            self.emit(Patch::Status { status });
        }
    }

    /// Bounded part of a body for its block; caches the rest.
    pub(super) fn keep_body(&mut self, id: &BlockId, body: FullBody) -> Body {
        let preview = body.preview();
        if preview.expandable {
            self.bodies.cache_body(id, body.into_lines());
        }
        preview
    }

    /// All lines of a truncated body, if still cached.
    pub(super) fn body(&self, id: &BlockId) -> Option<&Lines> {
        self.bodies.kept.iter().find(|(kept, _)| kept == id).map(|(_, lines)| lines)
    }

    /// Caches all lines of a body that was loaded from the stored session.
    pub(super) fn restore_body(&mut self, id: &BlockId, lines: Lines) {
        self.bodies.cache_body(id, lines);
    }

    pub(super) fn expand_body(&mut self, id: &BlockId) {
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

    /// Takes the cached bodies by block.
    pub(super) fn take_bodies(&mut self) -> HashMap<BlockId, Lines> {
        std::mem::take(&mut self.bodies.kept).into_iter().collect()
    }

    pub(super) fn unlimit_bodies(&mut self) {
        self.bodies.unlimited = true;
    }
}

impl Bodies {
    fn cache_body(&mut self, id: &BlockId, lines: Lines) {
        let weight = |lines: &Lines| lines.iter().map(|line| line.as_str().len() + 48).sum::<usize>();
        if let Some(at) = self.kept.iter().position(|(kept, _)| kept == id)
            && let Some((_, old)) = self.kept.remove(at)
        {
            self.bytes -= weight(&old);
        }
        self.bytes += weight(&lines);
        self.kept.push_back((id.clone(), lines));
        while self.bytes > MAX_CACHED_BODY_BYTES && !self.unlimited {
            let Some((_, oldest)) = self.kept.pop_front() else { break };
            self.bytes -= weight(&oldest);
        }
    }
}
