use std::any::{Any, TypeId, type_name};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock, RwLock};

use super::bus::BusInner;
use super::describe::{Registration, RegistrationKind, place};
use super::erase::catch;
use super::table::{read, write};
use super::{Cause, HookError, Source};

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

/// A name that somebody has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken {
    /// The kind of item, as its Rust type.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// Who has it.
    pub owner: Source,
    /// Who asked for it.
    pub claimant: Source,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, owner, claimant } = self;
        write!(
            f,
            "`{claimant}` cannot register {kind} `{name}`: `{owner}` has that name; \
             decorate it, or replace it explicitly"
        )
    }
}

impl std::error::Error for NameTaken {}

/// The shelves of one bus, one for each kind of item.
#[derive(Default)]
pub(super) struct Shelves(RwLock<HashMap<TypeId, Arc<dyn AnyShelf>>>);

struct Shelf<T: ?Sized>(RwLock<ShelfState<T>>);

struct ShelfState<T: ?Sized> {
    slots: BTreeMap<Arc<str>, Slot<T>>,
    /// Decorators of every item.
    every: Vec<Decorator<T>>,
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

struct Claim<T: ?Sized> {
    scope: u64,
    source: Source,
    location: &'static Location<'static>,
    item: Arc<T>,
}

struct Decorator<T: ?Sized> {
    id: u64,
    scope: u64,
    source: Source,
    location: &'static Location<'static>,
    wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
}

impl<T: ?Sized> Clone for Decorator<T> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            scope: self.scope,
            source: self.source.clone(),
            location: self.location,
            wrap: self.wrap.clone(),
        }
    }
}

impl<T: ?Sized> Default for Slot<T> {
    fn default() -> Self {
        Self { claims: Vec::new(), decorators: Vec::new(), dressed: Arc::default() }
    }
}

trait AnyShelf: Any + Send + Sync {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn remove_scope(&self, scope: u64);
    fn describe(&self, service: bool, out: &mut Vec<Registration>);
}

impl Shelves {
    fn shelf<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<Shelf<T>>> {
        let shelf = read(&self.0).get(&TypeId::of::<T>()).cloned()?;
        shelf.as_any().downcast().ok()
    }

    fn shelf_or_new<T: ?Sized + Send + Sync + 'static>(&self) -> Arc<Shelf<T>> {
        if let Some(shelf) = self.shelf() {
            return shelf;
        }
        write(&self.0).entry(TypeId::of::<T>()).or_insert_with(|| {
            Arc::new(Shelf::<T>(RwLock::new(ShelfState { slots: BTreeMap::new(), every: Vec::new() })))
        });
        self.shelf().unwrap_or_else(|| {
            // Unreachable: the shelf of this type was just put there and shelves are never taken away.
            Arc::new(Shelf(RwLock::new(ShelfState { slots: BTreeMap::new(), every: Vec::new() })))
        })
    }

    pub(super) fn put<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
        scope: u64,
        source: &Source,
        location: &'static Location<'static>,
        replace: bool,
    ) -> Result<(), NameTaken> {
        let shelf = self.shelf_or_new::<T>();
        let mut state = write(&shelf.0);
        let slot = state.slots.entry(Arc::from(name)).or_default();
        if let Some(owner) = slot.claims.last()
            && !replace
        {
            return Err(NameTaken {
                kind: type_name::<T>(),
                name: name.to_owned(),
                owner: owner.source.clone(),
                claimant: source.clone(),
            });
        }
        slot.claims.push(Claim { scope, source: source.clone(), location, item });
        slot.dressed = Arc::default();
        Ok(())
    }

    pub(super) fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
        id: u64,
        scope: u64,
        source: &Source,
        location: &'static Location<'static>,
    ) {
        let shelf = self.shelf_or_new::<T>();
        let mut state = write(&shelf.0);
        let decorator = Decorator { id, scope, source: source.clone(), location, wrap };
        match name {
            Some(name) => {
                let slot = state.slots.entry(Arc::from(name)).or_default();
                slot.decorators.push(decorator);
                slot.dressed = Arc::default();
            }
            None => {
                state.every.push(decorator);
                state.slots.values_mut().for_each(|slot| slot.dressed = Arc::default());
            }
        }
    }

    pub(super) fn get<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        bus: &BusInner,
    ) -> Option<Arc<T>> {
        let shelf = self.shelf::<T>()?;
        let found = {
            let state = read(&shelf.0);
            Undressed::of(&state, name)?
        };
        found.dress(bus)
    }

    pub(super) fn list<T: ?Sized + Send + Sync + 'static>(&self, bus: &BusInner) -> Vec<Item<T>> {
        let Some(shelf) = self.shelf::<T>() else { return Vec::new() };
        let found: Vec<_> = {
            let state = read(&shelf.0);
            state
                .slots
                .iter()
                .filter_map(|(name, slot)| {
                    let source = slot.claims.last()?.source.clone();
                    Some((name.clone(), source, Undressed::of(&state, name)?))
                })
                .collect()
        };
        found
            .into_iter()
            .filter_map(|(name, source, found)| Some(Item { name, source, value: found.dress(bus)? }))
            .collect()
    }

    pub(super) fn remove_scope(&self, scope: u64) {
        let shelves: Vec<_> = read(&self.0).values().cloned().collect();
        shelves.iter().for_each(|shelf| shelf.remove_scope(scope));
    }

    pub(super) fn describe(&self, services: bool, out: &mut Vec<Registration>) {
        let shelves: Vec<_> = read(&self.0).values().cloned().collect();
        shelves.iter().for_each(|shelf| shelf.describe(services, out));
    }
}

/// What is needed to dress an item once the lock is released: a decorator may look other items up.
struct Undressed<T: ?Sized> {
    item: Arc<T>,
    decorators: Vec<Decorator<T>>,
    dressed: Dressed<T>,
}

impl<T: ?Sized> Undressed<T> {
    fn of(state: &ShelfState<T>, name: &str) -> Option<Self> {
        let slot = state.slots.get(name)?;
        let item = slot.claims.last()?.item.clone();
        let dressed = slot.dressed.clone();
        let mut decorators = Vec::new();
        if dressed.get().is_none() {
            decorators.extend(slot.decorators.iter().chain(&state.every).cloned());
            decorators.sort_by_key(|decorator| decorator.id);
        }
        Some(Self { item, decorators, dressed })
    }

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

    fn remove_scope(&self, scope: u64) {
        let mut state = write(&self.0);
        let everywhere = state.every.iter().any(|decorator| decorator.scope == scope);
        state.every.retain(|decorator| decorator.scope != scope);
        for slot in state.slots.values_mut() {
            let before = slot.claims.len() + slot.decorators.len();
            slot.claims.retain(|claim| claim.scope != scope);
            slot.decorators.retain(|decorator| decorator.scope != scope);
            if everywhere || slot.claims.len() + slot.decorators.len() != before {
                slot.dressed = Arc::default();
            }
        }
        state.slots.retain(|_, slot| !slot.claims.is_empty() || !slot.decorators.is_empty());
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
    }
}
