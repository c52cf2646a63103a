//! Private copies of the project for sub-agents, with the same walls around each as around the project.

use std::path::Path;
use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, plugin_fn};
use zk_core::service::{Exec, Files, OutsideFiles, ReadExec};
use zk_exec::{ContextName, Environment, LocalStateFiles};
use zk_permission::ModeSwitch;
use zk_worktree::{CopyPlace, Worktrees};

use crate::app::Workplace;
use crate::compose::{files, local};
use crate::containment::{self, ConfiguredSandboxes};
use crate::policy;
use crate::sandbox;
use crate::settings::Settings;
use zk_chat::walls::Sandboxes as _;

/// Returns the plugin that makes copies, if the project's files are on this machine.
pub(crate) fn plugin(
    work: &Workplace,
    settings: &Settings,
    own: Arc<dyn Exec>,
    modes: &ModeSwitch,
    allow_all: bool,
) -> Option<Worktrees> {
    if !settings.agents.background
        || !matches!(settings.context(), ContextName::Process | ContextName::Sandbox)
    {
        return None;
    }
    let root = work.machine.dirs.worktrees()?.join("copies");
    let (work, settings, modes) = (work.clone(), settings.clone(), modes.clone());
    let files = Arc::new(LocalStateFiles::default());
    let roots = work.roots();
    let copies =
        Worktrees::new(root, own, files, move |place| walls(&work, &settings, &modes, allow_all, place));
    Some(copies.below(roots))
}

/// Returns the plugins that confine an agent to its copy: files, commands and permission judge as in the conversation,
/// with the copy in place of the project.
fn walls(
    work: &Workplace,
    settings: &Settings,
    modes: &ModeSwitch,
    allow_all: bool,
    place: &CopyPlace<'_>,
) -> Result<Vec<Arc<dyn Plugin>>, String> {
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (root, cwd) = (real(place.root)?, real(place.cwd)?);
    let add_dirs = if root == cwd { Vec::new() } else { vec![root.clone()] };
    let (machine, scope) = (work.machine.clone(), work.scope);
    let original = work;
    let work = Workplace { machine, cwd, add_dirs, project: root, scope };
    let settings = &settings.hiding(sandbox::hidden_in_copy(original, &work.project, settings));
    let mut containment =
        containment::select(&work, settings, allow_all).map_err(|failure| failure.message)?;
    let judge = policy::judge_of_copy(original, &work, settings, &containment, modes);
    let children = Environment::filtered(work.machine.env.without_secrets());
    let sandbox = containment.sandbox.take().map(Arc::new);
    let is_sandboxed = sandbox.is_some();
    let local = local(&work, settings, children, sandbox).map_err(|failure| failure.message)?;
    // The sandbox for reads of the conversation does not see the copy.
    let reads = ConfiguredSandboxes(&work, settings).start_for_reads();
    let reads: Option<Arc<dyn Exec>> = match reads {
        Ok(exec) => Some(Arc::new(exec)),
        Err(_) if is_sandboxed => None,
        Err(_) => {
            judge.restrict_reads();
            let children = Environment::filtered(work.machine.env.without_secrets());
            Some(Arc::new(super::super::process_exec(settings, children)))
        }
    };
    // Only the conversation itself may ask to read files outside of its workspace, so the agent gets the files of its
    // copy here.
    let outside: Arc<dyn Files> = Arc::new(files(&work, settings).map_err(|failure| failure.message)?);
    let reads = plugin_fn("reads", move |scope| {
        scope.provide_service(Arc::new(OutsideFiles(outside.clone())));
        if let Some(reads) = &reads {
            scope.provide_service(Arc::new(ReadExec(reads.clone())));
        }
        Ok::<(), BoxError>(())
    });
    Ok(vec![Arc::new(local), Arc::new(judge), Arc::new(reads)])
}
