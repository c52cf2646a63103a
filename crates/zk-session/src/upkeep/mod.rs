//! Care for stored sessions: verification, removal of contents, the trash, and removal of leftovers.

mod leftovers;
mod removal;
mod replaced;
mod sizes;
mod trash;
mod verify;

pub use leftovers::{Leftover, LeftoverKind, Leftovers};
pub use removal::RemovedContent;
pub use trash::{Trash, TrashError, TrashedSession};
pub use verify::{ChainFault, Verification};
