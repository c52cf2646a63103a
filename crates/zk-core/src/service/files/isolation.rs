use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::kernel::{Cx, Plugin};

/// Creates private copies of the workspace, in which sub-agents write without changing the workspace itself:
/// `cx.service::<dyn Isolation>()`. Absent where the files are not on this machine.
#[async_trait]
pub trait Isolation: Send + Sync {
    /// Copies the project around `cwd` for the agent `agent`, including everything that is not committed.
    ///
    /// # Errors
    /// [`IsolationError`]; nothing is left behind then, and the agent must not run in `cwd` instead.
    async fn isolate(
        &self,
        agent: &str,
        cwd: &Path,
        cx: &Cx,
    ) -> Result<Arc<dyn IsolatedCopy>, IsolationError>;
}

/// A private copy of the workspace, removed when it is finished or dropped.
#[async_trait]
pub trait IsolatedCopy: Send + Sync {
    /// Returns the directory of the copy that corresponds to the copied working directory.
    fn cwd(&self) -> PathBuf;

    /// Returns the plugins that confine an agent to the copy: its files, its commands, the judge of its
    /// calls.
    fn plugins(&self) -> Vec<Arc<dyn Plugin>>;

    /// Returns the changes in the copy as one patch, and removes the copy.
    ///
    /// # Errors
    /// [`IsolationError`] when the changes cannot be read; the copy is kept then, and the message names it.
    async fn finish(&self) -> Result<CopyChanges, IsolationError>;
}

/// Changes that an agent made in its copy of the workspace, kept as a patch until they are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyChanges {
    /// Changed files, relative to the project.
    pub files: Vec<String>,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// Tool that applies the patch after its review. In a stored conversation it does so after a restart too.
    pub tool: String,
    /// File of the patch, which outlives this process; `None` without changes.
    pub file: Option<PathBuf>,
}

/// Reason for which there is no copy of the workspace, or no patch of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct IsolationError {
    /// Description of the failure and of the next step.
    pub message: String,
}

impl IsolationError {
    /// Creates the error with this description.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
