//! Lines of a run without a person, for programs: its events and its result.

mod denials;
mod events;
mod result;

pub use denials::Denials;
pub use events::{first_line, write_event, write_value};
pub use result::{PermissionDenial, RunEnding, RunResult};
