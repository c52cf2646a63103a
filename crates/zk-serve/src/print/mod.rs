//! Lines of a run without a person, for programs: its events and its result.

mod events;
mod result;

pub use events::{PROTOCOL_VERSION, write_event, write_value};
pub use result::{PermissionDenial, RunEnding, RunResult};
