use std::collections::{HashMap, VecDeque};

use zk_core::model::CallId;

use super::{Core, Part};
use crate::text::Growing;
use crate::{BatchCounts, BlockId, CallState, Content};

/// Block of the present turn, with the text that it grows by.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: BlockId,
    pub(super) tag: Tag,
    pub(super) growing: Growing,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tag {
    Thinking,
    Answer,
    Provider,
    Summary,
    Call(CallId),
}

impl Tag {
    pub(super) fn of(part: &Part<'_>) -> Self {
        match part {
            Part::Thinking(_) => Self::Thinking,
            Part::Answer(..) => Self::Answer,
            Part::Provider(_) => Self::Provider,
            Part::Summary(_) => Self::Summary,
            Part::Call(call) => Self::Call(call.id.clone()),
        }
    }
}

/// Block of a call, with its index in the turn.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CallBlock {
    pub(in crate::engine) id: BlockId,
    /// Index of the call within the turn.
    number: usize,
}

/// A call of the turn.
#[derive(Debug)]
struct TurnCall {
    /// Position of the call among the blocks of the turn.
    at: usize,
    /// State as which the call is counted.
    counted: CallState,
}

/// Blocks of an answer in order. Calls are found by index and by id in constant time.
#[derive(Debug, Default)]
pub(in crate::engine) struct TurnBlocks {
    blocks: Vec<Open>,
    calls: Vec<TurnCall>,
    /// Indexes of the calls with an id; finished ones are removed from the front.
    by_id: HashMap<CallId, VecDeque<usize>>,
    counts: BatchCounts,
}

impl TurnBlocks {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.blocks.iter()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Open> {
        self.blocks.get(at)
    }

    pub(super) fn last(&self) -> Option<&Open> {
        self.blocks.last()
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Open> {
        self.blocks.last_mut()
    }

    /// Adds a block, which is shown already.
    pub(super) fn push(&mut self, core: &Core, open: Open) {
        if let Tag::Call(call_id) = &open.tag {
            let counted = call_state(core, &open.id).unwrap_or(CallState::Writing);
            self.counts.add(counted);
            self.by_id.entry(call_id.clone()).or_default().push_back(self.calls.len());
            self.calls.push(TurnCall { at: self.blocks.len(), counted });
        }
        self.blocks.push(open);
    }

    /// Takes the blocks from `at` on out.
    pub(super) fn split_off(&mut self, at: usize) -> Vec<Open> {
        let taken = self.blocks.split_off(at.min(self.blocks.len()));
        while let Some(call) = self.calls.pop_if(|call| call.at >= at) {
            self.counts.subtract(call.counted);
        }
        for open in &taken {
            if let Tag::Call(call_id) = &open.tag
                && let Some(numbers) = self.by_id.get_mut(call_id)
            {
                while numbers.back().is_some_and(|number| *number >= self.calls.len()) {
                    numbers.pop_back();
                }
            }
        }
        taken
    }

    /// Block of the call with the index `number`.
    pub(in crate::engine) fn call(&self, number: usize) -> Option<CallBlock> {
        let open = self.calls.get(number).and_then(|call| self.blocks.get(call.at))?;
        Some(CallBlock { id: open.id.clone(), number })
    }

    /// Block of the first unfinished call with this id.
    pub(in crate::engine) fn open_call(&mut self, core: &Core, call_id: &CallId) -> Option<CallBlock> {
        loop {
            let number = *self.by_id.get(call_id)?.front()?;
            let block = self.call(number);
            if let Some(block) = block
                && core.view.block(&block.id).is_some_and(|block| !block.closed)
            {
                return Some(block);
            }
            self.by_id.get_mut(call_id)?.pop_front();
        }
    }

    /// Updates the counts by the state of a call's block.
    pub(in crate::engine) fn count_call(&mut self, core: &Core, block: &CallBlock) {
        if let Some(call) = self.calls.get_mut(block.number)
            && let Some(state) = call_state(core, &block.id)
        {
            self.counts.subtract(call.counted);
            self.counts.add(state);
            call.counted = state;
        }
    }

    /// Counts of the turn's calls by state.
    pub(in crate::engine) fn counts(&self) -> BatchCounts {
        self.counts
    }
}

fn call_state(core: &Core, id: &BlockId) -> Option<CallState> {
    match &core.view.block(id)?.content {
        Content::Call(call) => Some(call.state),
        _ => None,
    }
}
