use std::panic::Location;
use std::sync::Arc;

use crate::failure::catch::catch;
use crate::failure::report::Reporter;
use crate::{Cause, HookError, Source};

/// Change of the item that is registered under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChange {
    /// Name of the item.
    pub name: Arc<str>,
    /// Source of the item that has the name now; `None` if no item on this bus has it.
    pub owner: Option<Source>,
}

/// One registered watcher of a kind of items.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) scope: u64,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) run: Arc<dyn Fn(&ItemChange) + Send + Sync>,
}

/// Changes, with the watchers to notify after all locks are released.
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
