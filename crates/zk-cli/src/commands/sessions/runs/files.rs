//! Files of runs: the store of workspaces that the settings name, and the host of runs that stay on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::model::RunId;
use zk_core::service::{WorkspaceError, WorkspaceRef, Workspaces, visible_line};
use zk_engine::{HostName, KeptWorkspaces, LegSessionError};
use zk_exec::{Environment, LocalStateFiles};
use zk_tui::term::print_stderr;
use zk_undo::FileWorkspaces;
use zk_worktree::GitWorkspaces;

use super::runs;
use crate::app::{AppContext, runtime};
use crate::commands::print;
use crate::compose;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::walls::place::with_ssh_agent;

impl Explain for WorkspaceError {
    fn exit(&self) -> Exit {
        match self {
            Self::Unsuitable { .. } => Exit::Usage,
            Self::InvalidReference(_)
            | Self::OtherKind { .. }
            | Self::NotFound { .. }
            | Self::Damaged { .. }
            | Self::Unreachable { .. }
            | Self::Io { .. } => Exit::Failed,
        }
    }
}

/// Name of this machine for runs whose files are on it.
pub(crate) fn host_name(app: &AppContext) -> Outcome<HostName> {
    let given = app.settings.fleet.host.clone();
    let host = given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    HostName::new(&host).map_err(|error| Failure::usage(format!("fleet.host: {error}")))
}

/// Store of workspaces that the settings name.
pub(crate) fn kept_workspaces(app: &AppContext) -> Outcome<Option<KeptWorkspaces>> {
    let Some(named) = &app.settings.fleet.workspaces else { return Ok(None) };
    let machine = &app.work.machine;
    let no_place = || Failure::usage("there is no place for the files of runs: set HOME or ZK_HOME");
    let root = machine.dirs.worktrees().ok_or_else(no_place)?;
    let files = Arc::new(LocalStateFiles::new(machine.host_files.clone()));
    let store: Arc<dyn Workspaces> = match named.split_once(':') {
        Some(("git", address)) if !address.is_empty() => {
            machine.redactor.learn(address);
            let children = Environment::filtered(machine.env.without_secrets());
            let exec = compose::process_exec(&app.settings, with_ssh_agent(machine, children));
            let address = match address.strip_prefix("~/") {
                Some(_) => in_home(app, address)?.display().to_string(),
                None => address.to_owned(),
            };
            Arc::new(GitWorkspaces::new(address, root.join("repositories"), Arc::new(exec), files.clone()))
        }
        Some(("files", dir)) if dir.starts_with('/') || dir.starts_with("~/") => {
            Arc::new(FileWorkspaces::new(in_home(app, dir)?, machine.dirs.private()))
        }
        _ => {
            return Err(Failure::usage(
                "fleet.workspaces: use `git:ADDRESS` with a bare repository, or `files:DIR` with a path that begins with / or ~/",
            ));
        }
    };
    Ok(Some(KeptWorkspaces::new(store, root.join("runs"), files)))
}

fn in_home(app: &AppContext, path: &str) -> Outcome<PathBuf> {
    match path.strip_prefix("~/") {
        None => Ok(path.into()),
        Some(below) => {
            let home = app.work.machine.env.path("HOME");
            let none = || Failure::usage("fleet.workspaces: there is no HOME for `~/`");
            Ok(home.ok_or_else(none)?.join(below))
        }
    }
}

/// Stores the files of a directory for a run, and tells what stays behind.
pub(super) async fn store_files(app: &AppContext, dir: &Path, run: &RunId) -> Outcome<WorkspaceRef> {
    let none = || {
        Failure::usage(
            "there is no store of workspaces: set `fleet.workspaces` to `git:ADDRESS` or `files:DIR`",
        )
    };
    let kept = kept_workspaces(app)?.ok_or_else(none)?.submit(dir, run).await?;
    for left in &kept.left_out {
        print_stderr(&format!("zk: not carried: {left}"));
    }
    Ok(kept.reference)
}

/// Brings the stored files of a run into a new directory.
pub(crate) fn bring_files(app: &AppContext, run: &str, dir: &Path) -> Outcome<Exit> {
    let dir = app.work.cwd.join(dir);
    let is_free = match std::fs::read_dir(&dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => dir.symlink_metadata().is_err(),
    };
    let shown = visible_line(&dir.display().to_string());
    if !is_free {
        return Err(Failure::usage(format!("{shown} is not empty: name a new directory")));
    }
    let runs = runs(&app.work.machine)?;
    let none = || {
        Failure::usage(
            "there is no store of workspaces: give this machine the setting `fleet.workspaces` of the workers",
        )
    };
    let kept = kept_workspaces(app)?.ok_or_else(none)?;
    let (id, reference) = runtime()?.block_on(async {
        let found = runs.find(run).await?;
        let session = found.job.session();
        let taken = kept.take(&**runs.store(), session, &dir).await;
        let taken = taken.map_err(|error: LegSessionError| Failure::failed(error))?;
        Ok::<_, Failure>((found.job.run().clone(), taken))
    })?;
    match reference {
        Some(reference) => print(&app.work.machine, &[format!("{shown} has the files {reference} of {id}")]),
        None => Err(Failure::usage(format!("{id} has no stored files: it was submitted without `--keep`"))),
    }
}
