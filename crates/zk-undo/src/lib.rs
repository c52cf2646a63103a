//! Undo that also covers the shell: before a turn changes files, a private journal keeps them.
//!
//! | part | purpose |
//! |---|---|
//! | [`Undo`] | plugin: keeps files before calls change them, `/undo`, `/redo`, a note for the model |
//! | [`Journal`] | contents of a workspace before each turn, and the way back to them |
//! | [`Plan`], [`Outcome`] | files that an undo brings back, with what is there now; what came of it |
//! | [`FileWorkspaces`] | the same contents in a shared directory: the `dyn Workspaces` of runs that outlive their worker |
//! | [`GitSettings`] | settings of git beside those of a repository, by which it converts contents |
//! | [`UndoSettings`] | section `[undo]` of the settings |
//!
//! An undo changes only what a turn of zk changed, and leaves each file alone that somebody else changed since.
//! The bytes that it replaces are in the journal first, so that it can itself be undone. Of git, the index and the
//! objects are read; nothing of git is ever written or run.
//!
//! # What this crate must never know
//!
//! Sessions, terminals and the location of state: the host passes a directory and the workspaces in.

mod apply;
mod command;
mod diff;
mod error;
mod journal;
mod kept;
mod objects;
mod path_text;
mod plan;
mod plugin;
mod settings;
mod state;
mod step;
mod workspace;

pub use apply::Outcome;
pub use command::report;
pub use error::UndoError;
pub use journal::{CallScope, Journal, TurnLabel};
pub use kept::FileWorkspaces;
pub use plan::{Plan, PlanItem, TurnSummary};
pub use plugin::{Undo, paths_changed_since};
pub use settings::UndoSettings;
pub use state::{Change, Content, FileState, Stamp};
pub use step::{Step, StepKind};
pub use workspace::git_settings::GitSettings;
