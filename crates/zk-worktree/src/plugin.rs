use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::OnceCell;
use zk_core::events::{SessionLoaded, SessionSwitch};
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::service::{Command, Exec, Isolation, StateFiles, Tool, visible_line};

use crate::command::ChangesCommand;
use crate::copies::{Copies, CopyPlace};
use crate::git::Git;
use crate::kept::{Keeper, describe};
use crate::patch::{APPLY_TOOL, Patches};
use crate::tool::ApplyChanges;

/// Patch that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPatch {
    /// Name of the agent whose changes these are.
    pub agent: String,
    /// Description for the person: agent, lines and files.
    pub description: String,
    /// File with the patch, in the format of `git apply`.
    pub file: PathBuf,
}

/// Plugin that provides copies of the repository to sub-agents, and the tool `apply_changes`.
#[derive(Clone)]
pub struct Worktrees {
    copies: Arc<Copies>,
    keeper: Arc<Keeper>,
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
        let root = root.into();
        let keeper = Arc::new(Keeper {
            root: root.clone(),
            files: files.clone(),
            patches: Patches::default(),
            scope: Mutex::default(),
        });
        let copies = Copies {
            root,
            git: Git { exec },
            files,
            plugins: Arc::new(plugins),
            keeper: keeper.clone(),
            home: OnceCell::new(),
            roots: OnceLock::new(),
        };
        Self { copies: Arc::new(copies), keeper }
    }

    /// Restricts copies to files below these directories. Without this, a copy has all of the repository.
    #[must_use]
    pub fn below(self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        // A second restriction is ignored, since copies may have been made with the first.
        let _ = self.copies.roots.set(roots.into_iter().collect());
        self
    }

    /// Patches of ended agents that were neither applied nor discarded, by agent.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingPatch> {
        let state = self.keeper.patches.lock();
        let waiting = state.waiting.iter().map(|(agent, patch)| WaitingPatch {
            agent: agent.clone(),
            description: visible_line(&describe(agent, patch)),
            file: patch.file.clone(),
        });
        waiting.collect()
    }
}

impl Plugin for Worktrees {
    fn name(&self) -> &'static str {
        "worktrees"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn Isolation>(self.copies.clone());
        scope.provide_service(Arc::new(self.clone()));
        *self.keeper.scope.lock().unwrap_or_else(PoisonError::into_inner) = Some(scope.clone());
        let closing = self.keeper.clone();
        scope.on_close(async move || {
            closing.scope.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        let tool = Arc::new(ApplyChanges::new(self.keeper.clone(), self.copies.git.clone()));
        scope.provide::<dyn Tool>(APPLY_TOOL, tool.clone())?;
        let command = ChangesCommand { tool, keeper: self.keeper.clone() };
        scope.provide::<dyn Command>("changes", Arc::new(command))?;
        scope.on_async_with_at(
            Reach::Own,
            self.keeper.clone(),
            async |keeper: &Arc<Keeper>, event: &SessionLoaded, cx: &Cx| -> Result<(), BoxError> {
                keeper.restore(&event.entries, cx).await;
                Ok(())
            },
        );
        scope.on_async_with_at(
            Reach::Own,
            self.keeper.clone(),
            async |keeper: &Arc<Keeper>, event: &SessionSwitch, cx: &Cx| -> Result<(), BoxError> {
                if !event.is_same_session() {
                    keeper.forget();
                }
                keeper.restore(&event.entries, cx).await;
                Ok(())
            },
        );
        Ok(())
    }
}
