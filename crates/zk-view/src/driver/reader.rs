use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::Arc;

use tokio::sync::Notify;

use super::Shared;
use crate::{Patch, View};

/// Maximum number and size of a reader's unread patches; beyond that it gets the complete view.
const MAX_PATCHES: usize = 1024;
const MAX_BYTES: usize = 1 << 20;

/// Unread patches of one reader.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) id: u64,
    pub(super) wake: Arc<Notify>,
    drained: Arc<Notify>,
    patches: VecDeque<Patch>,
    bytes: usize,
    /// Whether the reader needs the complete view.
    behind: bool,
    /// Whether the reader has processed everything it took.
    idle: bool,
}

impl Backlog {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            wake: Arc::default(),
            drained: Arc::default(),
            patches: VecDeque::new(),
            bytes: 0,
            behind: true,
            idle: false,
        }
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Appends a patch. Consecutive texts of a block are joined, and a patch that replaces a list or status
    /// supersedes the earlier one.
    pub(super) fn push(&mut self, patch: &Patch) {
        let weight = patch.weight();
        if self.behind {
            return;
        }
        match (patch, self.patches.back_mut()) {
            (Patch::Grow { id, delta }, Some(Patch::Grow { id: last, delta: text })) if id == last => {
                text.append(delta);
                self.bytes += delta.weight();
            }
            (Patch::Status { .. } | Patch::Queue { .. } | Patch::Agents { .. } | Patch::Jobs { .. }, _) => {
                let kind = discriminant(patch);
                if let Some(at) = self.patches.iter().rposition(|queued| discriminant(queued) == kind)
                    && let Some(old) = self.patches.remove(at)
                {
                    self.bytes = self.bytes.saturating_sub(old.weight());
                }
                self.patches.push_back(patch.clone());
                self.bytes += weight;
            }
            _ => {
                self.patches.push_back(patch.clone());
                self.bytes += weight;
            }
        }
        if self.patches.len() > MAX_PATCHES || self.bytes > MAX_BYTES {
            (self.patches, self.bytes, self.behind) = (VecDeque::new(), 0, true);
        }
    }

    pub(super) fn take(&mut self, view: impl FnOnce() -> View) -> Vec<Patch> {
        self.bytes = 0;
        let patches = if std::mem::take(&mut self.behind) {
            vec![Patch::Reset { view: Box::new(view()) }]
        } else {
            std::mem::take(&mut self.patches).into()
        };
        self.idle = patches.is_empty();
        if self.idle {
            self.drained.notify_waiters();
        }
        patches
    }

    fn is_drained(&self) -> bool {
        self.idle && !self.behind && self.patches.is_empty()
    }
}

/// Bounded reader of a view's patches. A slow reader gets fewer and larger patches, and a [`Patch::Reset`]
/// after falling behind.
#[derive(Debug)]
pub struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) wake: Arc<Notify>,
}

impl Reader {
    /// Waits for the next patches; `None` once the view's bus is closed and everything is read. Each call
    /// confirms that the earlier patches were processed.
    pub async fn next(&mut self) -> Option<Vec<Patch>> {
        loop {
            let woken = self.wake.notified();
            let patches = self.shared.take_patches(self.id)?;
            if !patches.is_empty() {
                return Some(patches);
            }
            woken.await;
        }
    }

    /// Returns a handle to wait until this reader has processed all patches.
    #[must_use]
    pub fn drained(&self) -> Drained {
        Drained { shared: self.shared.clone(), id: self.id }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(at) = state.readers.iter().position(|reader| reader.id == self.id) {
            state.readers.remove(at).drained.notify_waiters();
        }
    }
}

/// Handle that waits for a [`Reader`], for code that writes beside it.
#[derive(Clone, Debug)]
pub struct Drained {
    shared: Arc<Shared>,
    id: u64,
}

impl Drained {
    /// Waits until the reader has processed all present patches, or is dropped.
    pub async fn wait(&self) {
        loop {
            let drained = {
                let state = self.shared.state();
                match state.readers.iter().find(|reader| reader.id == self.id) {
                    Some(reader) if !reader.is_drained() && !state.closed => reader.drained.clone(),
                    Some(_) | None => return,
                }
            };
            let mut wait = std::pin::pin!(drained.notified());
            // Changes after this line wake the waiter, so the condition is checked after it.
            wait.as_mut().enable();
            let is_over = {
                let state = self.shared.state();
                state.readers.iter().find(|reader| reader.id == self.id).is_none_or(Backlog::is_drained)
            };
            if is_over {
                return;
            }
            wait.await;
        }
    }
}
