//! The live conversations of this machine, over processes: a file for each, locked as long as its process lives.

mod beacon;
mod command;
mod dir;
mod entry;
mod error;
mod lines;

pub use beacon::FleetBeacon;
pub use dir::FleetDir;
pub use entry::{FleetEntry, FleetRequest, FleetState, FleetView, OpenQuestion};
pub use error::FleetError;
pub use lines::fleet_lines;
