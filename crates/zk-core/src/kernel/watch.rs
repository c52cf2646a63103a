use std::panic::Location;
use std::sync::Arc;

use super::bus::BusInner;
use super::erase::catch;
use super::{Cause, HookError, Source};

/// Another item has a name, or none has it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChange {
    /// The name.
    pub name: Arc<str>,
    /// Who has registered the item that has the name now; nothing when there is none on this bus.
    pub owner: Option<Source>,
}

/// Somebody who wants to know of the changes of one kind of item.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) scope: u64,
    pub(super) source: Source,
    pub(super) location: &'static Location<'static>,
    pub(super) run: Arc<dyn Fn(&ItemChange) + Send + Sync>,
}

/// Changes, and who is to be told of them once no lock is held.
#[derive(Default)]
pub(super) struct News {
    pub(super) changes: Vec<ItemChange>,
    pub(super) watchers: Vec<Watcher>,
}

impl News {
    pub(super) fn tell(self, bus: &BusInner) {
        for watcher in &self.watchers {
            for change in &self.changes {
                if let Err(message) = catch(|| (watcher.run)(change)) {
                    bus.report(&HookError {
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
