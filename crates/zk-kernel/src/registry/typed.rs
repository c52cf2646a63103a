use std::any::{Any, type_name};
use std::panic::Location;
use std::sync::{Arc, OnceLock, RwLock};

use super::names::Names;
use super::watch::{ItemChange, ItemChanges, Watcher};
use crate::describe::{Registration, RegistrationKind};
use crate::failure::catch::catch;
use crate::failure::report::Reporter;
use crate::lock::{read, write};
use crate::{Cause, HookError, Source};

/// Items of one kind on one bus, with their decorators and watchers.
pub(super) struct TypedRegistry<T: ?Sized>(RwLock<State<T>>);

struct State<T: ?Sized> {
    names: Names<Name<T>>,
    /// Decorators that apply to every item.
    decorators: Vec<Decorator<T>>,
    /// Cache of ancestors' items with this bus's decorators applied: the original and the result, by name.
    inherited: Names<(Arc<T>, Decorated<T>)>,
    watchers: Vec<Watcher>,
}

/// Registrations under one name. They outlive the item, so that decorators apply even if they were registered
/// before the item or kept across a reload.
struct Name<T: ?Sized> {
    /// Registrations of items with this name. The last one is in effect; when it is removed, the one before
    /// returns.
    provided: Vec<Provided<T>>,
    decorators: Vec<Decorator<T>>,
    /// Cache of the decorated item, filled by the first look-up after a change.
    decorated: Decorated<T>,
}

/// Cache cell of a decorated item; contains `None` if a decorator panicked.
type Decorated<T> = Arc<OnceLock<Option<Arc<T>>>>;

/// One registered item.
pub(crate) struct Provided<T: ?Sized> {
    pub(crate) scope: u64,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) item: Arc<T>,
}

/// One registered decorator.
pub(crate) struct Decorator<T: ?Sized> {
    pub(crate) id: u64,
    pub(crate) scope: u64,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
}

/// Result of a look-up on one bus.
pub(crate) enum Found<T: ?Sized> {
    /// The decorated item.
    Item(Arc<T>),
    /// There is no item of that name on this bus; an ancestor may have one.
    Absent,
    /// A decorator panicked. There is no item, and an ancestor's must not be used undecorated.
    Broken,
}

impl<T: ?Sized> Clone for Decorator<T> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), wrap: self.wrap.clone(), ..*self }
    }
}

impl<T: ?Sized> Name<T> {
    fn remove_items(&mut self, scope: u64) {
        self.provided.retain(|item| item.scope != scope);
    }
}

fn remove_decorators<T: ?Sized>(decorators: &mut Vec<Decorator<T>>, scope: u64) {
    decorators.retain(|decorator| decorator.scope != scope);
}

impl<T: ?Sized> Default for Name<T> {
    fn default() -> Self {
        Self { provided: Vec::new(), decorators: Vec::new(), decorated: Arc::default() }
    }
}

impl<T: ?Sized> Default for TypedRegistry<T> {
    fn default() -> Self {
        Self(RwLock::new(State {
            names: Names::default(),
            decorators: Vec::new(),
            inherited: Names::default(),
            watchers: Vec::new(),
        }))
    }
}

impl<T: ?Sized + Send + Sync + 'static> TypedRegistry<T> {
    /// Registers an item; fails with the owner if the name is taken.
    pub(super) fn provide(
        &self,
        name: &str,
        item: Provided<T>,
        replace: bool,
    ) -> Result<ItemChanges, Source> {
        let change = ItemChange { name: Arc::from(name), owner: Some(item.source.clone()) };
        let mut state = write(&self.0);
        if let Some(owner) = state.names.get(name).and_then(|entry| entry.provided.last())
            && !replace
        {
            return Err(owner.source.clone());
        }
        state.names.update(name, |entry| {
            // All items of a scope are removed together, so its older item could never return.
            entry.remove_items(item.scope);
            entry.provided.push(item);
            entry.decorated = Arc::default();
        });
        Ok(ItemChanges { changes: vec![change], watchers: state.watchers.clone() })
    }

    pub(super) fn watch(&self, watcher: Watcher) {
        write(&self.0).watchers.push(watcher);
    }

    pub(super) fn add_decorator(&self, name: Option<&str>, decorator: Decorator<T>) {
        let mut state = write(&self.0);
        match name {
            Some(name) => {
                state.names.update(name, |entry| {
                    entry.decorators.push(decorator);
                    entry.decorated = Arc::default();
                });
                state.inherited.remove(name);
            }
            None => {
                state.decorators.push(decorator);
                state.names.iter_mut().for_each(|(_, entry)| entry.decorated = Arc::default());
                state.inherited.clear();
            }
        }
    }

    pub(super) fn get(&self, name: &str, reporter: &Reporter) -> Found<T> {
        let found = {
            let state = read(&self.0);
            let Some(entry) = state.names.get(name) else { return Found::Absent };
            let Some(last) = entry.provided.last() else { return Found::Absent };
            state.undecorated(name, last.item.clone(), entry.decorated.clone())
        };
        found.decorate(reporter).map_or(Found::Broken, Found::Item)
    }

    /// Wraps an ancestor's `item` called `name` in the decorators of this bus; `None` if a decorator
    /// panicked.
    pub(super) fn decorate(&self, name: &str, item: Arc<T>, reporter: &Reporter) -> Option<Arc<T>> {
        let cached = {
            let state = read(&self.0);
            if state.decorators.is_empty()
                && state.names.get(name).is_none_or(|entry| entry.decorators.is_empty())
            {
                return Some(item);
            }
            state.cached(name, &item).map(|decorated| state.undecorated(name, item.clone(), decorated))
        };
        let found = cached.unwrap_or_else(|| {
            let mut state = write(&self.0);
            let decorated = state.cached(name, &item).unwrap_or_default();
            state.inherited.insert(Arc::from(name), (item.clone(), decorated.clone()));
            state.undecorated(name, item, decorated)
        });
        found.decorate(reporter)
    }

    /// Returns the names on this bus with their owners.
    pub(super) fn owners(&self) -> Vec<(Arc<str>, Source)> {
        let state = read(&self.0);
        let owner =
            |(name, entry): &(Arc<str>, Name<T>)| Some((name.clone(), entry.provided.last()?.source.clone()));
        state.names.iter().filter_map(owner).collect()
    }
}

