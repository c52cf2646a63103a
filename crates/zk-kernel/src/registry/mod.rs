//! Named items of one bus: tools, providers, services.

mod names;
mod typed;
mod watch;

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

pub(super) use names::Names;
use typed::{AnyRegistry, TypedRegistry};
pub(super) use typed::{Decorator, Found, Provided};
pub use watch::ItemChange;
pub(super) use watch::{ItemChanges, Watcher};

use super::Source;
use super::describe::Registration;
use super::lock::{read, write};
use crate::failure::report::Reporter;

/// A registered item with its decorators applied.
pub struct Item<T: ?Sized> {
    /// Name that the item is registered under.
    pub name: Arc<str>,
    /// Source that registered the item.
    pub source: Source,
    /// The decorated item.
    pub value: Arc<T>,
}

impl<T: ?Sized> Clone for Item<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), source: self.source.clone(), value: self.value.clone() }
    }
}

impl<T: ?Sized> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("name", &self.name).field("source", &self.source).finish_non_exhaustive()
    }
}

/// Failure to register an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvideError {
    /// The name is taken on this bus by an item of the same kind.
    NameTaken {
        /// Rust type of the item's kind.
        kind: &'static str,
        /// Requested name.
        name: String,
        /// Source that registered the name.
        owner: Source,
        /// Source that requested the name.
        claimant: Source,
    },
    /// The scope or the bus is closed.
    Closed {
        /// Rust type of the item's kind.
        kind: &'static str,
        /// Requested name.
        name: String,
        /// Source that requested the name.
        claimant: Source,
    },
}

impl fmt::Display for ProvideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken { kind, name, owner, claimant } => write!(
                f,
                "`{claimant}` cannot register {kind} `{name}`: `{owner}` has that name; \
                 decorate it, or replace it explicitly"
            ),
            Self::Closed { kind, name, claimant } => write!(
                f,
                "`{claimant}` cannot register {kind} `{name}`: its scope or its bus is closed; \
                 register it through a scope of an open bus"
            ),
        }
    }
}

impl std::error::Error for ProvideError {}

/// Items of every kind on one bus, with their decorators and watchers.
#[derive(Default)]
pub(super) struct Registry {
    kinds: RwLock<HashMap<TypeId, Arc<dyn AnyRegistry>>>,
    /// Number of changes so far. It grows after each change, so reading it before a look-up misses no change.
    generation: AtomicU64,
}

impl Registry {
    fn kind<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<TypedRegistry<T>>> {
        let kind = read(&self.kinds).get(&TypeId::of::<T>()).cloned()?;
        kind.as_any().downcast().ok()
    }

    fn kind_or_new<T: ?Sized + Send + Sync + 'static>(&self) -> Arc<TypedRegistry<T>> {
        if let Some(kind) = self.kind() {
            return kind;
        }
        let new = Arc::new(TypedRegistry::<T>::default());
        let kind = write(&self.kinds).entry(TypeId::of::<T>()).or_insert_with(|| new.clone()).clone();
        kind.as_any().downcast().unwrap_or(new)
    }

    pub(super) fn provide<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Provided<T>,
        replace: bool,
    ) -> Result<ItemChanges, ProvideError> {
        let claimant = item.source.clone();
        let provided = self.kind_or_new::<T>().provide(name, item, replace);
        let changes = provided.map_err(|owner| ProvideError::NameTaken {
            kind: type_name::<T>(),
            name: name.to_owned(),
            owner,
            claimant,
        })?;
        self.count_change();
        Ok(changes)
    }

    pub(super) fn watch<T: ?Sized + Send + Sync + 'static>(&self, watcher: Watcher) {
        self.kind_or_new::<T>().watch(watcher);
    }

    /// Adds a decorator of the item called `name`, or of all items if it is `None`.
    pub(super) fn add_decorator<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        decorator: Decorator<T>,
    ) {
        self.kind_or_new::<T>().add_decorator(name, decorator);
        self.count_change();
    }

    /// Returns the number of changes of items and decorators so far.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn count_change(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn get<T: ?Sized + Send + Sync + 'static>(&self, name: &str, reporter: &Reporter) -> Found<T> {
        self.kind::<T>().map_or(Found::Absent, |kind| kind.get(name, reporter))
    }

    /// Wraps an ancestor's `item` called `name` in the decorators of this bus; `None` if a decorator
    /// panicked.
    pub(super) fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
        reporter: &Reporter,
    ) -> Option<Arc<T>> {
        match self.kind::<T>() {
            Some(kind) => kind.decorate(name, item, reporter),
            None => Some(item),
        }
    }

    /// Merges this bus's items over those of its ancestors, which are wrapped in this bus's decorators.
    pub(super) fn overlay<T: ?Sized + Send + Sync + 'static>(
        &self,
        all: &mut Names<Item<T>>,
        reporter: &Reporter,
    ) {
        let Some(kind) = self.kind::<T>() else { return };
        let own = kind.owners();
        for (name, item) in std::mem::take(all).into_entries() {
            if own.iter().any(|(nearer, _)| *nearer == name) {
                continue;
            }
            if let Some(value) = kind.decorate(&name, item.value.clone(), reporter) {
                all.insert(name, Item { value, ..item });
            }
        }
        for (name, source) in own {
            if let Found::Item(value) = kind.get(&name, reporter) {
                all.insert(name.clone(), Item { name, source, value });
            }
        }
    }

    /// Removes the registrations of `scope` and notifies the watchers.
    pub(super) fn remove_scope(&self, scope: u64, reporter: &Reporter) {
        for kind in self.registries() {
            if let Some(changes) = kind.remove_scope(scope) {
                self.count_change();
                changes.notify(reporter);
            }
        }
    }

    pub(super) fn describe(&self, are_services: bool, out: &mut Vec<Registration>) {
        self.registries().iter().for_each(|kind| kind.describe(are_services, out));
    }

    fn registries(&self) -> Vec<Arc<dyn AnyRegistry>> {
        read(&self.kinds).values().cloned().collect()
    }
}
