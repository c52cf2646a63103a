use std::path::PathBuf;

use zk_exec::WorkspaceFiles;
use zk_permission::sounds_like_credentials;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::{policy, sandbox};

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
    // A call names where it begins; what it finds below that, no rule was asked about.
    Ok(match policy::rules(work, settings).0.restricted_reads() {
        Some(is_restricted) => files.leaving_out(is_restricted),
        None => files,
    })
}

/// Files of this machine that a conversation reads once a person agreed, but for what holds credentials, what the system makes
/// up, and results of other conversations.
pub(super) fn outside_files(work: &Workplace, settings: &Settings) -> Outcome<WorkspaceFiles> {
    let made_up = ["/proc", "/sys", "/dev"].map(PathBuf::from);
    let closed = made_up.into_iter().chain(work.machine.dirs.outputs());
    let files = closed.fold(files(work, settings)?, WorkspaceFiles::hidden);
    let files =
        files.leaving_out(|path| path.file_name().is_some_and(|name| sounds_like_credentials(name.as_ref())));
    files.read_only("/").map_err(Failure::failed)
}
