use std::sync::Weak;

use crate::kernel::bus::BusInner;
use crate::kernel::table::read;

/// The scope of a tombstone: none that can close.
pub(super) const NO_SCOPE: u64 = u64::MAX;

/// The gates a reload removed, each denying until its replacement is in.
#[derive(Debug)]
#[must_use = "the removed gates deny until they are replaced or lifted"]
pub struct Tombstones {
    pub(super) bus: Weak<BusInner>,
    pub(super) ids: Vec<u64>,
}

impl Tombstones {
    /// How many removed gates still deny.
    #[must_use]
    pub fn standing(&self) -> usize {
        self.bus.upgrade().map_or(0, |bus| {
            read(&bus.table)
                .entries()
                .filter(|entry| entry.run.is_none() && self.ids.contains(&entry.id))
                .count()
        })
    }

    /// Lets the remaining events through without a replacement: a decision of the user, never of a reload.
    pub fn lift(self) {
        if let Some(bus) = self.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| entry.run.is_some() || !self.ids.contains(&entry.id));
            });
        }
    }
}
