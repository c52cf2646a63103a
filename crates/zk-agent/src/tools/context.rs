use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use zk_core::kernel::Cx;

use super::{Outcomes, RepeatedFailures, Toolbox};
use crate::Behavior;
use crate::gates::DedupMemory;
use crate::lock::lock;
use crate::run::RunShared;

/// Parts of a run that the calls of one turn need.
pub(crate) struct CallContext<'a> {
    /// Context of the turn.
    pub(crate) cx: &'a Cx,
    pub(crate) shared: &'a RunShared,
    pub(crate) behavior: &'a Behavior,
    pub(crate) toolbox: &'a Toolbox,
    pub(crate) history: &'a CallHistory,
    pub(crate) dedup: &'a DedupMemory,
    pub(crate) cwd: &'a Path,
    /// Whether the model can see images in results.
    pub(crate) keeps_images: bool,
}

/// Earlier calls of one run that affect later batches.
#[derive(Debug, Default)]
pub(crate) struct CallHistory {
    repeats: Mutex<RepeatedFailures>,
    outcomes: Mutex<Outcomes>,
}

impl CallHistory {
    pub(crate) fn repeats(&self) -> MutexGuard<'_, RepeatedFailures> {
        lock(&self.repeats)
    }

    pub(super) fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        lock(&self.outcomes)
    }
}
