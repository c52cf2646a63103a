use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use zk_exec::LocalStateFiles;
use zk_tui::DraftFiles;

use super::editor::write_private;
use crate::app::AppContext;
use crate::own_files;

/// Files of drafts in a directory of the person's, named after their processes.
#[derive(Debug)]
struct LocalDraftFiles {
    dir: PathBuf,
    /// File of this process.
    file: PathBuf,
    /// Directory worked in.
    cwd: String,
}

/// The files of drafts; nothing without a directory for them.
pub(super) fn draft_files(app: &AppContext) -> Option<Box<dyn DraftFiles>> {
    let dir = app.dirs.state.as_ref()?.join("drafts");
    let file = dir.join(std::process::id().to_string());
    Some(Box::new(LocalDraftFiles { dir, file, cwd: app.cwd.display().to_string() }))
}

impl DraftFiles for LocalDraftFiles {
    fn take_lost(&self) -> Option<String> {
        let mut found: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&self.dir).ok()?.filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let Some(pid) = pid.filter(|pid| test_kill_process(*pid).is_err()) else { continue };
            let text = own_files::read_text(&entry.path(), own_files::DRAFT).unwrap_or_default();
            if let Some(("", draft)) = text.strip_prefix(&self.cwd).and_then(|rest| rest.split_once('\n')) {
                found.push(draft.to_owned());
                forget(&self.dir.join(pid.as_raw_nonzero().to_string()));
            }
        }
        found.retain(|draft| !draft.trim().is_empty());
        (!found.is_empty()).then(|| found.join("\n"))
    }

    fn store(&self, text: &str) {
        if text.is_empty() {
            return forget(&self.file);
        }
        let text = format!("{}\n{text}", self.cwd);
        let _ = LocalStateFiles::make_private_dir(&self.dir).and_then(|()| write_private(&self.file, &text));
    }
}

fn forget(file: &Path) {
    // Most processes never stored one.
    let _ = std::fs::remove_file(file);
}
