use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, OnceLock, RwLock};

use super::bus::BusInner;
use super::describe::{Registration, RegistrationKind, place};
use super::erase::catch;
use super::registry::Found;
use super::table::{read, write};
use super::watch::{ItemChange, News, Watcher};
use super::{Cause, HookError, Source};

/// The items of one kind on one bus.
pub(super) struct Shelf<T: ?Sized>(RwLock<State<T>>);

struct State<T: ?Sized> {
    slots: BTreeMap<Arc<str>, Slot<T>>,
    /// Decorators of every item.
    every: Vec<Decorator<T>>,
    /// Ancestors' items inside the decorators of this bus: which item, and the result.
    inherited: BTreeMap<Arc<str>, (Arc<T>, Dressed<T>)>,
    watchers: Vec<Watcher>,
}

/// One name. It outlives its item, so decorators registered before the item, or kept across a reload, apply.
struct Slot<T: ?Sized> {
    /// The last one has the name; the others come back when it leaves.
    claims: Vec<Claim<T>>,
    decorators: Vec<Decorator<T>>,
    /// The live item inside its decorators, made at the first look-up after a change.
    dressed: Dressed<T>,
}

/// Filled once; empty inside when a decorator panicked.
type Dressed<T> = Arc<OnceLock<Option<Arc<T>>>>;

/// One registration of an item.
pub(super) struct Claim<T: ?Sized> {
    pub(super) scope: u64,
    pub(super) source: Source,
    pub(super) location: &'static Location<'static>,
    pub(super) item: Arc<T>,
}

/// One registration of a decorator.
pub(super) struct Decorator<T: ?Sized> {
    pub(super) id: u64,
    pub(super) scope: u64,
    pub(super) source: Source,
    pub(super) location: &'static Location<'static>,
    pub(super) wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
}

impl<T: ?Sized> Clone for Decorator<T> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), wrap: self.wrap.clone(), ..*self }
    }
}

impl<T: ?Sized> Default for Slot<T> {
    fn default() -> Self {
        Self { claims: Vec::new(), decorators: Vec::new(), dressed: Arc::default() }
    }
}

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self(RwLock::new(State {
            slots: BTreeMap::new(),
            every: Vec::new(),
            inherited: BTreeMap::new(),
            watchers: Vec::new(),
        }))
    }
}

/// A shelf of any kind of item.
pub(super) trait AnyShelf: Any + Send + Sync {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// Removes what `scope` registered: what to announce, or nothing if no item and no decorator left.
    fn remove_scope(&self, scope: u64) -> Option<News>;
    fn describe(&self, service: bool, out: &mut Vec<Registration>);
}

impl<T: ?Sized + Send + Sync + 'static> Shelf<T> {
    /// Registers an item; fails with the owner of a name that is taken.
    pub(super) fn put(&self, name: &str, claim: Claim<T>, replace: bool) -> Result<News, Source> {
        let change = ItemChange { name: Arc::from(name), owner: Some(claim.source.clone()) };
        let mut state = write(&self.0);
        let slot = state.slots.entry(Arc::from(name)).or_default();
        if let Some(owner) = slot.claims.last()
            && !replace
        {
            return Err(owner.source.clone());
        }
        // What one scope registered leaves together, so its older claim could never come back.
        slot.claims.retain(|older| older.scope != claim.scope);
        slot.claims.push(claim);
        slot.dressed = Arc::default();
        Ok(News { changes: vec![change], watchers: state.watchers.clone() })
    }

    pub(super) fn watch(&self, watcher: Watcher) {
        write(&self.0).watchers.push(watcher);
    }

    pub(super) fn decorate(&self, name: Option<&str>, decorator: Decorator<T>) {
        let mut state = write(&self.0);
        match name {
            Some(name) => {
                let slot = state.slots.entry(Arc::from(name)).or_default();
                slot.decorators.push(decorator);
                slot.dressed = Arc::default();
                state.inherited.remove(name);
            }
            None => {
                state.every.push(decorator);
                state.slots.values_mut().for_each(|slot| slot.dressed = Arc::default());
                state.inherited.clear();
            }
        }
    }

    pub(super) fn get(&self, name: &str, bus: &BusInner) -> Found<T> {
        let found = {
            let state = read(&self.0);
            let Some(slot) = state.slots.get(name) else { return Found::Absent };
            let Some(claim) = slot.claims.last() else { return Found::Absent };
            state.undressed(name, claim.item.clone(), slot.dressed.clone())
        };
        found.dress(bus).map_or(Found::Broken, Found::Item)
    }

    /// `item`, which an ancestor has under `name`, inside the decorators of this bus.
    pub(super) fn dress(&self, name: &str, item: Arc<T>, bus: &BusInner) -> Option<Arc<T>> {
        let known = {
            let state = read(&self.0);
            if state.every.is_empty() && state.slots.get(name).is_none_or(|slot| slot.decorators.is_empty()) {
                return Some(item);
            }
            state.known(name, &item).map(|dressed| state.undressed(name, item.clone(), dressed))
        };
        let found = known.unwrap_or_else(|| {
            let mut state = write(&self.0);
            let dressed = state.known(name, &item).unwrap_or_default();
            state.inherited.insert(Arc::from(name), (item.clone(), dressed.clone()));
            state.undressed(name, item, dressed)
        });
        found.dress(bus)
    }

    /// The names of this bus with who has them.
    pub(super) fn owners(&self) -> Vec<(Arc<str>, Source)> {
        let state = read(&self.0);
        let owner =
            |(name, slot): (&Arc<str>, &Slot<T>)| Some((name.clone(), slot.claims.last()?.source.clone()));
        state.slots.iter().filter_map(owner).collect()
    }
}

