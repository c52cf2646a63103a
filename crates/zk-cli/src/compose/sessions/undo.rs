//! The journal of a session's workspace, beside its large results.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_exec::LocalStateFiles;
use zk_undo::{GitSettings, Journal, Undo};

use crate::app::{AppContext, Workplace};
use crate::settings::Settings;

/// Directory of a session's journal.
pub(crate) fn dir(outputs: &Path) -> PathBuf {
    outputs.join("undo")
}

/// Journal of a session with this directory of large results.
pub(crate) fn journal(work: &Workplace, settings: &Settings, outputs: &Path) -> Journal {
    let files = Arc::new(LocalStateFiles::default());
    let env = &work.machine.env;
    let git = GitSettings::of_person(env.path("HOME"), env.path("XDG_CONFIG_HOME"));
    let journal = Journal::new(dir(outputs), &work.roots(), settings.undo.clone(), files);
    let journal = journal.reading_git_settings(git);
    // A workspace may contain zk's own state, such as a home directory.
    work.machine.dirs.private().into_iter().fold(journal, Journal::excluding)
}

/// Plugin that fills the journal; `None` if it is switched off, or if the files are on another machine.
pub(crate) fn plugin(app: &AppContext, outputs: &Path) -> Option<Undo> {
    let is_here = !app.settings.context().is_on_another_machine();
    (app.settings.undo.enabled && is_here).then(|| Undo::new(journal(&app.work, &app.settings, outputs)))
}
