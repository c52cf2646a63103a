use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::Arc;

use tokio::sync::Notify;

use super::Shared;
use crate::{Patch, View};

/// Most patches, and bytes of them, that a reader may leave unread. Beyond that it gets the whole view once.
const MAX_PATCHES: usize = 1024;
const MAX_BYTES: usize = 1 << 20;

/// Patches that one reader has not read yet.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) id: u64,
    pub(super) wake: Arc<Notify>,
    drained: Arc<Notify>,
    patches: VecDeque<Patch>,
    bytes: usize,
    /// The reader needs the whole view.
    behind: bool,
    /// Whether it has dealt with everything it took.
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

    /// Adds a patch. Text that follows text of the same block joins it, and what replaces the whole of something
    /// replaces an earlier patch of its kind.
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

/// A bounded reader of a view's patches. Whoever reads slowly gets fewer and larger patches, and one
/// [`Patch::Reset`] after falling behind.
#[derive(Debug)]
pub struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) wake: Arc<Notify>,
}

impl Reader {
    /// The next patches, waiting for some; nothing once the view's bus is closed and all is read. Asking again
    /// says that the last ones were dealt with.
    pub async fn next(&mut self) -> Option<Vec<Patch>> {
        loop {
            let woken = self.wake.notified();
            let patches = self.shared.take(self.id)?;
            if !patches.is_empty() {
                return Some(patches);
            }
            woken.await;
        }
    }

    /// A handle to wait until this reader has dealt with everything.
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

/// Waits for a [`Reader`], for those who write beside it.
#[derive(Clone, Debug)]
pub struct Drained {
    shared: Arc<Shared>,
    id: u64,
}

impl Drained {
    /// Waits until the reader has dealt with everything there was, or is gone.
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
            // From here on nothing is missed; what happened before is looked at again.
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
