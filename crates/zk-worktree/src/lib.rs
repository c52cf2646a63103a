//! Private copies of a repository for sub-agents that write beside each other, and their changes as patches.
//!
//! [`Worktrees`] is the plugin: it provides [`Isolation`](zk_core::service::Isolation), and the tool
//! `apply_changes`, whose calls pass the same gates as an edit. A copy lies in zk's directory of state. The
//! repository that it was made of is only read: its objects are borrowed, nothing else is shared.
//!
//! ```
//! use std::sync::Arc;
//!
//! use zk_core::kernel::Bus;
//! use zk_core::service::Isolation;
//! use zk_exec::{Environment, LocalStateFiles, ProcessExec};
//! use zk_worktree::Worktrees;
//!
//! let dir = tempfile::tempdir().unwrap();
//! let exec = Arc::new(ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")])));
//! let files = Arc::new(LocalStateFiles::default());
//! let bus = Bus::new();
//! bus.install(&Worktrees::new(dir.path(), exec, files, |_| Ok(Vec::new()))).unwrap();
//! assert!(bus.service::<dyn Isolation>().is_some());
//! ```
//!
//! [`GitWorkspaces`] is the [`Workspaces`](zk_core::service::Workspaces) store of runs that outlive their worker: commits on hidden
//! refs of a bare repository.
//!
//! # What this crate must never know
//!
//! Sandboxes, permissions, settings and the location of state: the host passes a directory, an executor for
//! git, and the plugins that keep an agent in its copy.

mod apply;
mod beneath;
mod blocking;
mod command;
mod copies;
mod diff;
mod error;
mod git;
mod git_workspaces;
mod kept;
mod patch;
mod plugin;
mod source;
mod sweep;
mod tool;

pub use copies::{CopyPlace, CopyPlugins};
pub use error::WorktreeError;
pub use git_workspaces::GitWorkspaces;
pub use plugin::{WaitingPatch, Worktrees};
