use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::{AnyEvent, Cx, EventStamp, Reach, Registration, RegistrationKind, Source, Stage};

/// Handlers and observers of one bus. Not generic: one downcast per call avoids compiling the table's code
/// for each pair of event and handler.
#[derive(Default)]
pub(crate) struct Table {
    handlers: HashMap<TypeId, Arc<[HandlerEntry]>, BuildHasherDefault<TypeIdHasher>>,
    observers: Option<Arc<[Observer]>>,
}

/// One registered handler.
#[derive(Clone)]
pub(crate) struct HandlerEntry {
    pub(crate) id: u64,
    pub(crate) scope: u64,
    pub(crate) event: &'static str,
    pub(crate) stage: Stage,
    pub(crate) reach: Reach,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) identity: Identity,
    /// Whether a failure of this handler means a denial; a reload then leaves a tombstone in its place.
    pub(crate) fails_closed: bool,
    /// The handler as a `Runner<E>`; `None` for a tombstone.
    pub(crate) run: Option<Arc<dyn Any + Send + Sync>>,
}

type PlainFn = dyn Fn(&dyn AnyEvent, &Cx) + Send + Sync;
type StampedFn = dyn Fn(&dyn AnyEvent, EventStamp, &Cx) + Send + Sync;

/// Callback of an observer.
#[derive(Clone)]
pub(crate) enum Observe {
    /// A callback without the event's number and time.
    Plain(Arc<PlainFn>),
    /// A callback with the event's number and time.
    Stamped(Arc<StampedFn>),
}

/// One registered observer: called once for every event, as emitted, before its handlers.
///
/// The callback is synchronous, so that observing never makes an emission wait. An observer that has to wait
/// pushes into a queue of its own.
#[derive(Clone)]
pub(crate) struct Observer {
    pub(crate) id: u64,
    pub(crate) scope: u64,
    pub(crate) reach: Reach,
    pub(crate) source: Source,
    pub(crate) location: &'static Location<'static>,
    pub(crate) identity: Identity,
    pub(crate) run: Observe,
}

/// Identity of a handler, to find duplicate registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A closure with captures, always different from all others.
    Unique,
    /// Address of a shared handler.
    Address(usize),
    /// Type of a function or closure without captures, which has only one value.
    Function(TypeId),
}

impl Identity {
    pub(crate) fn of_fn<F: 'static>() -> Self {
        if size_of::<F>() == 0 { Self::Function(TypeId::of::<F>()) } else { Self::Unique }
    }

    pub(crate) fn of_arc<H>(handler: &Arc<H>) -> Self {
        Self::Address(Arc::as_ptr(handler).cast::<()>().addr())
    }
}

/// Returns the event's bit in a 64-bit Bloom filter, which shows without a lock that an event has no
/// listener.
pub(crate) fn event_bit(event: TypeId) -> u64 {
    1 << (BuildHasherDefault::<TypeIdHasher>::default().hash_one(event) & 63)
}

impl Table {
    /// Returns the [bits](event_bit) of all events with a handler or an observer.
    pub(crate) fn event_bits(&self) -> u64 {
        if self.observers.is_some() {
            u64::MAX
        } else {
            self.handlers.keys().fold(0, |set, event| set | event_bit(*event))
        }
    }

    pub(crate) fn handlers(&self, event: TypeId) -> Option<&Arc<[HandlerEntry]>> {
        self.handlers.get(&event)
    }

    pub(crate) fn observers(&self) -> Option<&Arc<[Observer]>> {
        self.observers.as_ref()
    }

    /// Adds `entry` and returns its id; if the scope registered the same handler before, returns the existing
    /// id.
    pub(crate) fn add(&mut self, event: TypeId, entry: HandlerEntry) -> u64 {
        let mut entries = self.handlers.get(&event).map(|old| old.to_vec()).unwrap_or_default();
        if entry.identity != Identity::Unique
            && let Some(same) = entries.iter().find(|old| {
                old.scope == entry.scope
                    && old.identity == entry.identity
                    && old.stage == entry.stage
                    && old.reach == entry.reach
                    && old.run.is_some()
            })
        {
            return same.id;
        }
        let id = entry.id;
        entries.push(entry);
        entries.sort_by_key(|entry| (entry.stage, entry.id));
        self.handlers.insert(event, entries.into());
        id
    }

    pub(crate) fn add_observer(&mut self, observer: Observer) -> u64 {
        let mut observers = self.observers.as_ref().map(|old| old.to_vec()).unwrap_or_default();
        if observer.identity != Identity::Unique
            && let Some(same) = observers.iter().find(|old| {
                old.scope == observer.scope
                    && old.identity == observer.identity
                    && old.reach == observer.reach
            })
        {
            return same.id;
        }
        let id = observer.id;
        observers.push(observer);
        self.observers = Some(observers.into());
        id
    }

    /// Removes the tombstones of events for which their source has registered a handler again, through
    /// `scope`.
    pub(crate) fn replace_tombstones(&mut self, scope: u64) {
        for entries in self.handlers.values_mut() {
            let Some(new) = entries.iter().find(|entry| entry.scope == scope) else { continue };
            if entries.iter().any(|old| old.run.is_none() && old.source == new.source) {
                let live = |old: &&HandlerEntry| old.run.is_some() || old.source != new.source;
                *entries = entries.iter().filter(live).cloned().collect();
            }
        }
    }

    /// Removes all registrations of `scope`.
    pub(crate) fn remove_scope(&mut self, scope: u64) {
        self.handlers.retain(|_, entries| {
            // Closing a bus calls this for each scope, and most lists have no entry of it.
            if entries.iter().any(|entry| entry.scope == scope) {
                *entries = entries.iter().filter(|entry| entry.scope != scope).cloned().collect();
            }
            !entries.is_empty()
        });
        if self.observers.iter().flat_map(|all| all.iter()).any(|observer| observer.scope == scope) {
            self.retain_observers(|observer| observer.scope != scope);
        }
    }

    /// Removes the handlers for which `keep` is false; `keep` may change them.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut HandlerEntry) -> bool) {
        self.handlers.retain(|_, entries| {
            let mut list = entries.to_vec();
            list.retain_mut(&mut keep);
            let empty = list.is_empty();
            *entries = list.into();
            !empty
        });
    }

    pub(crate) fn retain_observers(&mut self, keep: impl FnMut(&Observer) -> bool) {
        if let Some(observers) = &self.observers {
            let mut list = observers.to_vec();
            let mut keep = keep;
            list.retain(&mut keep);
            self.observers = (!list.is_empty()).then(|| list.into());
        }
    }

    /// Appends a description of each handler and observer to `out`.
    pub(crate) fn describe(&self, out: &mut Vec<Registration>) {
        out.extend(self.entries().map(|entry| Registration {
            kind: match entry.run {
                Some(_) => RegistrationKind::Handler,
                None => RegistrationKind::Tombstone,
            },
            name: entry.event.to_owned(),
            source: entry.source.clone(),
            stage: Some(entry.stage),
            descendants: entry.reach == Reach::Descendants,
            location: entry.location.to_string(),
        }));
        out.extend(self.observers.iter().flat_map(|all| all.iter()).map(|observer| Registration {
            kind: RegistrationKind::Observer,
            name: "*".to_owned(),
            source: observer.source.clone(),
            stage: None,
            descendants: observer.reach == Reach::Descendants,
            location: observer.location.to_string(),
        }));
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &HandlerEntry> {
        self.handlers.values().flat_map(|entries| entries.iter())
    }
}

/// Hasher that uses a `TypeId` as it is, since it is a hash already.
#[derive(Default)]
pub(crate) struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}
