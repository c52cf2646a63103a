use std::sync::Weak;

use super::Scope;
use crate::bus::BusInner;
use crate::lock::read;

/// Scope id of tombstones, which belong to no scope that can be closed.
const NO_SCOPE: u64 = u64::MAX;

/// Tombstones of gates that a reload removed; each denies until its replacement is registered.
#[derive(Debug)]
#[must_use = "the removed gates deny until they are replaced or discarded"]
pub struct Tombstones {
    bus: Weak<BusInner>,
    ids: Vec<u64>,
}

impl Tombstones {
    /// Returns the number of removed gates that still deny.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bus.upgrade().map_or(0, |bus| {
            read(&bus.table)
                .entries()
                .filter(|entry| entry.run.is_none() && self.ids.contains(&entry.id))
                .count()
        })
    }

    /// Removes the remaining tombstones, so that calls pass without the gate. Only the user may decide this,
    /// never a reload.
    pub fn discard(self) {
        if let Some(bus) = self.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| entry.run.is_some() || !self.ids.contains(&entry.id));
            });
        }
    }
}

impl Scope {
    /// Closes the scope for a reload. Its gates become tombstones that deny, until the same source registers
    /// a handler for that event again or they are discarded. A replacement that is installed as a plugin
    /// counts once its whole `register` has succeeded.
    pub async fn suspend(&self) -> Tombstones {
        let mut ids = Vec::new();
        if let Some(bus) = self.inner.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| {
                    if entry.scope == self.inner.id && entry.fails_closed {
                        entry.run = None;
                        entry.scope = NO_SCOPE;
                        ids.push(entry.id);
                    }
                    true
                });
            });
        }
        self.close().await;
        Tombstones { bus: self.inner.bus.clone(), ids }
    }
}
