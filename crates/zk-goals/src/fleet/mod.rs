//! Registry of the live conversations of this machine, over processes.

mod beacon;
mod command;
mod dir;
mod entry;
mod error;
mod lines;

use std::time::{SystemTime, UNIX_EPOCH};

pub use beacon::FleetBeacon;
pub use dir::FleetDir;
pub use entry::{FleetEntry, FleetRequest, FleetState, FleetView, OpenAnswers, OpenQuestion};
pub use error::FleetError;
pub use lines::fleet_lines;

/// Present time, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
