use std::panic::Location;
use std::sync::Arc;

use crate::failure::catch::catch;
use crate::failure::report::Reporter;
use crate::{Cause, HookError, Source};

/// Change of the item that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChange {
    /// The name.
    pub name: Arc<str>,
    /// Source of the item that has the name now; `None` when there is none on this bus.
    pub owner: Option<Source>,
}

/// One registration of a watcher of one kind of item.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) scope: u64,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) run: Arc<dyn Fn(&ItemChange) + Send + Sync>,
}

/// Changes with the watchers to notify of them once no lock is held.
#[must_use = "the watchers have to be notified"]
pub(crate) struct ItemChanges {
    pub(super) changes: Vec<ItemChange>,
    pub(super) watchers: Vec<Watcher>,
}

impl ItemChanges {
    pub(crate) fn notify(self, reporter: &Reporter) {
        for watcher in &self.watchers {
            for change in &self.changes {
                if let Err(message) = catch(|| (watcher.run)(change)) {
                    reporter.report(&HookError {
                        event: "registry:watch",
                        source: watcher.source.clone(),
                        location: watcher.location,
                        cause: Cause::Panicked(message),
                    });
                }
            }
        }
    }
}