impl<T: ?Sized> State<T> {
    /// Returns the cache cell of an inherited `item`, if it is still the ancestor's item of that name.
    fn cached(&self, name: &str, item: &Arc<T>) -> Option<Decorated<T>> {
        let (of, decorated) = self.inherited.get(name)?;
        let same = Arc::as_ptr(of).cast::<()>() == Arc::as_ptr(item).cast::<()>();
        same.then(|| decorated.clone())
    }

    fn undecorated(&self, name: &str, item: Arc<T>, decorated: Decorated<T>) -> Undecorated<T> {
        let mut decorators: Vec<Decorator<T>> = Vec::new();
        if decorated.get().is_none() {
            let named = self.names.get(name).into_iter().flat_map(|entry| &entry.decorators);
            for decorator in named.chain(&self.decorators) {
                // Insertion instead of sorting: there are few decorators, and sorting would add ten kilobytes
                // to the program for each kind of item.
                let at = decorators.partition_point(|before| before.id <= decorator.id);
                decorators.insert(at, decorator.clone());
            }
        }
        Undecorated { item, decorators, decorated }
    }
}

/// An item and its decorators, which are applied after the lock is released, since a decorator may look up
/// other items.
struct Undecorated<T: ?Sized> {
    item: Arc<T>,
    decorators: Vec<Decorator<T>>,
    decorated: Decorated<T>,
}

impl<T: ?Sized> Undecorated<T> {
    fn decorate(self, reporter: &Reporter) -> Option<Arc<T>> {
        let Self { item, decorators, decorated } = self;
        decorated
            .get_or_init(|| {
                decorators.into_iter().try_fold(item, |item, decorator| {
                    catch(|| (decorator.wrap)(item))
                        .inspect_err(|message| {
                            reporter.report(&HookError {
                                event: "registry:decorate",
                                source: decorator.source.clone(),
                                location: decorator.location,
                                cause: Cause::Panicked(message.clone()),
                            });
                        })
                        .ok()
                })
            })
            .clone()
    }
}

/// A [`TypedRegistry`] with its item type erased.
pub(super) trait AnyRegistry: Any + Send + Sync {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// Removes the registrations of `scope`; returns the changes to announce, or `None` if there were none.
    fn remove_scope(&self, scope: u64) -> Option<ItemChanges>;
    fn describe(&self, are_services: bool, out: &mut Vec<Registration>);
}

impl<T: ?Sized + Send + Sync + 'static> AnyRegistry for TypedRegistry<T> {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn remove_scope(&self, scope: u64) -> Option<ItemChanges> {
        let mut state = write(&self.0);
        let mut changes = Vec::new();
        state.watchers.retain(|watcher| watcher.scope != scope);
        let everywhere = state.decorators.iter().any(|decorator| decorator.scope == scope);
        remove_decorators(&mut state.decorators, scope);
        let (mut changed, mut decorators_changed) = (everywhere, everywhere);
        for (name, entry) in state.names.iter_mut() {
            let (items, decorators) = (entry.provided.len(), entry.decorators.len());
            let had_it = entry.provided.last().is_some_and(|last| last.scope == scope);
            entry.remove_items(scope);
            remove_decorators(&mut entry.decorators, scope);
            if had_it {
                let owner = entry.provided.last().map(|last| last.source.clone());
                changes.push(ItemChange { name: name.clone(), owner });
            }
            decorators_changed |= entry.decorators.len() != decorators;
            let smaller = entry.provided.len() != items || entry.decorators.len() != decorators;
            changed |= smaller;
            if everywhere || smaller {
                entry.decorated = Arc::default();
            }
        }
        state.names.retain(|(_, entry)| !entry.provided.is_empty() || !entry.decorators.is_empty());
        if decorators_changed {
            state.inherited.clear();
        }
        changed.then(|| ItemChanges { changes, watchers: state.watchers.clone() })
    }

    fn describe(&self, are_services: bool, out: &mut Vec<Registration>) {
        let of = type_name::<T>();
        let provided = if are_services { RegistrationKind::Service(of) } else { RegistrationKind::Item(of) };
        let (decorator, watcher) = (RegistrationKind::Decorator(of), RegistrationKind::Watcher(of));
        let mut add = |kind: &RegistrationKind, name: &str, source: &Source, location: &Location<'_>| {
            out.push(Registration {
                kind: kind.clone(),
                name: name.to_owned(),
                source: source.clone(),
                stage: None,
                descendants: true,
                location: location.to_string(),
            });
        };
        let state = read(&self.0);
        for (name, entry) in state.names.iter() {
            entry.provided.iter().for_each(|one| add(&provided, name, &one.source, one.location));
            entry.decorators.iter().for_each(|one| add(&decorator, name, &one.source, one.location));
        }
        state.decorators.iter().for_each(|one| add(&decorator, "*", &one.source, one.location));
        state.watchers.iter().for_each(|one| add(&watcher, "*", &one.source, one.location));
    }
}
