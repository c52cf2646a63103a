use std::any::type_name;
use std::panic::Location;
use std::sync::Arc;

use super::Scope;
use crate::registry::{Decorator, Provided, Watcher};
use crate::{ItemChange, ProvideError};

impl Scope {
    /// Registers `item` under `name` among the items of kind `T`, such as `dyn Tool`.
    ///
    /// # Errors
    /// [`ProvideError`]: this bus has an item of that name, or the scope or the bus is closed.
    #[track_caller]
    pub fn provide<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
    ) -> Result<(), ProvideError> {
        let location = Location::caller();
        let closed = || ProvideError::Closed {
            kind: type_name::<T>(),
            name: name.to_owned(),
            claimant: self.inner.source.clone(),
        };
        let bus = self.bus().filter(|bus| !self.is_closed_on(bus)).ok_or_else(closed)?;
        bus.inner.items.provide(name, self.provided(item, location), false)?.notify(&bus.inner.reporter);
        self.inner.undo_if_closed();
        if self.is_closed_on(&bus) { Err(closed()) } else { Ok(()) }
    }

    /// Provides as [`Scope::provide`] does, taking over a name that is taken. The hidden item comes back when
    /// this scope closes, and the decorators of the name apply to whichever item has it.
    #[track_caller]
    pub fn provide_replacing<T: ?Sized + Send + Sync + 'static>(&self, name: &str, item: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            if let Ok(changes) = bus.inner.items.provide(name, self.provided(item, location), true) {
                changes.notify(&bus.inner.reporter);
            }
            self.inner.undo_if_closed();
        }
    }

    /// Wraps the item called `name`, now or whenever it is registered; the last decorator is the outermost.
    /// This is where retry, caching, timing and sandboxing go. On the bus of a sub-agent it also wraps an item
    /// that is inherited, for that sub-agent and its own children only.
    ///
    /// `wrap` must not look up the item it wraps.
    #[track_caller]
    pub fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        wrap: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static,
    ) {
        self.add_decorator(Some(name), Arc::new(wrap), Location::caller());
    }

    /// Decorates as [`Scope::decorate`] does, for every item of kind `T`.
    #[track_caller]
    pub fn decorate_all<T: ?Sized + Send + Sync + 'static>(
        &self,
        wrap: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static,
    ) {
        self.add_decorator(None, Arc::new(wrap), Location::caller());
    }

    fn add_decorator<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
        location: &'static Location<'static>,
    ) {
        if let Some(bus) = self.open_bus(location) {
            let decorator = Decorator {
                id: bus.next_id(),
                scope: self.inner.id,
                source: self.inner.source.clone(),
                location,
                wrap,
            };
            bus.inner.items.add_decorator(name, decorator);
            self.inner.undo_if_closed();
        }
    }

    fn provided<T: ?Sized>(&self, item: Arc<T>, location: &'static Location<'static>) -> Provided<T> {
        Provided { scope: self.inner.id, source: self.inner.source.clone(), location, item }
    }

    /// Offers `service` as *the* `T`, in place of an earlier one, which comes back when this scope closes.
    #[track_caller]
    pub fn provide_service<T: ?Sized + Send + Sync + 'static>(&self, service: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let _ = bus.inner.services.provide("", self.provided(service, location), true);
            self.inner.undo_if_closed();
        }
    }

    /// Calls `f` whenever another item of kind `T` has a name on this bus, or none has it any more: once the
    /// change is made. Items of ancestors and decorators do not count.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use zk_kernel::{Bus, ItemChange};
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
