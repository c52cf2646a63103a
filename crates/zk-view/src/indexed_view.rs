use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::{Block, BlockId, Patch, View};

/// A [`View`] with an index of its blocks: applying a patch takes constant time.
///
/// ```
/// use zk_view::{IndexedView, Patch, View};
///
/// let mut view = IndexedView::default();
/// view.apply(&Patch::Queue { queued: Vec::new() });
/// assert_eq!(*view, View::default());
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexedView {
    view: View,
    /// Last position of each block by its id.
    places: HashMap<BlockId, usize>,
}

impl From<View> for IndexedView {
    fn from(view: View) -> Self {
        let mut indexed = Self { view, places: HashMap::new() };
        indexed.index_from(0);
        indexed
    }
}

impl Deref for IndexedView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl IndexedView {
    /// Applies a patch.
    pub fn apply(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => *self = Self::from(View::clone(view)),
            Patch::Open { block } => self.push(block),
            Patch::Change { block } | Patch::Close { block } => match self.block_mut(&block.id) {
                Some(known) => *known = block.clone(),
                None => self.push(block),
            },
            Patch::Grow { id, delta } => {
                if let Some(block) = self.block_mut(id) {
                    Arc::make_mut(block).grow(delta);
                }
            }
            Patch::Remove { id } => {
                if let Some(at) = self.places.remove(id) {
                    self.view.blocks.remove(at);
                    self.index_from(at);
                }
            }
            Patch::Body { .. }
            | Patch::Ask { .. }
            | Patch::Answered { .. }
            | Patch::Queue { .. }
            | Patch::Status { .. }
            | Patch::Agents { .. }
            | Patch::Jobs { .. }
            | Patch::Checklist { .. } => self.view.apply(patch),
        }
    }

    /// Block with this id.
    #[must_use]
    pub fn block(&self, id: &BlockId) -> Option<&Arc<Block>> {
        self.places.get(id).and_then(|at| self.view.blocks.get(*at))
    }

    fn block_mut(&mut self, id: &BlockId) -> Option<&mut Arc<Block>> {
        self.places.get(id).and_then(|at| self.view.blocks.get_mut(*at))
    }

    /// Inserts blocks at positions in the result, in ascending order.
    pub(crate) fn insert(&mut self, blocks: impl Iterator<Item = (usize, Arc<Block>)>) {
        let mut first = None;
        for (at, block) in blocks {
            let at = at.min(self.view.blocks.len());
            first = Some(first.map_or(at, |first: usize| first.min(at)));
            self.view.blocks.insert(at, block);
        }
        first.into_iter().for_each(|first| self.index_from(first));
    }

    /// Changes the fields of the view other than the blocks.
    pub(crate) fn edit_fields(&mut self, change: impl FnOnce(&mut View)) {
        let blocks = std::mem::take(&mut self.view.blocks);
        change(&mut self.view);
        self.view.blocks = blocks;
    }

    /// Returns the view without its index.
    pub(crate) fn into_view(self) -> View {
        self.view
    }

    fn push(&mut self, block: &Arc<Block>) {
        self.places.insert(block.id.clone(), self.view.blocks.len());
        self.view.blocks.push(block.clone());
    }

    fn index_from(&mut self, first: usize) {
        let blocks = self.view.blocks.iter().enumerate().skip(first);
        self.places.extend(blocks.map(|(at, block)| (block.id.clone(), at)));
    }
}
