use std::any::{TypeId, type_name};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::Source;
use super::bus::BusInner;
use super::describe::Registration;
use super::shelf::{AnyShelf, Claim, Decorator, Shelf};
use super::table::{read, write};
use super::watch::{News, Watcher};

/// A registered item, decorated.
pub struct Item<T: ?Sized> {
    /// The name it is registered under.
    pub name: Arc<str>,
    /// Who registered it.
    pub source: Source,
    /// The item inside its decorators.
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

/// Why an item is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvideError {
    /// Another scope, or this one, has an item of that kind and name on this bus.
    #[error(
        "`{claimant}` cannot register {kind} `{name}`: `{owner}` has that name; \
         decorate it, or replace it explicitly"
    )]
    NameTaken {
        /// The kind of item, as its Rust type.
        kind: &'static str,
        /// The name.
        name: String,
        /// Who has it.
        owner: Source,
        /// Who asked for it.
        claimant: Source,
    },
    /// The scope or its bus is closed.
    #[error(
        "`{claimant}` cannot register {kind} `{name}`: its scope or its bus is closed; \
         register it through a scope of an open bus"
    )]
    Closed {
        /// The kind of item, as its Rust type.
        kind: &'static str,
        /// The name.
        name: String,
        /// Who asked for it.
        claimant: Source,
    },
}

/// What a look-up on one bus gives.
pub(super) enum Found<T: ?Sized> {
    /// The item inside its decorators.
    Item(Arc<T>),
    /// Nobody registered one here; an ancestor may have it.
    Absent,
    /// A decorator panicked: there is no item, and an ancestor's must not slip in undecorated.
    Broken,
}

/// The shelves of one bus, one for each kind of item.
#[derive(Default)]
pub(super) struct Shelves {
    shelves: RwLock<HashMap<TypeId, Arc<dyn AnyShelf>>>,
    /// Number of changes so far. It moves after the change, so whoever reads it before a look-up misses none.
    generation: AtomicU64,
}

impl Shelves {
    fn shelf<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<Shelf<T>>> {
        let shelf = read(&self.shelves).get(&TypeId::of::<T>()).cloned()?;
        shelf.as_any().downcast().ok()
    }

    fn shelf_or_new<T: ?Sized + Send + Sync + 'static>(&self) -> Arc<Shelf<T>> {
        if let Some(shelf) = self.shelf() {
            return shelf;
        }
        let new = Arc::new(Shelf::<T>::default());
        let shelf = write(&self.shelves).entry(TypeId::of::<T>()).or_insert_with(|| new.clone()).clone();
        shelf.as_any().downcast().unwrap_or(new)
    }

    pub(super) fn put<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        claim: Claim<T>,
        replace: bool,
    ) -> Result<News, ProvideError> {
        let claimant = claim.source.clone();
        let put = self.shelf_or_new::<T>().put(name, claim, replace);
        let news = put.map_err(|owner| ProvideError::NameTaken {
            kind: type_name::<T>(),
            name: name.to_owned(),
            owner,
            claimant,
        })?;
        self.count_change();
        Ok(news)
    }

    pub(super) fn watch<T: ?Sized + Send + Sync + 'static>(&self, watcher: Watcher) {
        self.shelf_or_new::<T>().watch(watcher);
    }

    pub(super) fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        decorator: Decorator<T>,
    ) {
        self.shelf_or_new::<T>().decorate(name, decorator);
        self.count_change();
    }

    /// Number of changes of items and decorators so far.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn count_change(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn get<T: ?Sized + Send + Sync + 'static>(&self, name: &str, bus: &BusInner) -> Found<T> {
        self.shelf::<T>().map_or(Found::Absent, |shelf| shelf.get(name, bus))
    }

    /// An ancestor's item inside the decorators of this bus.
    pub(super) fn dress<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
        bus: &BusInner,
    ) -> Option<Arc<T>> {
        match self.shelf::<T>() {
            Some(shelf) => shelf.dress(name, item, bus),
            None => Some(item),
        }
    }

    /// Puts this bus's items over those of its ancestors, which get this bus's decorators.
    pub(super) fn overlay<T: ?Sized + Send + Sync + 'static>(
        &self,
        all: &mut BTreeMap<Arc<str>, Item<T>>,
        bus: &BusInner,
    ) {
        let Some(shelf) = self.shelf::<T>() else { return };
        let own = shelf.owners();
        for (name, item) in std::mem::take(all) {
            if own.iter().any(|(nearer, _)| *nearer == name) {
                continue;
            }
            if let Some(value) = shelf.dress(&name, item.value.clone(), bus) {
                all.insert(name, Item { value, ..item });
            }
        }
        for (name, source) in own {
            if let Found::Item(value) = shelf.get(&name, bus) {
                all.insert(name.clone(), Item { name, source, value });
            }
        }
    }

    pub(super) fn remove_scope(&self, scope: u64, bus: &BusInner) {
        for shelf in self.all() {
            if let Some(news) = shelf.remove_scope(scope) {
                self.count_change();
                news.tell(bus);
            }
        }
    }

    pub(super) fn describe(&self, services: bool, out: &mut Vec<Registration>) {
        self.all().iter().for_each(|shelf| shelf.describe(services, out));
    }

    fn all(&self) -> Vec<Arc<dyn AnyShelf>> {
        read(&self.shelves).values().cloned().collect()
    }
}
