use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{Exec, Isolation, StateFiles, Tool};

use crate::copies::{Copies, CopyPlace};
use crate::git::Git;
use crate::patch::{APPLY_TOOL, Patches};
use crate::tool::ApplyChanges;

/// Plugin that provides copies of the repository to sub-agents, and the tool `apply_changes`.
#[derive(Clone)]
pub struct Worktrees {
    copies: Arc<Copies>,
    patches: Patches,
}

impl std::fmt::Debug for Worktrees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worktrees").field("root", &self.copies.root).finish_non_exhaustive()
    }
}

impl Worktrees {
    /// Creates the plugin with `root`, a directory of state, as the place of copies. `exec` runs git, and
    /// nothing of a repository; `plugins` keep an agent in its copy.
    pub fn new(
        root: impl Into<PathBuf>,
        exec: Arc<dyn Exec>,
        files: Arc<dyn StateFiles>,
        plugins: impl Fn(&CopyPlace<'_>) -> Result<Vec<Arc<dyn Plugin>>, String> + Send + Sync + 'static,
    ) -> Self {
        let patches = Patches::default();
        let copies = Copies {
            root: root.into(),
            git: Git { exec },
            files,
            plugins: Arc::new(plugins),
            patches: patches.clone(),
            home: OnceCell::new(),
            roots: OnceLock::new(),
        };
        Self { copies: Arc::new(copies), patches }
    }

    /// Restricts copies to files below these directories. Without this, a copy has all of the repository.
    #[must_use]
    pub fn below(self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        // A second restriction is ignored, since copies may have been made with the first.
        let _ = self.copies.roots.set(roots.into_iter().collect());
        self
    }
}

impl Plugin for Worktrees {
    fn name(&self) -> &'static str {
        "worktrees"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn Isolation>(self.copies.clone());
        let tool = ApplyChanges::new(self.patches.clone(), self.copies.git.clone());
        scope.provide::<dyn Tool>(APPLY_TOOL, Arc::new(tool))?;
        Ok(())
    }
}
