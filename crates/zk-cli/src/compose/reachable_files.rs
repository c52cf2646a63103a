use zk_exec::WorkspaceFiles;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::settings::Settings;

/// The files a conversation may reach.
pub(crate) fn files(work: &Workplace, settings: &Settings) -> Outcome<WorkspaceFiles> {
    let mut files = WorkspaceFiles::new(work.roots()).map_err(Failure::failed)?;
    if let Some(home) = work.machine.env.path("HOME") {
        files = files.home(home);
    }
    if let Some(auth) = work.machine.dirs.credentials().as_deref().and_then(std::path::Path::parent) {
        files = files.secret(auth);
    }
    for own in work.machine.dirs.own(&work.roots()) {
        files = files.protected(own);
    }
    for path in sandbox::hidden(&work.machine, settings) {
        files = files.hidden(path);
    }
    Ok(files)
}

/// Files of this machine that a conversation reads once a person agreed, but for what holds credentials and what the system
/// makes up.
pub(super) fn outside_files(work: &Workplace, settings: &Settings) -> Outcome<WorkspaceFiles> {
    let files = ["/proc", "/sys", "/dev"].iter().fold(files(work, settings)?, WorkspaceFiles::hidden);
    files.read_only("/").map_err(Failure::failed)
}
