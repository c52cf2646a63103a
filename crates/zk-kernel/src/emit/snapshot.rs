use std::any::TypeId;
use std::sync::Arc;

use crate::emit::table::{HandlerEntry, Observer, event_bit};
use crate::lock::read;
use crate::{Bus, Event, Reach};

/// Snapshot of the observers and handlers that receive an event, in order. Registrations may change during an
/// emission.
pub(crate) struct Snapshot {
    pub(crate) observers: Option<Arc<[Observer]>>,
    pub(crate) handlers: Option<Arc<[HandlerEntry]>>,
}

impl Bus {
    /// Whether an `E` emitted here has a handler or an observer.
    #[must_use]
    pub fn has_listeners<E: Event>(&self) -> bool {
        self.has_listeners_of(TypeId::of::<E>())
    }

    fn has_listeners_of(&self, event: TypeId) -> bool {
        if !self.inner.may_have_listeners(event_bit(event)) {
            return false;
        }
        let own = {
            let table = read(&self.inner.table);
            table.observers().is_some() || table.handlers(event).is_some()
        };
        own || self.ancestors().any(|bus| {
            let table = read(&bus.inner.table);
            table.observers().is_some_and(|all| all.iter().any(|one| one.reach == Reach::Descendants))
                || reaches_descendants(table.handlers(event))
        })
    }

    /// Whether an `E` emitted here has a handler; observers do not count.
    #[must_use]
    pub fn has_handlers<E: Event>(&self) -> bool {
        let event = TypeId::of::<E>();
        self.inner.may_have_listeners(event_bit(event))
            && (read(&self.inner.table).handlers(event).is_some()
                || self.ancestors().any(|bus| reaches_descendants(read(&bus.inner.table).handlers(event))))
    }

    /// Takes a snapshot of the observers and handlers that receive an event of this type now, in order.
    pub(crate) fn snapshot(&self, event: TypeId) -> Snapshot {
        if !self.inner.may_have_listeners(event_bit(event)) {
            return Snapshot { observers: None, handlers: None };
        }
        let own = {
            let table = read(&self.inner.table);
            Snapshot { observers: table.observers().cloned(), handlers: table.handlers(event).cloned() }
        };
        if self.inner.parent.is_none() { own } else { self.with_inherited(event, own) }
    }

    /// Adds the listeners of the ancestors that reach this bus. Not generic, since its sorting would add a
    /// megabyte to the program if it were compiled for each event.
    #[inline(never)]
    fn with_inherited(&self, event: TypeId, own: Snapshot) -> Snapshot {
        let mut inherited_handlers: Vec<HandlerEntry> = Vec::new();
        let mut inherited_observers: Vec<Observer> = Vec::new();
        for bus in self.ancestors() {
            let table = read(&bus.inner.table);
            let all = table.handlers(event).map_or(&[][..], |all| all);
            inherited_handlers.extend(all.iter().filter(|one| one.reach == Reach::Descendants).cloned());
            let all = table.observers().map_or(&[][..], |all| all);
            inherited_observers.extend(all.iter().filter(|one| one.reach == Reach::Descendants).cloned());
        }
        Snapshot {
            observers: merge(own.observers, inherited_observers, |one| one.id),
            handlers: merge(own.handlers, inherited_handlers, |one| (one.stage, one.id)),
        }
    }
}

fn reaches_descendants(handlers: Option<&Arc<[HandlerEntry]>>) -> bool {
    handlers.is_some_and(|all| all.iter().any(|one| one.reach == Reach::Descendants))
}

fn merge<T: Clone, K: Ord>(
    own: Option<Arc<[T]>>,
    mut inherited: Vec<T>,
    key: impl Fn(&T) -> K,
) -> Option<Arc<[T]>> {
    if inherited.is_empty() {
        return own;
    }
    inherited.extend(own.iter().flat_map(|own| own.iter()).cloned());
    inherited.sort_by_key(key);
    Some(inherited.into())
}
