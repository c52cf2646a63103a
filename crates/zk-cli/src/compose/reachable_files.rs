use std::path::PathBuf;

use zk_exec::WorkspaceFiles;
use zk_permission::sounds_like_credentials;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::{policy, sandbox};

/// Returns the files that a conversation can reach.
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
    // The judge checks only the start path of a search, so restricted files are left out of its results.
    Ok(match policy::rules(work, settings).0.restricted_reads() {
        Some(is_restricted) => files.leaving_out(is_restricted),
        None => files,
    })
}

/// Returns the files outside of the project that tools may read after a person approved it. Credentials,
/// system files such as `/proc`, and results of other conversations are excluded.
pub(super) fn outside_files(work: &Workplace, settings: &Settings) -> Outcome<WorkspaceFiles> {
    let made_up = ["/proc", "/sys", "/dev"].map(PathBuf::from);
    let closed = made_up.into_iter().chain(work.machine.dirs.outputs());
    let files = closed.fold(files(work, settings)?, WorkspaceFiles::hidden);
    let files =
        files.leaving_out(|path| path.file_name().is_some_and(|name| sounds_like_credentials(name.as_ref())));
    files.read_only("/").map_err(Failure::failed)
}
