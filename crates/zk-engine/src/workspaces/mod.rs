//! Files of runs that outlive their worker: where a leg works, and what becomes of its files.

mod keeper;
mod kept;
mod log;
mod place;
mod sweep;

pub use keeper::KeepFiles;
pub use kept::{KeptWorkspaces, LegFiles};
pub use log::{FILES_ENTRY, FILES_SOURCE, StoredFiles};
pub use place::{HostName, KEPT_WORKSPACE, LegPlace, LegPlaces, WorkspaceName};
pub use sweep::KEPT_DIRECTORY_AGE;