impl<T: ?Sized> State<T> {
    /// What was made of `item` before, if it is still the ancestor's item of that name.
    fn known(&self, name: &str, item: &Arc<T>) -> Option<Dressed<T>> {
        let (of, dressed) = self.inherited.get(name)?;
        let same = Arc::as_ptr(of).cast::<()>() == Arc::as_ptr(item).cast::<()>();
        same.then(|| dressed.clone())
    }

    fn undressed(&self, name: &str, item: Arc<T>, dressed: Dressed<T>) -> Undressed<T> {
        let mut decorators = Vec::new();
        if dressed.get().is_none() {
            let named = self.slots.get(name).into_iter().flat_map(|slot| &slot.decorators);
            decorators.extend(named.chain(&self.every).cloned());
            decorators.sort_by_key(|decorator| decorator.id);
        }
        Undressed { item, decorators, dressed }
    }
}

/// What is needed to dress an item once the lock is released: a decorator may look other items up.
struct Undressed<T: ?Sized> {
    item: Arc<T>,
    decorators: Vec<Decorator<T>>,
    dressed: Dressed<T>,
}

impl<T: ?Sized> Undressed<T> {
    fn dress(self, bus: &BusInner) -> Option<Arc<T>> {
        let Self { item, decorators, dressed } = self;
        dressed
            .get_or_init(|| {
                decorators.into_iter().try_fold(item, |item, decorator| {
                    catch(|| (decorator.wrap)(item))
                        .inspect_err(|message| {
                            bus.report(&HookError {
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

impl<T: ?Sized + Send + Sync + 'static> AnyShelf for Shelf<T> {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn remove_scope(&self, scope: u64) -> Option<News> {
        let mut state = write(&self.0);
        let mut changes = Vec::new();
        state.watchers.retain(|watcher| watcher.scope != scope);
        let everywhere = state.every.iter().any(|decorator| decorator.scope == scope);
        state.every.retain(|decorator| decorator.scope != scope);
        let (mut changed, mut decorated) = (everywhere, everywhere);
        for (name, slot) in &mut state.slots {
            let (claims, decorators) = (slot.claims.len(), slot.decorators.len());
            let had_it = slot.claims.last().is_some_and(|claim| claim.scope == scope);
            slot.claims.retain(|claim| claim.scope != scope);
            slot.decorators.retain(|decorator| decorator.scope != scope);
            if had_it {
                let owner = slot.claims.last().map(|claim| claim.source.clone());
                changes.push(ItemChange { name: name.clone(), owner });
            }
            decorated |= slot.decorators.len() != decorators;
            let smaller = slot.claims.len() != claims || slot.decorators.len() != decorators;
            changed |= smaller;
            if everywhere || smaller {
                slot.dressed = Arc::default();
            }
        }
        state.slots.retain(|_, slot| !slot.claims.is_empty() || !slot.decorators.is_empty());
        if decorated {
            state.inherited.clear();
        }
        changed.then(|| News { changes, watchers: state.watchers.clone() })
    }

    fn describe(&self, service: bool, out: &mut Vec<Registration>) {
        let kind = type_name::<T>();
        let entry = |kind, name: &str, source: &Source, location: &Location<'_>| Registration {
            kind,
            name: name.to_owned(),
            source: source.clone(),
            stage: None,
            descendants: true,
            location: place(location),
        };
        let state = read(&self.0);
        for (name, slot) in &state.slots {
            for claim in &slot.claims {
                let what =
                    if service { RegistrationKind::Service(kind) } else { RegistrationKind::Item(kind) };
                out.push(entry(what, name, &claim.source, claim.location));
            }
            for wrap in &slot.decorators {
                out.push(entry(RegistrationKind::Decorator(kind), name, &wrap.source, wrap.location));
            }
        }
        for wrap in &state.every {
            out.push(entry(RegistrationKind::Decorator(kind), "*", &wrap.source, wrap.location));
        }
        for watcher in &state.watchers {
            out.push(entry(RegistrationKind::Watcher(kind), "*", &watcher.source, watcher.location));
        }
    }
}
