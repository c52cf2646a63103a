use std::panic::Location;
use std::sync::Arc;

use super::Scope;
use crate::kernel::ItemChange;
use crate::kernel::watch::Watcher;

impl Scope {
    /// Calls `f` whenever another item of kind `T` has a name on this bus, or none has it any more: once the
    /// change is made. Items of ancestors and decorators do not count.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use zk_core::kernel::{Bus, ItemChange};
    ///
    /// let bus = Bus::new();
    /// let seen = std::sync::mpsc::channel();
    /// bus.scope("watcher").on_items::<String>(move |change: &ItemChange| drop(seen.0.send(change.clone())));
    /// bus.scope("greeter").provide("hello", Arc::new("Hello!".to_owned())).unwrap();
    /// assert_eq!(&*seen.1.recv().unwrap().name, "hello");
    /// ```
    #[track_caller]
    pub fn on_items<T: ?Sized + Send + Sync + 'static>(
        &self,
        f: impl Fn(&ItemChange) + Send + Sync + 'static,
    ) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let (scope, source) = (self.inner.id, self.inner.source.clone());
            bus.inner.items.watch::<T>(Watcher { scope, source, location, run: Arc::new(f) });
            self.inner.undo_if_closed();
        }
    }
}
