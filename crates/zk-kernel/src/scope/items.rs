use std::any::type_name;
use std::panic::Location;
use std::sync::Arc;

use super::Scope;
use crate::registry::{Decorator, Provided, Watcher};
use crate::{ItemChange, ProvideError};

impl Scope {
    /// Registers `item` under `name` for the type `T`, such as `dyn Tool`.
    ///
    /// # Errors
    /// [`ProvideError`] when the name is taken on this bus, or the scope or the bus is closed.
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

    /// Registers `item` like [`Scope::provide`], even if the name is taken. The hidden item returns when this
    /// scope closes, and the name's decorators apply to whichever item is in effect.
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

    /// Registers a decorator of the item called `name`, registered now or later; the last decorator is the
    /// outermost. Use this for retries, caching, timing and sandboxing. On the bus of a sub-agent it also
    /// wraps an inherited item, for that sub-agent and its children only.
    ///
    /// `wrap` must not look up the item that it wraps.
    #[track_caller]
    pub fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        wrap: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static,
    ) {
        self.add_decorator(Some(name), Arc::new(wrap), Location::caller());
    }

    /// Registers a decorator like [`Scope::decorate`], for every item of type `T`.
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

    /// Registers the service of type `T`. An earlier one is hidden, and returns when this scope closes.
    #[track_caller]
    pub fn provide_service<T: ?Sized + Send + Sync + 'static>(&self, service: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let _ = bus.inner.services.provide("", self.provided(service, location), true);
            self.inner.undo_if_closed();
        }
    }

    /// Registers a watcher: `f` is called after the item of type `T` under some name was registered, replaced
    /// or removed on this bus. Ancestors' items and decorators do not count.
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
