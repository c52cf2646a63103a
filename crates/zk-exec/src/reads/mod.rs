//! Read-only commands: git's environment for them, and their sandbox.

pub(crate) mod git;
mod sandbox;

pub(crate) use git::GitReads;
pub use git::git_read_variables;
pub use sandbox::{ReadSandbox, ReadSandboxNotice};
