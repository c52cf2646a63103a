//! Registry of the live conversations of this machine, over processes.

mod beacon;
mod command;
mod dir;
mod entry;
mod error;
mod lines;

pub use beacon::FleetBeacon;
pub use dir::FleetDir;
pub use entry::{FleetEntry, FleetRequest, FleetState, FleetView, OpenAnswers, OpenQuestion};
pub use error::FleetError;
pub use lines::fleet_lines;
